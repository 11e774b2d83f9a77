"""The grid, what is read off chains, and cells that survive a kill."""

import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import Iterator, Sequence
from itertools import combinations, product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from numpy.typing import NDArray

from glauber import MaskedLM, ParameterError, coupling, engines, exact
from glauber import transition as tr
from glauber.errors import RunError
from glauber.figures import transition as draw
from glauber.survival import medians
from glauber.transition import grid as grids
from glauber.transition.cells import cells

TABLE = exact.from_joint(np.log(np.random.default_rng(0).dirichlet(np.ones(8)).reshape(2, 2, 2)))
PAIRS = {3: np.tile([[0, 0, 0], [1, 1, 1]], (6, 1, 1))}


def grid(directory: Path | None = None, **change: Any) -> pd.DataFrame:
    arguments: dict[str, Any] = {"scales": 8.0, "seed": 1, "directory": directory} | change
    return tr.meeting_grid(TABLE, PAIRS, [0.5, 2.0], **arguments)


# Pairs and budgets


def test_pairs_have_different_topics_and_spread_over_passages() -> None:
    topics = ["a", "b", "c", "d"] * 6
    pairs, equal = tr.pairs_of_topics(topics, 12, 0)
    assert equal == 0
    assert all(topics[i] != topics[j] for i, j in pairs)
    assert np.bincount(pairs.ravel(), minlength=24).max() <= 2
    assert len(np.unique(tr.pairs_of_topics(topics, 40, 0)[0], axis=0)) == 40
    assert np.array_equal(pairs, tr.pairs_of_topics(topics, 12, 0)[0])
    assert not np.array_equal(pairs, tr.pairs_of_topics(topics, 12, 1)[0])


def test_passages_without_topics_pair_with_any_other() -> None:
    assert len(tr.pairs_of_topics([""] * 4, 6, 0)[0]) == 6
    with pytest.raises(ParameterError, match="6 pairs of different topics, not 7"):
        tr.pairs_of_topics([""] * 4, 7, 0)
    with pytest.raises(ParameterError, match="make 0 pairs"):
        tr.pairs_of_topics(["a"] * 4, 1, 0)


def test_budget_is_in_units_of_n_log_n() -> None:
    assert tr.budget(16, 10) == int(np.ceil(10 * 16 * np.log(16)))
    assert tr.budget(1, 2.5) == 3


# Cells


def counted(monkeypatch: pytest.MonkeyPatch, room: Any, name: str) -> list[list[float]]:
    """Temperatures of each call of ``room.name``."""
    calls: list[list[float]] = []
    original = getattr(room, name)

    def call(*args: Any, **options: Any) -> Any:
        calls.append(np.unique(options["temperature"]).tolist())
        return original(*args, **options)

    monkeypatch.setattr(room, name, call)
    return calls


