"""The chapter on basins refuses passages that are all on its topic before a chain runs."""

import json
from pathlib import Path
from typing import Any

import nbformat
import pytest
import yaml
from test_notebooks import run_here

from glauber import ParameterError
from glauber.passages import read_passages

ROOT = Path(__file__).parents[1]
QUICK = yaml.safe_load((ROOT / "notebooks" / "profiles.yml").read_text("utf-8"))["quick"]["basins"]


def before_chains(notebook: Any, last: int) -> bool:
    """Whether no cell up to the last one begins the long chains."""
    return not any("p.sweeps * p.n" in cell.source for cell in notebook.cells[: last + 1] if cell.cell_type == "code")


@pytest.mark.parametrize("suffix", [".jsonl", ".txt"])
def test_passages_that_are_all_on_the_topic_stop_before_any_chain(
    suffix: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Their topics stand in the file, or are those of the score."""
    texts = [passage.text for passage in read_passages() if passage.topic == "politics"]
    path = tmp_path / f"all{suffix}"
    lines = [json.dumps({"text": text, "topic": "politics"}) if suffix == ".jsonl" else text for text in texts]
    path.write_text("\n".join(lines), "utf-8")
    given = {**QUICK, "passages": str(path), "n": 16, "other": "", "starts": 4}
    monkeypatch.chdir(ROOT)
    notebook, done = nbformat.read(ROOT / "notebooks" / "basins.ipynb", 4), list[int]()
    with pytest.raises(ParameterError, match="all 4 passages are on topic 'politics'") as caught:
        run_here(notebook, given, done)
    assert "\n" not in str(caught.value)
    assert before_chains(notebook, done[-1])
    assert not before_chains(notebook, len(notebook.cells))
