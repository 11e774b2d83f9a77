"""Notebooks: paired files in sync, parameters intact, every one runs under `quick`, wrong parameters stop at once."""

import ast
import io
import re
import sys
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

import jupytext
import matplotlib as mpl
import nbformat
import papermill
import pytest
import yaml
from IPython.core.interactiveshell import InteractiveShell
from traitlets.config import Config

from glauber import GlauberError

ROOT = Path(__file__).parents[1]
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
sys.path.insert(0, str(ROOT / "notebooks"))
import inputs  # noqa: E402

PROFILES = yaml.safe_load((ROOT / "notebooks" / "profiles.yml").read_text("utf-8"))


def run(path: Path, out: Path, **values: object) -> Any:
    return papermill.execute_notebook(
        path, out / path.name, parameters=values, kernel_name="python3", progress_bar=False, cwd=ROOT
    )


@contextmanager
def interactive() -> Iterator[InteractiveShell]:
    """What a kernel runs cells in, within this process: the start of a kernel takes longer than most notebooks."""
    config = Config({"HistoryManager": {"enabled": False}})
    shell = InteractiveShell.instance(config=config)
    try:
        with mpl.rc_context():
            yield shell
    finally:
        shell.restore_sys_module_state()
        InteractiveShell.clear_instance()


def run_here(notebook: Any, values: Mapping[str, object], begun: list[int] | None = None) -> list[str]:
    """Run the cells of a notebook with parameters; lines on standard error and warnings, none where all is well.

    The index of each cell that begins is appended to ``begun``.
    """
    own, noise = parameters_cell(notebook), io.StringIO()
    with interactive() as shell, redirect_stderr(noise), redirect_stdout(io.StringIO()):
        for index, cell in enumerate(notebook.cells):
            if cell.cell_type != "code":
                continue
            if begun is not None:
                begun.append(index)
            with warnings.catch_warnings(record=True) as told:
                warnings.simplefilter("default")
                for kind in (DeprecationWarning, PendingDeprecationWarning, ImportWarning, ResourceWarning):
                    warnings.simplefilter("ignore", kind)  # as Python itself does
                shell.run_cell(cell.source, store_history=True).raise_error()
            print(*(f"{w.category.__name__}: {w.message}" for w in told), sep="\n", end="", file=noise)
            if cell is own:
                shell.push(dict(values))
    return lines_of_concern(noise.getvalue())


def refusal(path: Path, values: dict[str, object]) -> str:
    """The sentence that the first cells of a notebook end with, run here: a kernel for each would take minutes in all."""
    notebook = nbformat.read(path, 4)
    namespace: dict[str, Any] = {"__name__": "__main__"}
    for index, cell in enumerate(notebook.cells[:6]):
        if cell.cell_type == "code":
            try:
                exec(compile(cell.source, f"{path.name}, cell {index}", "exec"), namespace)
            except GlauberError as error:
                assert "\n" not in str(error)
                return str(error)
            if cell is parameters_cell(notebook):
                namespace |= values
    raise AssertionError(f"the first cells of {path.name} take {values}")


def lines_of_concern(text: str) -> list[str]:
    """Lines on standard error other than how far a long loop is."""
    return [line for line in text.splitlines() if not re.fullmatch(r".*: \d+/\d+ \w+, \d+ s", line)]


def complaints(notebook: Any) -> list[str]:
    outputs = [o for c in notebook.cells for o in c.get("outputs", [])]
    lines = [line for o in outputs if o.get("name") == "stderr" for line in lines_of_concern(o.text)]
    return [o.ename for o in outputs if o.output_type == "error"] + lines


def glued(notebook: Any) -> list[str]:
    """Keys that an executed notebook made, in order, repeats included."""
    outputs = [o for c in notebook.cells for o in c.get("outputs", [])]
    return [o.metadata["scrapbook"]["name"] for o in outputs if "scrapbook" in o.get("metadata", {})]


def quoted(page: Path) -> list[tuple[str, str]]:
    """Notebook and key of each glue role and directive of a page; the notebook is empty where it is the page itself."""
    if page.suffix == ".md":
        text = page.read_text("utf-8")
    else:
        text = "\n".join(cell.source for cell in nbformat.read(page, 4).cells if cell.cell_type == "markdown")
    roles = [name.rpartition("::") for name in re.findall(r"\{glue(?::\w*)?\}`([^`]+)`", text)]
    directives = re.findall(r"^`{3,}\{glue(?::\w*)?\} +(\S+)\n(?::doc: +(\S+))?", text, re.MULTILINE)
    assert len(roles) + len(directives) == text.count("{glue")
    found = [(where, key.split(":")[0]) for where, _, key in roles] + [(where, key) for key, where in directives]
    return [(Path(where).stem, key) for where, key in found]


