"""Fixtures shared by the tests: tiny random checkpoints of every family, and the embedded model."""

from pathlib import Path

import pytest
import torch
from checkpoints import NETWORKS, build
from hypothesis import settings

import glauber
from glauber import exact
from glauber.passages import read_passages, starting_states

# At most two threads, fewer where OMP_NUM_THREADS says so: more only get in each other's way on models this small.
torch.set_num_threads(min(2, torch.get_num_threads()))

# The same examples on every run, so that a change is judged by what it changes; `--hypothesis-profile=default` draws new ones.
settings.register_profile("fixed", derandomize=True, deadline=None)
settings.load_profile("fixed")


@pytest.fixture(scope="session")
def checkpoints(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Folder of each checkpoint by family: seven masked language models, ``gpt2`` and ``headless``."""
    root = tmp_path_factory.mktemp("checkpoints")
    return {family: build(family, root / family) for family in NETWORKS}


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
