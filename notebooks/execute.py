"""Execute one notebook with papermill, as the book does.

Usage: python notebooks/execute.py NOTEBOOK TARGET LOG PARAMETERS, the last as JSON. The Snakefile calls it.
"""

import fcntl
import json
import logging
import os
import sys
from pathlib import Path

import nbformat
import papermill


def execute(source: Path, target: Path, values: dict[str, object], log: Path) -> None:
    """Run ``source`` with parameters ``values``; write ``target`` only if every cell succeeded.

    The half-finished notebook of a failed run is kept beside the log, and the failing cell's traceback is printed.
    """
    log.parent.mkdir(parents=True, exist_ok=True)
    lock = log.with_suffix(".lock").open("w")
    # A job can outlive a build that was killed: wait for it, since two would write the same files.
    fcntl.flock(lock, fcntl.LOCK_EX)
    target.parent.mkdir(parents=True, exist_ok=True)
    unfinished = log.with_suffix(".unfinished.ipynb")
    logging.basicConfig(
        filename=log, level=logging.INFO, format="%(asctime)s %(message)s", encoding="utf-8", force=True
    )
    try:
        papermill.execute_notebook(
            source, unfinished, parameters=values, kernel_name="python3", progress_bar=False, log_output=True,
            cwd=Path.cwd(),
        )  # fmt: skip
    except papermill.PapermillExecutionError as error:
        print(f"{source} failed; the run so far is {unfinished}\n{error}", file=sys.stderr)
        raise SystemExit(1) from None
    notebook = nbformat.read(unfinished, as_version=4)
    for cell in notebook.cells:
        # papermill's own cell of parameters would show twice beside the notebook's.
        if "injected-parameters" in cell.metadata.get("tags", []):
            cell.metadata["tags"].append("hide-input")
    nbformat.write(notebook, unfinished)
    os.replace(unfinished, target)


if __name__ == "__main__":
    notebook, output, report, parameters = sys.argv[1:]
    execute(Path(notebook), Path(output), json.loads(parameters), Path(report))
