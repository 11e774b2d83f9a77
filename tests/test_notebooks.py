"""Notebooks: paired files in sync, parameters intact, every one runs under `quick`, wrong parameters stop at once."""

import ast
import re
from collections import Counter
from pathlib import Path
from typing import Any

import jupytext
import nbformat
import papermill
import pytest
import yaml

from glauber import GlauberError

ROOT = Path(__file__).parents[1]
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
PROFILES = yaml.safe_load((ROOT / "notebooks" / "profiles.yml").read_text("utf-8"))


def run(path: Path, out: Path, **values: object) -> Any:
    return papermill.execute_notebook(
        path, out / path.name, parameters=values, kernel_name="python3", progress_bar=False, cwd=ROOT
    )


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


def complaints(notebook: Any) -> list[str]:
    """Errors, and what was written to standard error other than how far a long loop is."""
    outputs = [o for c in notebook.cells for o in c.get("outputs", [])]
    lines = [line for o in outputs if o.get("name") == "stderr" for line in o.text.splitlines()]
    progress = re.compile(r".*: \d+/\d+ \w+, \d+ s")
    return [o.ename for o in outputs if o.output_type == "error"] + [
        line for line in lines if not progress.fullmatch(line)
    ]


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


def test_a_key_is_glued_once(path: Path) -> None:
    """The page would show the last value wherever the key is quoted."""
    source = "\n".join(cell.source for cell in nbformat.read(path, 4).cells if cell.cell_type == "code")
    keys = re.findall(r"""glue\(\s*f?["']([^"']+)["']""", source)
    assert keys
    # A key with a value in its name stands for one key a value.
    assert not [key for key, count in Counter(keys).items() if count > 1 and "{" not in key]


def test_profiles_name_known_parameters(path: Path) -> None:
    names = {t.id for s in ast.parse(parameters_cell(nbformat.read(path, 4)).source).body for t in s.targets}
    for profile, notebooks in PROFILES.items():
        assert set(notebooks[path.stem]) <= names, profile


def test_runs_under_quick(path: Path, tmp_path: Path) -> None:
    done = run(path, tmp_path, **PROFILES["quick"][path.stem])
    assert not complaints(done)


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
def test_runs_at_the_edges(name: str, values: dict[str, object], tmp_path: Path) -> None:
    done = run(ROOT / "notebooks" / f"{name}.ipynb", tmp_path, **{**PROFILES["quick"][name], **values})
    assert not complaints(done)


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


def test_a_name_that_is_not_there_stops_papermill_with_one_line(path: Path, tmp_path: Path) -> None:
    with pytest.raises(papermill.PapermillExecutionError) as caught:
        run(path, tmp_path, modle="x")
    assert caught.value.cell_index <= 5
    (line,) = [line for line in caught.value.traceback if "parameter 'modle' is unknown" in line]
    assert "\n" not in line.strip()


def test_first_cells_run_twice_in_one_kernel(tmp_path: Path) -> None:
    """Run the cells again from the top, as a reader does who has changed a parameter."""
    notebook = nbformat.read(ROOT / "notebooks" / "models.ipynb", 4)
    cells = [cell for cell in notebook.cells if cell.cell_type == "code"][:3]
    again = nbformat.v4.new_code_cell(parameters_cell(notebook).source + "\nstarts = 5")
    wrong = nbformat.v4.new_code_cell("modle = 'x'")
    notebook.cells = [*cells, again, *(nbformat.v4.new_code_cell(cell.source) for cell in cells[1:])]
    (tmp_path / "done").mkdir()
    nbformat.write(notebook, tmp_path / "twice.ipynb")
    assert not complaints(run(tmp_path / "twice.ipynb", tmp_path / "done"))
    notebook.cells += [wrong, nbformat.v4.new_code_cell(cells[1].source)]
    nbformat.write(notebook, tmp_path / "wrong.ipynb")
    with pytest.raises(papermill.PapermillExecutionError, match="parameter 'modle' is unknown"):
        run(tmp_path / "wrong.ipynb", tmp_path / "done")
