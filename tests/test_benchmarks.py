"""The benchmark script runs, and its textbook baseline is a correct, if slow, sampler."""

import sys
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from laws import LEVEL, chi_square

from glauber import MaskedLM, chain

FOLDER = Path(__file__).parents[1] / "benchmarks"
sys.path.insert(0, str(FOLDER))
import bench  # noqa: E402
import check_gpu  # noqa: E402
import textbook  # noqa: E402


@pytest.fixture(scope="module")
def measured() -> Iterator[Callable[[str], pd.DataFrame]]:
    """A part of the benchmark, measured once, on the threads of the tests: more would wait for other processes' cores."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bench, "THREADS", torch.get_num_threads())
        yield cache(lambda part: bench.measure(part, quick=True))


def test_a_part_is_measured_and_replaces_its_older_figures(
    measured: Callable[[str], pd.DataFrame], tmp_path: Path
) -> None:
    out, steps = tmp_path / "results.csv", measured("steps")
    for part in (steps.assign(value=steps["value"] + 1), measured("forwards"), steps):
        bench.save(part, out)
    table = pd.read_csv(out)
    assert sorted(table.loc[table["part"] == "steps", "value"]) == pytest.approx(sorted(steps["value"]), rel=1e-3)
    assert set(table["part"]) == {"steps", "forwards"}
    assert not table.duplicated(["model", "n", "chains", "temperature", "engine", "quantity"]).any()
    assert (table["value"] >= 0).all()
    over = table[(table["engine"] == "bare encoder") & (table["quantity"] == "time over bare encoder")]["value"]
    assert (over == 1).all()


def test_the_sizes_are_set_against_each_other(measured: Callable[[str], pd.DataFrame], tmp_path: Path) -> None:
    """The smaller model's own rows are those of the part `steps`: no figure of the table stands there twice."""
    out = tmp_path / "results.csv"
    for part in ("steps", "sizes"):
        bench.save(measured(part), out)
    table = pd.read_csv(out)
    assert not table.duplicated(["model", "n", "chains", "temperature", "engine", "quantity"]).any()
    sizes = table[table["part"] == "sizes"]
    assert set(sizes["model"]) == {"glauber-mini"}
    assert set(zip(sizes["engine"], sizes["quantity"], strict=True)) == {
        ("direct", "steps per second"),
        ("direct", "time over glauber-tiny"),
        ("lazy", "time over glauber-tiny"),
    }
    assert (sizes["low"] <= sizes["value"]).all() and (sizes["value"] <= sizes["high"]).all()
    # Over three times the weights: no noise makes it the faster one.
    step = sizes[(sizes["engine"] == "direct") & (sizes["quantity"] == "time over glauber-tiny")]
    assert (step["value"] > 1).all()


def test_the_textbook_baseline_draws_from_the_conditional(tiny: MaskedLM) -> None:
    """So that the comparison is between samplers of one law."""
    ids = torch.from_numpy(tiny.vocabulary[np.arange(100, 102)])[None].repeat(4000, 1)
    full, banned = textbook.prepare(tiny, ids), textbook.banned_ids(tiny)
    generator = torch.Generator().manual_seed(3)
    site = int(torch.randint(2, (1,), generator=torch.Generator().manual_seed(3)))
    textbook.step(tiny, full, banned, 0.3, generator)
    law = (tiny.conditional_logits(ids[:1], torch.tensor([site])).double() / 0.3).softmax(dim=1)[0].numpy()
    drawn = np.searchsorted(tiny.vocabulary, full[:, len(tiny.text.prefix) + site].numpy())
    assert chi_square(np.bincount(drawn, minlength=len(law)), law) > LEVEL


def test_the_device_check_passes_here_and_fails_on_a_wrong_draw(monkeypatch: pytest.MonkeyPatch) -> None:
    table = check_gpu.report("cpu", "glauber-tiny").set_index("check")["passed"]
    assert table.to_dict() == {
        "law of a draw": "yes",
        "trajectories": "yes",
        "precision": "yes",
        "out of memory": "yes",
        "compile_mode": "left out",
        "speed": "yes",
    }
    original = chain.redraw
    monkeypatch.setattr(chain, "redraw", lambda logits, now, tau, draws: original(logits, now, 1.1 * tau, draws))
    assert check_gpu.Check("cpu", "glauber-tiny").law()[0] is False
