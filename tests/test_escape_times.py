"""Escape times against exact hitting times on enumerated spaces."""

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from test_chain import random_table
from test_escape import tight, wells

from glauber import MaskedLM, escape, exact
from glauber.passages import read_passages, starting_states
from glauber.survival import median


def hitting_time(matrix: np.ndarray, target: np.ndarray) -> np.ndarray:
    """Exact mean number of steps to reach ``target`` (bool) from every state."""
    outside = np.flatnonzero(~target)
    mean = np.zeros(len(matrix))
    mean[outside] = np.linalg.solve(np.eye(len(outside)) - matrix[np.ix_(outside, outside)], np.ones(len(outside)))
    return mean


def spaces(tiny64: MaskedLM) -> list[tuple[exact.Table, float]]:
    """Six small spaces and a temperature cold enough that their best state is metastable."""
    begin = starting_states(tiny64.text.encode, read_passages(), 10, 3).states
    networks = [exact.tabulate(exact.restrict(tiny64, text, [3, 4, 5], k=3), 3) for text in begin]
    return [(t, 0.25) for t in networks] + [(wells(3, 3, 2.0), 0.6), (wells(4, 2, 2.0), 0.5), (tight(3, 3, 2.0), 0.4)]


def test_escape_times_agree_with_exact_hitting_times(tiny64: MaskedLM) -> None:
    for seed, (table, tau) in enumerate(spaces(tiny64)):
        n, _, k = table.tables.shape
        states, matrix = exact.enumerate_states(n, k), exact.transition_matrix(table.tables, tau)
        trap = states[[int(np.argmax(np.diag(matrix)))]]
        raw = escape.escape_times(
            table, trap, temperatures=[tau], replicas=300, steps=10**9, moves=5000, distance=2, seed=seed
        )
        rows = escape.summarise(table, trap, raw, level=0.999).set_index("what")
        far = (states != trap).sum(axis=1) >= 2
        start = int((states == trap).all(axis=1).argmax())
        wanted = {"state": 1 / (1 - matrix[start, start]), "basin": hitting_time(matrix, far)[start]}
        for what, mean in wanted.items():
            row = rows.loc[what]
            assert row["exits"] == 300
            assert row["low"] <= mean <= row["high"], (seed, what, mean, row["mean"])
            assert row["mean"] / mean == pytest.approx(1, abs=0.25)
        assert rows.loc["state", "exact"] == pytest.approx(wanted["state"])
        assert rows.loc["state", "bound"] <= wanted["state"]


def test_censored_runs_agree_with_the_same_exact_time() -> None:
    """Stopped long before most chains leave, and stopped by their moves, the estimate still holds the exact mean."""
    table, tau = wells(4, 2, 2.0), 0.4
    states, matrix = exact.enumerate_states(4, 2), exact.transition_matrix(table.tables, tau)
    trap, far = states[:1], states.sum(axis=1) >= 2
    mean = hitting_time(matrix, far)[0]
    for steps, moves in ((int(mean / 3), 5000), (10**9, 2)):
        raw = escape.escape_times(
            table, trap, temperatures=[tau], replicas=500, steps=steps, moves=moves, distance=2, seed=3
        )
        row = escape.summarise(table, trap, raw, level=0.999).set_index("what").loc["basin"]
        assert 20 < row["exits"] < 450
        assert row["low"] <= mean <= row["high"]
        assert (raw["time"] <= steps).all()


def test_a_censored_mean_is_recovered_and_naive_ones_are_not() -> None:
    rng = np.random.default_rng(0)
    true, hits = 1000.0, 0
    for _ in range(200):
        time = rng.geometric(1 / true, size=60)
        seen = time <= 300  # three in four are censored
        mean, low, high = escape.mean_time(np.minimum(time, 300), seen)
        hits += low <= true <= high
        assert np.minimum(time, 300)[seen].mean() < 300 < mean
    assert 183 <= hits <= 200
    assert escape.mean_time([10, 10], [False, False])[2] == np.inf


def test_the_medians_of_escapes_are_those_of_the_one_estimate() -> None:
    """A finite interval where every chain left, one that is open above where few did."""
    table, state = tight(3, 4, 3.0), np.zeros((1, 3), int)
    raw = escape.escape_times(table, state, temperatures=[0.5], replicas=6, steps=10**9, moves=1, seed=2)
    assert raw["moved"].all() and not raw["left"].any()
    rows = escape.summarise(table, state, raw).set_index("what")
    ends = ["median", "median low", "median high"]
    assert rows[ends].to_numpy()[0].tolist() == list(median(raw["first"], np.zeros(6, bool))[:3])
    assert rows["median high"]["state"] == raw["first"].max()
    assert rows[ends].to_numpy()[1].tolist() == [np.inf, raw["time"].min(), np.inf]


