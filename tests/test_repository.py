"""The repository agrees with itself: environments, table of contents, model cards."""

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import yaml
from matplotlib import cbook
from matplotlib.text import Text
from scipy import stats

from glauber import figures, report
from glauber.errors import GlauberError, ParameterError
from glauber.figures import basins as draw_basins
from glauber.figures import models as draw_models

ROOT = Path(__file__).parents[1]


def names(requirements: list[str]) -> dict[str, str]:
    """Requirement lines as name to version range."""
    parsed = {}
    for line in requirements:
        name, bounds = re.fullmatch(r"([A-Za-z0-9._-]+)\s*(.*)", line).groups()  # type: ignore[union-attr]
        parsed[name.lower()] = bounds.replace(" ", "")
    return parsed


def test_environment_yml_has_the_packages_of_pyproject() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    wanted = names(
        [*project["dependencies"], *(r for extra in project["optional-dependencies"].values() for r in extra)]
    )
    environment = yaml.safe_load((ROOT / "environment.yml").read_text("utf-8"))
    listed = [d for d in environment["dependencies"] if isinstance(d, str) and not re.match(r"(python|pip|make)\b", d)]
    (pip,) = [d["pip"] for d in environment["dependencies"] if isinstance(d, dict)]
    pip = [line for line in pip if not line.startswith("-e")]
    assert {**names(listed), **names(pip)} == {
        name.replace("torch", "pytorch") if name == "torch" else name: bounds for name, bounds in wanted.items()
    }
    assert f"python{project['requires-python']}" in [
        d.replace(" ", "") for d in environment["dependencies"] if isinstance(d, str)
    ]


def test_lock_covers_the_dependencies_and_holds_hashes() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    wanted = names(
        [*project["dependencies"], *(r for extra in project["optional-dependencies"].values() for r in extra)]
    )
    lock = (ROOT / "requirements.lock").read_text("utf-8")
    locked = {line.split("==")[0] for line in lock.splitlines() if re.match(r"[a-z0-9]", line)}
    assert set(wanted) - {"torch"} <= locked
    assert "http" + "://" not in lock and "https" + "://" not in lock
    assert lock.count("--hash=sha256:") > len(locked)


def test_table_of_contents_names_files_that_are_there() -> None:
    toc = yaml.safe_load((ROOT / "_toc.yml").read_text("utf-8"))
    pages = [toc["root"], *(c["file"] for part in toc["parts"] for c in part["chapters"])]
    for page in pages:
        assert list(ROOT.glob(f"{page}.md")) or list(ROOT.glob(f"{page}.ipynb")), page
    chapters = {p.stem for p in (ROOT / "notebooks").glob("*.ipynb")}
    assert {Path(p).name for p in pages if p.startswith("notebooks/")} == chapters


def test_every_embedded_model_has_a_card() -> None:
    for config in (ROOT / "data" / "models").glob("*/config.json"):
        card = (config.parent / "README.md").read_text("utf-8")
        for word in ("licence", "trained", "loss"):
            assert word in card.lower(), (config.parent.name, word)


def test_papers_figures_are_looked_up() -> None:
    assert report.paper_value("delta_low") == 0.64
    with pytest.raises(GlauberError, match="is not in data"):
        report.paper_value("delta_middle")


def test_means_carry_students_interval() -> None:
    row = report.mean_interval([1.0, 2.0, 3.0])
    half = 4.302652729911275 / 3**0.5  # the 97.5 % quantile with two degrees of freedom
    assert row.tolist() == pytest.approx([2.0, 2.0 - half, 2.0 + half])
    assert "no interval from one sample" in report.interval(report.mean_interval([1.0]))
    # The same sample as shares: their mean is at most 1, and at least 0.
    assert report.mean_interval([0.0, 0.5, 1.0], least=0, most=1).tolist() == [0.5, 0.0, 1.0]
    assert np.isnan(report.mean_interval([0.5], least=0, most=1)["low"])


def test_two_models_are_compared_in_words() -> None:
    # Differences 1, 2, 3 against Student's quantile with two degrees of freedom.
    assert report.paired([0, 0, 0], [1, 2, 3]) == "+2.000 [-0.484, +4.484], which holds 0"
    assert report.paired([0, 0, 0], [-10, -11, -12]).endswith("which leaves 0 out")
    assert report.paired([0], [1]) == "no difference can be told from one pair"
    assert report.by_model({"a": {"x": "1"}, "b": {"x": "2"}}).to_dict("records") == [
        {"quantity": "x", "a": "1", "b": "2"}
    ]


def test_pairs_are_compared_by_their_differences() -> None:
    """Chains that differ by far more than the two sources do: their own intervals overlap, those of the differences do not hold 0."""
    rng = np.random.default_rng(0)
    one = rng.random(30) * 0.5
    two = one + 0.025 + 0.01 * rng.standard_normal(30)
    found = report.difference_interval(one, two, paired=True, most=1)
    limits = stats.ttest_rel(two, one).confidence_interval()
    assert found.tolist() == pytest.approx([(two - one).mean(), limits.low, limits.high])
    assert report.lies(found) == "above"
    assert report.lies(report.difference_interval(two, one, paired=True)) == "below"
    assert report.mean_interval(one)["high"] > report.mean_interval(two)["low"]  # overlap
    assert report.lies(report.difference_interval(one, two, paired=False)) == "not distinguishable from"
    with pytest.raises(ParameterError, match="2 and 3 values are no pairs"):
        report.difference_interval([1, 2], [1, 2, 3], paired=True)


