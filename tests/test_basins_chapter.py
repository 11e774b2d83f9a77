"""The chapter on basins refuses passages that are all on its topic before a chain runs."""

import json
import re
from pathlib import Path
from typing import Any

import papermill
import pytest
import yaml

from glauber.passages import read_passages

ROOT = Path(__file__).parents[1]
QUICK = yaml.safe_load((ROOT / "notebooks" / "profiles.yml").read_text("utf-8"))["quick"]["basins"]


def before_chains(notebook: Any, last: int) -> bool:
    """Whether no cell up to the last one begins the long chains."""
    return not any("p.sweeps * p.n" in cell.source for cell in notebook.cells[: last + 1] if cell.cell_type == "code")


@pytest.mark.parametrize("suffix", [".jsonl", ".txt"])
def test_passages_that_are_all_on_the_topic_stop_before_any_chain(suffix: str, tmp_path: Path) -> None:
    """Their topics stand in the file, or are those of the score."""
    texts = [passage.text for passage in read_passages() if passage.topic == "politics"]
    path = tmp_path / f"all{suffix}"
    lines = [json.dumps({"text": text, "topic": "politics"}) if suffix == ".jsonl" else text for text in texts]
    path.write_text("\n".join(lines), "utf-8")
    out = tmp_path / "basins.ipynb"
    with pytest.raises(papermill.PapermillExecutionError) as caught:
        papermill.execute_notebook(
            ROOT / "notebooks" / "basins.ipynb", out, kernel_name="python3", progress_bar=False, cwd=ROOT,
            parameters={**QUICK, "passages": str(path), "n": 16, "other": "", "starts": 4},
        )  # fmt: skip
    (line,) = [line for line in caught.value.traceback if re.search(r"all 4 passages are on topic 'politics'", line)]
    assert "\n" not in line.strip()
    failed = papermill.iorw.load_notebook_node(str(out))
    (at,) = [
        k
        for k, cell in enumerate(failed.cells)
        if any(o.get("output_type") == "error" for o in cell.get("outputs", []))
    ]
    assert before_chains(failed, at)
    assert not before_chains(failed, len(failed.cells))