def test_arrhenius_recovers_a_planted_barrier() -> None:
    """Independent sites with margin m: the mean holding time is ``exp(m / tau) / (k - 1)`` at low temperature."""
    table, state = tight(3, 4, 3.0), np.zeros((1, 3), int)
    raw = escape.escape_times(
        table, state, temperatures=[0.12, 0.15, 0.2, 0.25], replicas=200, steps=10**15, moves=1, seed=2
    )
    summary = escape.summarise(table, state, raw)
    fit = escape.arrhenius(summary).set_index("what").loc["state"]
    assert fit["low"] <= 3.0 <= fit["high"]
    assert fit["high"] - fit["low"] < 0.5
    alone = escape.arrhenius(summary[summary["temperature"] == 0.2])
    assert alone["barrier"].isna().all()


def test_limits_of_a_mean_are_those_of_the_poisson_law() -> None:
    """``d`` exits in a total time ``S``: at the low end ``d`` or fewer have probability 2.5 %, at the high end ``d`` or more."""
    for exits, total in ((0, 50.0), (1, 30.0), (7, 2000.0)):
        time = np.full(max(exits, 1) + 2, total / (max(exits, 1) + 2))
        mean, low, high = escape.mean_time(time, np.arange(len(time)) < exits)
        assert stats.poisson.cdf(exits, total / low) == pytest.approx(0.025)
        if exits:
            assert mean == pytest.approx(total / exits)
            assert stats.poisson.sf(exits - 1, total / high) == pytest.approx(0.025)
        else:
            assert (mean, high) == (np.inf, np.inf)
            assert low == pytest.approx(total / np.log(40))


@pytest.mark.parametrize(
    ("value", "text"),
    [(np.nan, "–"), (3.4, "3"), (999_999.4, "999,999"), (2.04e15, "2.0 × 10^15"), (1e6, "1.0 × 10^6"), (np.inf, "inf")],
)
def test_steps_are_printed_as_a_page_has_them(value: float, text: str) -> None:
    assert escape.shown_steps(value) == text


def test_scatter_widens_the_interval_of_a_barrier() -> None:
    """Many exits each and points off the line: the interval is that of least squares, not that of the exits alone."""
    tau = np.array([0.1, 0.125, 0.2, 0.25, 0.5])
    off = np.array([0.4, -0.5, 0.3, 0.2, -0.4])
    rows = pd.DataFrame(
        {"trap": 0, "what": "state", "temperature": tau, "exits": 10_000, "mean": np.exp(2 / tau + off)}
    )
    fit = escape.arrhenius(rows).iloc[0]
    line = stats.linregress(1 / tau, 2 / tau + off)
    assert fit["barrier"] == pytest.approx(line.slope)
    assert fit["high"] - fit["barrier"] == pytest.approx(stats.t.ppf(0.975, 3) * line.stderr)
    assert fit["barrier"] - fit["low"] == pytest.approx(stats.t.ppf(0.975, 3) * line.stderr)
    assert fit["chi2"] > 100
    tight_fit = escape.arrhenius(rows.assign(mean=np.exp(2 / tau))).iloc[0]
    assert tight_fit["high"] - tight_fit["low"] < (fit["high"] - fit["low"]) / 10


def test_the_longest_times_are_counted_in_moves_not_steps() -> None:
    raw = escape.escape_times(
        tight(3, 4, 3.0), [[0, 0, 0]], temperatures=[0.1, 0.05], replicas=20, steps=10**15, moves=1, seed=0
    )
    assert raw[raw["temperature"] == 0.1]["moved"].all()
    assert not raw[raw["temperature"] == 0.05]["moved"].any()  # exp(60) steps
    assert (raw["time"] <= 10**15).all()


def test_paths_end_where_the_condition_first_holds() -> None:
    table = random_table(3, 4, 5)
    run = escape.first_passage(
        table, np.zeros((200, 3), int), lambda path, c: path[:, 0] == 3, temperature=1.0, steps=10**6, seed=1
    )
    assert run.table["left"].all()
    assert (run.states[:, 0] == 3).all()
    target = exact.enumerate_states(3, 4)[:, 0] == 3
    mean = hitting_time(exact.transition_matrix(table.tables, 1.0), target)[0]
    error = run.table["time"].std() / np.sqrt(200)
    assert abs(run.table["time"].mean() - mean) < 4.5 * error