def test_grid_is_couple_cell_by_cell(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = counted(monkeypatch, coupling, "couple")
    rows = grid()
    assert calls == [[0.5, 2.0]]
    assert len(rows) == 12
    for tau, group in rows.groupby("temperature"):
        met = coupling.couple(TABLE, PAIRS[3], temperature=float(str(tau)), steps=tr.budget(3, 8.0), seed=1)
        assert group["time"].tolist() == met["time"].to_numpy().tolist()
        assert group["censored"].tolist() == met["censored"].to_numpy().tolist()


def test_grids_of_a_network_are_those_of_a_call_each(tiny64: MaskedLM, monkeypatch: pytest.MonkeyPatch) -> None:
    """In float64, where the rounding of logits in batches of different shape decides nothing."""
    states = tiny64.vocabulary[np.random.default_rng(3).integers(100, 8000, (3, 2, 6))]
    taus, given = [0.4, 1.0, 4.0], {"scales": 3.0, "seed": 5}
    calls = counted(monkeypatch, coupling, "couple")
    rows = tr.meeting_grid(tiny64, {4: states[:, :, :4], 6: states}, taus, **given)  # type: ignore[arg-type]
    assert calls == [taus, taus]
    for n, tau in product((4, 6), taus):
        group = rows[(rows["n"] == n) & (rows["temperature"] == tau)]
        met = coupling.couple(tiny64, states[:, :, :n], temperature=tau, steps=tr.budget(n, 3.0), seed=5)
        assert group["time"].tolist() == met["time"].to_numpy().tolist()
        assert group["censored"].tolist() == met["censored"].to_numpy().tolist()
    runs = counted(monkeypatch, engines, "run")
    traces = tr.chain_grid(tiny64, {6: states[:, 0]}, taus, record_every={6: 2}, **given)  # type: ignore[arg-type]
    assert runs == [taus]
    for (_, tau), trace in traces.items():
        alone = engines.run(tiny64, states[:, 0], temperature=tau, steps=34, seed=5, record_every=2)
        assert np.array_equal(trace["states"], alone["states"])
        assert trace["chain"].to_numpy().tolist() == [0, 1, 2]


def test_only_what_is_missing_is_computed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A cell from another grid is read; the rest of the length is one call, and the table the same."""
    whole = tr.meeting_grid(TABLE, PAIRS, [0.5, 1.0, 2.0], scales=8.0, seed=1)
    tr.meeting_grid(TABLE, PAIRS, [1.0], scales=8.0, seed=1, directory=tmp_path)
    calls = counted(monkeypatch, coupling, "couple")
    again = tr.meeting_grid(TABLE, PAIRS, [0.5, 1.0, 2.0], scales=8.0, seed=1, directory=tmp_path)
    assert calls == [[0.5, 2.0]]
    same = ["kind", "n", "temperature", "pair", "time", "censored"]  # what is read costs no forwards, so that others do
    pd.testing.assert_frame_equal(again[same], whole[same])


def test_temperatures_of_one_name_are_refused_in_a_directory(tmp_path: Path) -> None:
    with pytest.raises(RunError, match=r"cell maximal-n3-tau1 of another run, with other temperature"):
        tr.meeting_grid(TABLE, PAIRS, [1.0, 1.0 + 1e-9], scales=8.0, seed=1, directory=tmp_path)
    assert len(tr.meeting_grid(TABLE, PAIRS, [1.0, 1.0 + 1e-9], scales=8.0, seed=1)) == 12


def test_finished_cells_are_read_not_computed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = grid(tmp_path)

    def fail(*_: object, **__: object) -> None:
        raise AssertionError("computed again")

    monkeypatch.setattr(coupling, "couple", fail)
    pd.testing.assert_frame_equal(grid(tmp_path), first)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["maximal-n3-tau0.5", "maximal-n3-tau2"]


@pytest.mark.parametrize("change", [{"seed": 2}, {"scales": 9.0}])
def test_cells_of_another_run_are_refused(tmp_path: Path, change: dict[str, Any]) -> None:
    grid(tmp_path)
    with pytest.raises(RunError, match=r"of another run, with other (seed|steps)"):
        grid(tmp_path, **change)


def test_damaged_cell_is_named(tmp_path: Path) -> None:
    grid(tmp_path)
    (tmp_path / "maximal-n3-tau2" / "zarr.json").write_text("{")
    with pytest.raises(RunError, match=r"cell maximal-n3-tau2 .* is damaged: delete it"):
        grid(tmp_path)


def test_directory_that_cannot_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Said before anything is computed."""
    (tmp_path / "file").write_text("")
    calls = counted(monkeypatch, coupling, "couple")
    with pytest.raises(RunError, match="cannot be written"):
        grid(tmp_path / "file")
    assert not calls


@pytest.mark.parametrize("place", ["computing", "writing"])
def test_killed_grid_goes_on_to_the_same_table(tmp_path: Path, place: str) -> None:
    """The process is killed in its second length, or between its two cells: what was finished is kept, and the whole is as if
    it had never happened."""
    script = textwrap.dedent("""
        import os, signal, sys
        sys.path.insert(0, sys.argv[2])
        import test_transition_grid as t
        room, name, call = (t.coupling, "couple", 2) if sys.argv[3] == "computing" else (t.xr.Dataset, "to_zarr", 4)
        real, count = getattr(room, name), []
        def planted(*a, **k):
            count.append(1)
            if len(count) == call:
                os.kill(os.getpid(), signal.SIGKILL)
            return real(*a, **k)
        setattr(room, name, planted)
        t.two_lengths(sys.argv[1])
    """)
    here = str(Path(__file__).parent)
    done = subprocess.run(
        [sys.executable, "-c", script, str(tmp_path), here, place], env={**os.environ, "OMP_NUM_THREADS": "1"}
    )
    assert done.returncode == -signal.SIGKILL
    kept = {"maximal-n3-tau0.5", "maximal-n3-tau2"} | ({"maximal-n2-tau0.5"} if place == "writing" else set())
    assert {p.name for p in tmp_path.iterdir()} == kept
    same = ["kind", "n", "temperature", "pair", "time", "censored"]
    pd.testing.assert_frame_equal(two_lengths(tmp_path)[same], two_lengths()[same])


def two_lengths(directory: Path | None = None) -> pd.DataFrame:
    """A grid of two lengths, each on its own table."""
    second = exact.from_joint(np.log(np.random.default_rng(1).dirichlet(np.ones(4)).reshape(2, 2)))
    rows = [
        tr.meeting_grid(model, {n: PAIRS[3][:, :, :n]}, [0.5, 2.0], scales=8.0, seed=1, directory=directory)
        for n, model in ((3, TABLE), (2, second))
    ]
    return pd.concat(rows, ignore_index=True)


def test_half_written_cell_is_not_read(tmp_path: Path) -> None:
    left = tmp_path / "x.unfinished-1"
    left.mkdir()
    wanted = [("x", {"a": 1})]
    (result,) = cells(tmp_path, wanted, lambda _: [xr.Dataset({"v": ("k", [1, 2])})])
    assert result["v"].to_numpy().tolist() == [1, 2]
    assert cells(tmp_path, wanted, lambda _: [xr.Dataset()])[0]["v"].to_numpy().tolist() == [1, 2]


def test_a_cell_is_kept_as_soon_as_it_is_given(tmp_path: Path) -> None:
    def compute(places: list[int]) -> Iterator[xr.Dataset]:
        yield xr.Dataset({"v": ("k", places)})
        raise KeyboardInterrupt

    wanted = [("x", {"a": 1}), ("y", {"a": 2}), ("z", {"a": 3})]
    with pytest.raises(KeyboardInterrupt):
        cells(tmp_path, wanted, compute)
    assert [p.name for p in tmp_path.iterdir()] == ["x"]
    rest = cells(tmp_path, wanted, lambda places: [xr.Dataset({"v": ("k", [place])}) for place in places])
    assert [kept["v"].to_numpy().tolist() for kept in rest] == [[0, 1, 2], [1], [2]]


# Chains


@pytest.mark.parametrize("chain_steps", [grids.STEPS, 1])
def test_chain_grid_condenses_the_engine_s_trace(
    tmp_path: Path, chain_steps: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(grids, "STEPS", chain_steps)
    runs = counted(monkeypatch, engines, "run")
    starts = {3: np.zeros((5, 3), int)}
    kept = tr.chain_grid(TABLE, starts, [0.5, 2.0], scales=8.0, record_every={3: 2}, seed=4, directory=tmp_path)
    again = tr.chain_grid(TABLE, starts, [0.5, 2.0], scales=8.0, record_every={3: 2}, seed=4, directory=tmp_path)
    assert runs == ([[0.5, 2.0]] if chain_steps > 1 else [[0.5], [2.0]])
    steps = 2 * -(-tr.budget(3, 8.0) // 2)
    for (_, tau), trace in kept.items():
        whole = engines.run(TABLE, starts[3], temperature=tau, steps=steps, seed=4, record_every=2)
        assert np.array_equal(trace["states"], whole["states"])
        assert trace["changed"][1:].mean() == pytest.approx(float(whole["changed"].mean()))
        assert float(trace["log_ratio"][3, 1]) == pytest.approx(float(whole["log_ratio"][4:6, 1].mean()))
        xr.testing.assert_equal(again[3, tau], trace)


def fake_embed(texts: Sequence[str]) -> NDArray[np.float32]:
    """Unit vectors at the angle that a text spells out, in degrees."""
    angle = np.deg2rad([float(t) for t in texts])
    return np.stack([np.cos(angle), np.sin(angle)], axis=1).astype(np.float32)


def trace_of(angles: list[list[int]]) -> xr.Dataset:
    """One token per text, its angle; records 10 steps apart."""
    values = np.array(angles).T[:, :, None]
    return xr.Dataset(
        {"states": (("record", "chain", "position"), values)}, coords={"record": np.arange(len(values)) * 10}
    )


def first_token(ids: list[int]) -> str:
    return str(ids[0])


def test_drift_time_is_the_first_passage() -> None:
    walk = [*range(0, 50), 80, 0, 0, 80]  # over 60 degrees (distance 1/2) at record 50, and again later
    still = [0] * len(walk)
    rows = tr.drift_times(trace_of([walk, still]), first_token, fake_embed, 0.5)
    assert rows["time"].tolist() == [500, (len(walk) - 1) * 10]
    assert rows["censored"].tolist() == [False, True]


def test_semantic_distance_is_to_the_start() -> None:
    distance = tr.semantic_distance(trace_of([[10, 10, 70, 100, 190]]), first_token, fake_embed, every=2)
    assert distance["record"].to_numpy().tolist() == [0, 20, 40]
    assert distance[:, 0].to_numpy() == pytest.approx([0, 0.5, 2.0], abs=1e-6)


def test_threshold_is_a_quantile_over_pairs_of_different_topics() -> None:
    angles, topics = [0, 30, 90, 120], ["a", "a", "b", "b"]
    value, distances = tr.drift_threshold(fake_embed([str(a) for a in angles]), topics, 0.5)
    wanted = [
        1 - np.cos(np.deg2rad(angles[j] - angles[i])) for i, j in combinations(range(4), 2) if topics[i] != topics[j]
    ]
    assert sorted(distances) == pytest.approx(sorted(wanted), abs=1e-6)
    assert value == pytest.approx(np.median(wanted), abs=1e-6)
    assert len(tr.drift_threshold(fake_embed(["0", "90", "50"]), ["", "", ""], 0.5)[1]) == 3


def test_pseudo_log_likelihood_is_the_sum_of_conditionals() -> None:
    states = exact.enumerate_states(3, 2).astype(np.int32)
    value, trapped = tr.pseudo_log_likelihood(TABLE, np.concatenate([states, states[:1]]))
    logits = TABLE.tables - np.log(np.exp(TABLE.tables).sum(axis=2, keepdims=True))
    own = np.take_along_axis(logits, states.T[:, :, None].astype(int), axis=2)[:, :, 0]
    assert value[:8] == pytest.approx(own.mean(axis=0))
    assert value[8] == value[0]
    assert trapped[:8].tolist() == (own >= logits.max(axis=2)).all(axis=0).tolist()
    assert trapped.any()


def test_order_parameters_agree_with_exact_enumeration() -> None:
    """Acceptance and entropy production of long chains against their exact stationary values."""
    starts = {3: np.zeros((40, 3), int)}
    traces = tr.chain_grid(TABLE, starts, [1.5], scales=300.0, record_every={3: 3}, seed=2)
    distances = {(3, 1.5): xr.DataArray(np.random.default_rng(0).random(traces[3, 1.5]["changed"].shape),
                                        dims=("record", "chain"), coords={"record": traces[3, 1.5]["record"]})}  # fmt: skip
    rows = tr.order_parameters(TABLE, traces, distances, level=0.9999).set_index("quantity")
    matrix = exact.transition_matrix(TABLE.tables, 1.5)
    moving = float(exact.stationary_law(matrix) @ (1 - np.diag(matrix)))
    assert rows["low"]["acceptance"] <= moving <= rows["high"]["acceptance"]
    sigma = exact.entropy_production(TABLE.tables, 1.5)
    assert rows["low"]["entropy production"] <= sigma + 1e-2
    assert rows["high"]["entropy production"] >= sigma - 1e-2
    # Independent draws: one record apart.
    assert rows["mean"]["autocorrelation time"] == pytest.approx(3, rel=0.3)
    assert rows["chains"].tolist() == [40] * len(rows)


def test_stuck_chains_have_no_autocorrelation_time(tiny: MaskedLM) -> None:
    starts = {4: np.tile(tiny.vocabulary[1000:1004], (3, 1))}
    traces = tr.chain_grid(tiny, starts, [1.0], scales=3.0, record_every={4: 4}, seed=0)
    shape = traces[4, 1.0]["changed"].shape
    flat = {
        (4, 1.0): xr.DataArray(np.zeros(shape), dims=("record", "chain"), coords={"record": traces[4, 1.0]["record"]})
    }
    rows = tr.order_parameters(tiny, traces, flat).set_index("quantity")
    assert np.isnan(rows["mean"]["autocorrelation time"])
    assert rows["reason"]["autocorrelation time"]


# Figures


def test_figures_draw_also_where_nothing_met() -> None:
    for cut in (False, True):
        times = grid(scales=8.0)
        times = pd.concat([times, times.assign(n=6)])
        if cut:
            times = times.assign(censored=True)
        curves = medians(times, ["n", "temperature"])
        level, stars = tr.level(times, resamples=5), tr.crossover(times, resamples=5)
        drawn = [
            draw.mixing_map(curves, stars, 8.0),
            draw.median_curves(curves, "median coupling time"),
            draw.level_curve(level, stars, (1.5, 2.0), 8.0),
            draw.residual_plot(tr.residuals(times)),
            draw.coupling_curves(medians(times, ["kind", "temperature"]), 3),
            draw.model_curves(medians(times.assign(model="one"), ["model", "n", "temperature"])),
        ]
        for figure in drawn:
            figure.draw_without_rendering()