def test_independent_samples_are_compared_by_the_interval_of_their_difference() -> None:
    """Of two equal standard errors an interval of the difference is 1.4 times as wide, not twice: overlap is no test."""
    one = np.linspace(-1, 1, 50)
    two = one + 0.26
    assert report.mean_interval(one)["high"] > report.mean_interval(two)["low"]
    found = report.difference_interval(one, two, paired=False)
    limits = stats.ttest_ind(two, one, equal_var=False).confidence_interval()
    assert found.tolist() == pytest.approx([0.26, limits.low, limits.high])
    assert report.lies(found) == "above"
    assert report.lies(report.difference_interval([1.0], [1.0, 2.0], paired=False)) == "not comparable with"
    assert report.difference_interval([0, 1], [0, 1, 1], paired=False, most=1)["high"] == 1
    for paired in (True, False):  # equal values are no proof of no difference
        assert report.lies(report.difference_interval([0, 0], [0, 0], paired=paired)) == "not comparable with"
    assert report.paired([0, 0], [0, 0]) == "+0.000, the same in all 2 pairs"


def test_certified_figures_are_rounded_up() -> None:
    assert [report.round_up(623.1), report.round_up(623.0), report.round_up(0.0)] == [624, 623, 0]
    assert report.round_up(166.51, 1) == 166.6


def test_shares_are_printed_as_percentages() -> None:
    row = {"unit": "", "estimate": 0.99994, "low": 0.9997, "high": 1.0}
    ours = pd.DataFrame([{"statistic": "share above the noise floor", **row}, {"statistic": "normalised", **row}])
    (cells,) = report.beside_paper({"m": ours}, {}, "paper").to_dict("records")
    assert cells["share above the noise floor"] == "99.99% [99.97%, 100.00%]"
    assert cells["normalised"].startswith("1.000 ")


def test_tables_show_texts_as_they_are() -> None:
    frame = pd.DataFrame({"<b>": ["<!--", "run_$LR_0_1$", "a & b"], "x": [1.5, 2.5, np.nan]})
    page = report.table(frame, {"x": "{:.2f}", "<b>": "token {}"}, {"x": "<nats>"}).to_html()
    for text in ("token &lt;!--", "run_$LR_0_1$", "a &amp; b", "&lt;b&gt;", "x (&lt;nats&gt;)", "1.50", "–"):
        assert text in page
    assert "<!--" not in page and "<b>" not in page
    assert 'class="tex2jax_ignore mathjax_ignore"' in page


def test_a_second_build_waits_and_a_killed_one_is_no_hindrance(tmp_path: Path) -> None:
    script = ROOT / "notebooks" / "build.py"
    # In place of Snakemake: a module of its name that says that it runs, and then waits.
    (tmp_path / "snakemake.py").write_text("import sys, time; print(*sys.argv[1:], flush=True); time.sleep(60)")

    def start() -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, script, "quick"], cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )

    first = start()
    assert first.stdout is not None and "--nolock" in first.stdout.readline()
    told = start().communicate(timeout=30)
    assert told == ("", "another build of this folder is running: wait for it, or stop it\n")
    first.kill()
    first.communicate()
    again = start()
    assert again.stdout is not None and "profile=quick" in again.stdout.readline()
    again.kill()
    again.communicate()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (None, "no such file; run make bench"),
        ("# A page\n\nwith, commas\nand, more, of, them\n", "is no table of make bench: it lacks model"),
        ("quantity,value,unit\nx,1,y\n", "it lacks model, n, chains"),
        (",".join(report.BENCH) + "\n", "it is empty"),
        ("", "is no table of make bench"),
    ],
)
def test_other_tables_are_no_results(text: str | None, words: str, tmp_path: Path) -> None:
    path = tmp_path / "other.csv"
    if text is not None:
        path.write_text(text, encoding="utf-8")
    with pytest.raises(GlauberError) as caught:
        report.read_results(str(path))
    assert words in str(caught.value) and "\n" not in str(caught.value)
    assert len(report.read_results(str(ROOT / "benchmarks" / "results.csv")))


def test_citations_are_in_the_bibliography() -> None:
    entries = set(re.findall(r"@\w+\{([^,]+),", (ROOT / "book" / "references.bib").read_text("utf-8")))
    for page in [*(ROOT / "book").glob("*.md"), *(ROOT / "notebooks").glob("*.py"), *(ROOT / "glauber").rglob("*.py")]:
        for group in re.findall(r"\{?:?cite:?\}?`([^`]+)`", page.read_text("utf-8")):
            assert {key.strip() for key in group.split(",")} <= entries, page.name


def test_names_with_dollar_signs_are_no_mathematics() -> None:
    """A model's folder, a topic or a token can hold two of them; matplotlib would read a formula, or fail on it."""
    name = r"run_$LR_0_1$ and $\frac$"
    series = {name: pd.Series([1e-3, 0.2, 0.5]), "b": pd.Series([0.1, 0.3])}
    losses = pd.DataFrame({name: [1.0, 2.0], "b": [1.5, 1.0]})
    shares = pd.DataFrame({"topic": [name, "b"], "source": "s", "share": 0.5, "low": 0.4, "high": 0.6})
    made = [
        figures.discrepancy_distribution(series, 1e-5),
        draw_models.loss_against_loss(losses),
        draw_basins.topic_shares(shares, name),
    ]
    for figure in made:
        figure.draw_without_rendering()
        texts = [text for text in figure.findobj(Text) if "LR_0_1" in text.get_text()]
        assert texts and not any(cbook.is_math_text(text.get_text()) for text in texts)