def parameters_cell(notebook: Any) -> Any:
    (cell,) = [cell for cell in notebook.cells if "parameters" in cell.metadata.get("tags", [])]
    return cell


@pytest.fixture(params=NOTEBOOKS, ids=lambda path: path.stem)
def path(request: pytest.FixtureRequest) -> Path:
    return Path(request.param)


def test_pairs_are_in_sync(path: Path) -> None:
    notebook, script = nbformat.read(path, 4), jupytext.read(path.with_suffix(".py"))
    assert [(c.cell_type, c.source) for c in notebook.cells] == [(c.cell_type, c.source) for c in script.cells]
    assert [c.metadata.get("tags") for c in notebook.cells] == [c.metadata.get("tags") for c in script.cells]
    assert notebook.metadata.kernelspec.name == "python3"


def test_no_outputs_are_stored(path: Path) -> None:
    for cell in nbformat.read(path, 4).cells:
        assert not cell.get("outputs")
        assert cell.get("execution_count") is None


def test_parameters_are_literals_and_survive_the_round_trip(path: Path) -> None:
    notebook = nbformat.read(path, 4)
    cell = parameters_cell(notebook)
    for statement in ast.parse(cell.source).body:
        assert isinstance(statement, ast.Assign)
        ast.literal_eval(statement.value)
    again = jupytext.reads(jupytext.writes(notebook, fmt="py:percent"), fmt="py:percent")
    assert parameters_cell(again).source == cell.source


def test_profiles_name_known_parameters(path: Path) -> None:
    names = {t.id for s in ast.parse(parameters_cell(nbformat.read(path, 4)).source).body for t in s.targets}
    for profile, notebooks in PROFILES.items():
        assert set(notebooks[path.stem]) <= names, profile


def test_runs_under_quick(path: Path, executed: Callable[[str], Any]) -> None:
    assert not complaints(executed(path.stem))


def test_every_module_that_a_notebook_imports_is_an_input_of_its_build(
    path: Path, executed: Callable[[str], Any]
) -> None:
    """Asked of the kernel at the end of the run, so that imports within functions count."""
    (loaded,) = [o.text for o in executed(path.stem).cells[-1].outputs if o.get("name") == "stdout"]
    assert "glauber/report.py" in loaded.split()
    assert set(loaded.split()) <= set(inputs.inputs(path, {}, ROOT))


def test_every_key_of_a_notebook_is_glued_once(path: Path, executed: Callable[[str], Any]) -> None:
    """A page would show the last value wherever the key is quoted."""
    made = Counter(glued(executed(path.stem)))
    own = {key for where, key in quoted(path) if not where}
    assert made and own
    assert {key: made[key] for key in own if made[key] != 1} == {}
    assert [key for key, count in made.items() if count > 1] == []


def quoted_elsewhere(page: Path) -> list[tuple[str, str]]:
    """Keys that a page quotes from notebooks other than itself."""
    return [(where, key) for where, key in quoted(page) if where or page.suffix == ".md"]


QUOTING = [page for page in [*(ROOT / "book").rglob("*.md"), *NOTEBOOKS] if quoted_elsewhere(page)]


@pytest.mark.parametrize("page", sorted(QUOTING), ids=lambda page: page.name)
def test_every_key_of_another_notebook_is_glued_there(page: Path, executed: Callable[[str], Any]) -> None:
    missing = [(where, key) for where, key in quoted_elsewhere(page) if glued(executed(where)).count(key) != 1]
    assert not missing


