"""Fixtures shared by the tests: tiny random checkpoints of every family, and the embedded model.

`make test` runs the tests in two processes. What takes long to make is made by one of them and read by both: see `Once`.
"""

import fcntl
import os
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

# Before torch loads. One thread for each process and for the kernels it starts: two processes keep two cores busy.
os.environ.setdefault("OMP_NUM_THREADS", "1")

import nbformat
import papermill
import pytest
import torch
import yaml
from checkpoints import NETWORKS, build
from hypothesis import settings

import glauber
from glauber import exact
from glauber.passages import read_passages, starting_states

ROOT = Path(__file__).parents[1]
# No more, whatever was asked for: threads only get in each other's way on models this small.
torch.set_num_threads(min(2, torch.get_num_threads()))

# The same examples on every run, so that a change is judged by what it changes; `--hypothesis-profile=default` draws new ones.
settings.register_profile("fixed", derandomize=True, deadline=None)
settings.load_profile("fixed")


class Once:
    """Files and folders that the processes of one test run have in common, each made by the first that asks for it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(exist_ok=True)

    def __call__(self, name: str, make: Callable[[Path], object]) -> Path:
        """Path of ``name``, made by ``make`` unless it is there. Others wait; after a failure the next one tries."""
        path = self.folder / name
        with (self.folder / f"{name}.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not path.exists():
                unfinished = self.folder / f"unfinished-{os.getpid()}-{name}"
                make(unfinished)
                unfinished.rename(path)
        return path


@pytest.fixture(scope="session")
def once(tmp_path_factory: pytest.TempPathFactory) -> Once:
    """Shared files of this test run. Under xdist the base folder is one of the process, below that of the run."""
    base = tmp_path_factory.getbasetemp()
    return Once((base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "once")


# Run in the kernel after the notebook: the modules of this repository that it has loaded.
LOADED = """
import sys, pathlib, glauber
_files = {m.__file__ for name, m in list(sys.modules.items()) if name.split(".")[0] == "glauber"}
print(*sorted(str(pathlib.Path(f).relative_to(pathlib.Path(glauber.__file__).parents[1])) for f in _files))
"""


@pytest.fixture(scope="session")
def executed(once: Once) -> Callable[[str], Any]:
    """A notebook by name as papermill leaves it under the profile ``quick``, with a last cell that prints `LOADED`."""
    profile = yaml.safe_load((ROOT / "notebooks" / "profiles.yml").read_text("utf-8"))["quick"]

    def make(name: str, out: Path) -> None:
        notebook = nbformat.read(ROOT / "notebooks" / f"{name}.ipynb", 4)
        notebook.cells.append(nbformat.v4.new_code_cell(LOADED))
        papermill.execute_notebook(
            notebook, out, parameters=profile[name], kernel_name="python3", progress_bar=False, cwd=ROOT
        )

    return lambda name: nbformat.read(once(f"{name}.ipynb", partial(make, name)), 4)


@pytest.fixture(scope="session")
def checkpoints(once: Once) -> dict[str, Path]:
    """Folder of each checkpoint by family: seven masked language models, ``gpt2`` and ``headless``. Not to be written to."""

    def make(root: Path) -> None:
        for family in NETWORKS:
            build(family, root / family)

    root = once("checkpoints", make)
    return {family: root / family for family in NETWORKS}


@pytest.fixture(scope="session")
def tiny() -> glauber.MaskedLM:
    """The embedded model."""
    return glauber.load_model("glauber-tiny", device="cpu")


@pytest.fixture(scope="session")
def tiny64() -> glauber.MaskedLM:
    """The embedded model in float64."""
    return glauber.load_model("glauber-tiny", device="cpu", dtype="float64")


@pytest.fixture(scope="session")
def restricted_tables(tiny: glauber.MaskedLM) -> list[exact.Table]:
    """Five spaces of 3 positions and 4 tokens, cut out of passages, as tables."""
    begin = starting_states(tiny.text.encode, read_passages(), 12, 5).states
    return [exact.tabulate(exact.restrict(tiny, row, [3, 4, 7], k=4), 3) for row in begin]