LARGE_SEED = 2**63 - 1


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("contraction", {"n": 2, "other": "", "seed": LARGE_SEED}),  # every temperature is certified
        ("escape", {"temperatures": [1e-4, 1e-3], "seed": LARGE_SEED}),  # no chain leaves any trap
        ("incompatibility", {"starts": 1, "dtype": "float64", "seed": LARGE_SEED}),
        ("incompatibility", {"other": ""}),
        ("escape", {"other": ""}),
        ("transition", {"other": "glauber-tiny"}),  # the same as model
        ("basins", {"other": ""}),
        ("models", {"other": "", "starts": 1}),
        ("models", {"model": "glauber-mini", "starts": 1}),  # both are the same one
    ],
)
def test_runs_at_the_edges(name: str, values: dict[str, object], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    notebook = nbformat.read(ROOT / "notebooks" / f"{name}.ipynb", 4)
    assert not run_here(notebook, {**PROFILES["quick"][name], **values})


@pytest.mark.parametrize(
    ("name", "values", "sentence"),
    [
        ("incompatibility", {"n": 200}, r"n = 200 tokens do not fit model 'glauber-tiny': its usable length is \d+"),
        ("contraction", {"other": "./nowhere"}, r"model './nowhere': no folder is there"),
        ("contraction", {"n": 200}, r"n = 200 tokens do not fit model 'glauber-tiny': its usable length is \d+"),
        ("escape", {"n": 200}, r"n = 200 tokens do not fit model 'glauber-tiny': its usable length is \d+"),
        ("escape", {"n": 8, "distance": 9}, r"distance = 9 must be at most n = 8"),
        (
            "escape",
            {"temperatures": [0.2, 0.2]},
            r"parameter temperatures = \[0.2, 0.2\] is refused: give each value once",
        ),
        (
            "transition",
            {"temperatures": [1.0, 1.0, 2.0]},
            r"parameter temperatures = .* is refused: give each value once",
        ),
        ("transition", {"lengths": [8, 8]}, r"parameter lengths = \[8, 8\] is refused: give each value once"),
        ("transition", {"factor": float("inf")}, r"parameter factor = inf is refused"),
        ("transition", {"n": 8, "lengths": [8, 200]}, r"the longest of n and lengths = 200 tokens do not fit model"),
        (
            "basins",
            {"clusters": 4000},
            r"clusters = 4000 need 16000 texts, and starts x \(sweeps \+ 1\) are 6030: give fewer",
        ),
        ("models", {"n": 200}, r"n = 200 tokens do not fit model 'glauber-tiny': its usable length is \d+"),
        ("models", {"other": "./nowhere"}, r"model './nowhere': no folder is there"),
        ("models", {"results": "README.md"}, r"results = 'README.md' is no table of make bench"),
        ("speed", {"results": "README.md"}, r"results = 'README.md' is no table of make bench"),
        ("speed", {"results": "data/paper.csv"}, r"results = 'data/paper.csv' is no table of make bench: it lacks"),
    ],
)
def test_parameters_that_do_not_fit_stop_in_the_first_cells(
    name: str, values: dict[str, object], sentence: str
) -> None:
    assert re.search(sentence, refusal(ROOT / "notebooks" / f"{name}.ipynb", values))


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        # The page on speed runs no model and knows neither n nor model.
        ({"modle": "x"}, r"parameter 'modle' is unknown"),
        ({"n": -3}, r"parameter (n = -3 is refused|'n' is unknown)"),
        ({"model": "nowhere"}, r"(model 'nowhere' is no embedded model|parameter 'model' is unknown)"),
        ({"starts": True}, r"parameter (starts = True is refused|'starts' is unknown)"),
        ({"model": 2024}, r"parameter (model = 2024 is refused: .* -r model 2024|'model' is unknown)"),
        ({"passages": "./none.txt"}, r"(passages file './none.txt' is not there|parameter 'passages' is unknown)"),
    ],
)
def test_wrong_parameters_stop_in_the_first_cells(
    path: Path, monkeypatch: pytest.MonkeyPatch, values: dict[str, object], sentence: str
) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    assert re.search(sentence, refusal(path, values))


def test_a_name_that_is_not_there_stops_papermill_with_one_line(tmp_path: Path) -> None:
    """In a kernel once; `test_wrong_parameters_stop_in_the_first_cells` asks it of each notebook."""
    with pytest.raises(papermill.PapermillExecutionError) as caught:
        run(ROOT / "notebooks" / "contraction.ipynb", tmp_path, modle="x")
    assert caught.value.cell_index <= 5
    (line,) = [line for line in caught.value.traceback if "parameter 'modle' is unknown" in line]
    assert "\n" not in line.strip()


def test_first_cells_run_twice_in_one_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    """Run the cells again from the top, as a reader does who has changed a parameter."""
    monkeypatch.chdir(ROOT)
    notebook = nbformat.read(ROOT / "notebooks" / "models.ipynb", 4)
    cells = [cell for cell in notebook.cells if cell.cell_type == "code"][:3]
    again = nbformat.v4.new_code_cell(parameters_cell(notebook).source + "\nstarts = 5")
    notebook.cells = [*cells, again, *(nbformat.v4.new_code_cell(cell.source) for cell in cells[1:])]
    assert not run_here(notebook, {})
    notebook.cells += [nbformat.v4.new_code_cell("modle = 'x'"), nbformat.v4.new_code_cell(cells[1].source)]
    with pytest.raises(GlauberError, match="parameter 'modle' is unknown"):
        run_here(notebook, {})
