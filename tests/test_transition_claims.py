"""What the transition chapter may state: equal starts are left out, limits that are not known are open, figures stand by the paper's."""

import sys
from typing import Any

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from matplotlib.figure import Figure
from scipy import stats
from test_transition import planted, random_table

from glauber import ParameterError, exact
from glauber import transition as tr
from glauber.figures import transition as draw
from glauber.report import paper_value
from glauber.survival import medians
from glauber.transition.fits import Fit

TABLE = random_table(3, 3, 7)


# Equal starts


def test_pairs_of_equal_starts_are_left_out_and_counted() -> None:
    """Passages 0 and 1 begin alike in one model, 2 and 3 in the other: two of six pairs have nothing to forget."""
    one = np.array([[1, 1, 2], [1, 1, 2], [1, 2, 2], [2, 1, 1]])
    two = np.array([[5, 6], [6, 5], [7, 7], [7, 7]])
    pairs, equal = tr.pairs_of_topics(["a", "b", "c", "d"], 4, 0, [one, two])
    assert equal == 2
    assert {frozenset(pair) for pair in pairs.tolist()} == {frozenset(p) for p in ((0, 2), (0, 3), (1, 2), (1, 3))}
    with pytest.raises(ParameterError, match=r"make 4 pairs of different topics, besides 2 of equal starts, not 5"):
        tr.pairs_of_topics(["a", "b", "c", "d"], 5, 0, [one, two])
    with pytest.raises(ParameterError, match="starts have 2 rows for 4 passages"):
        tr.pairs_of_topics(["a", "b", "c", "d"], 1, 0, [one[:2]])


def test_times_of_zero_are_refused_with_their_number() -> None:
    states = np.tile([[0, 0, 0], [1, 1, 1]], (5, 1, 1))
    states[[1, 3], 1] = 0
    with pytest.raises(ParameterError, match=r"2 of 5 pairs at n = 3 start from two equal states"):
        tr.meeting_grid(TABLE, {3: states}, [1.0], scales=5.0, seed=0)
    times = planted(6, 100.0)
    times.loc[[3, 8, 11], "time"] = 0
    for of in (tr.fit, tr.level, tr.crossover, tr.compare, tr.residuals):
        with pytest.raises(ParameterError, match=r"3 of 180 times are not above 0"):
            of(times)
    with pytest.raises(ParameterError, match="two equal states, 4"):
        tr.coupling_against_exact(TABLE, (4, 4), temperature=1.0, steps=3, groups=2, seed=0)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("level", [None, np.nan, np.inf])
def test_no_crossover_is_stated_without_a_finite_level(monkeypatch: pytest.MonkeyPatch, level: float | None) -> None:
    """A fit may come to nothing; whatever it says of its level, nothing is then compared with it."""
    made = None if level is None else Fit("C n log n", np.array([level]), 1.0, 0.0)
    monkeypatch.setattr(sys.modules["glauber.transition.crossover"], "fit", lambda times: made)
    found = tr.crossover(planted(10, 100.0), resamples=3)
    assert found[["tau_star", "low", "high", "below", "above"]].isna().all(axis=None)
    assert (found["reason"] == "no finite level at the hottest temperature").all()


@pytest.mark.filterwarnings("error")
def test_times_without_scatter_have_a_finite_fit_or_none() -> None:
    n = np.array([4, 8, 16] * 3)
    for growth in tr.GROWTHS:
        for scale in (np.ones(9), n * np.log(n)):
            found = tr.fit(pd.DataFrame({"n": n, "time": 3 * scale, "censored": [False] * 6 + [True] * 3}), growth)
            assert found is None or np.isfinite([*found.beta, found.sigma]).all()


# The sign of the entropy production, and ranges


def grid_of(table: exact.Table, tau: float, scales: float, chains: int) -> pd.DataFrame:
    traces = tr.chain_grid(table, {3: np.zeros((chains, 3), int)}, [tau], scales=scales, record_every={3: 3}, seed=2)
    record = traces[3, tau]["record"]
    noise = np.random.default_rng(0).random(traces[3, tau]["changed"].shape)
    distances = {(3, tau): xr.DataArray(noise, dims=("record", "chain"), coords={"record": record})}
    return tr.order_parameters(table, traces, distances, level=0.999).set_index("quantity")


def test_entropy_production_has_the_sign_and_size_of_the_exact_one() -> None:
    """On conditionals of no joint law, where it is far from 0: minus sigma is outside of the interval."""
    sigma = exact.entropy_production(TABLE.tables, 1.0)
    row = grid_of(TABLE, 1.0, 400.0, 40).loc["entropy production"]
    assert sigma > 0.1
    assert 0 < row["low"] <= sigma <= row["high"]


def test_intervals_of_order_parameters_stay_in_their_range() -> None:
    """Few short chains: an interval of a share would leave [0, 1]."""
    free = random_table(3, 3, 1, scale=0.1)
    still = exact.Table(np.tile([6.0, 0.0, 0.0], (3, 27, 1)))
    for table in (free, still):
        rows = grid_of(table, 1.0, 4.0, 2)
        shares = rows.loc[["acceptance", "in a perfect trap"], ["mean", "low", "high"]]
        assert ((shares >= 0) & (shares <= 1)).all(axis=None)
        assert float(rows["high"]["pseudo-log-likelihood"]) <= 0


# Exact distances


def test_exact_distance_of_two_bits_is_its_closed_form_at_every_step() -> None:
    """Two uniform bits, all different: the laws differ as long as one has not been redrawn, by 2^-t."""
    bits = exact.from_joint(np.zeros((2, 2)))
    rows = tr.coupling_against_exact(bits, (0, 3), temperature=1.0, steps=6, groups=50, seed=0)
    assert rows["TV"].to_numpy() == pytest.approx(0.5 ** np.arange(7))
    one = tr.coupling_against_exact(
        exact.Table(np.zeros((1, 3, 3))), (0, 2), temperature=1.0, steps=2, groups=9, seed=0
    )
    assert one["TV"].tolist() == pytest.approx([1, 0, 0])


def test_profile_and_mixing_time_are_those_of_matrix_powers() -> None:
    """Of two uniform bits ``d(0) = 3/4`` and ``d(t) = 2^-(t+1)`` from then on."""
    bits = exact.from_joint(np.zeros((2, 2)))
    matrix = exact.transition_matrix(bits.tables, 1.0)
    assert exact.distance_to_equilibrium(matrix, range(5)) == pytest.approx([0.75, 0.25, 0.125, 0.0625, 0.03125])
    assert exact.mixing_time(matrix, 0.1) == 3
    for table, tau in ((bits, 1.0), (TABLE, 0.4)):
        matrix = exact.transition_matrix(table.tables, tau)
        profile = tr.mixing_profile(table, tau, eps=0.1)
        mixing = exact.mixing_time(matrix, 0.1)
        assert profile["scaled"].to_numpy() == pytest.approx(profile["step"] / mixing)
        assert profile["d"].to_numpy() == pytest.approx(
            exact.distance_to_equilibrium(matrix, profile["step"].tolist()), abs=1e-12
        )


# Beside the paper


def test_the_paper_s_figures_stand_beside_their_counterparts() -> None:
    times = planted(20, 12.0)
    stars = tr.crossover(times, resamples=5)
    rows = tr.beside_paper(times, stars)
    fast = rows[rows["quantity"] == "fast mixing"].set_index("n")
    assert set(fast["temperature"]) == {paper_value("fast_from")}
    for n, row in fast.iterrows():
        here = times[(times["n"] == n) & (times["temperature"] == row["temperature"])]
        cut = int(here["censored"].sum())
        assert row["estimate"] == cut / 20
        assert [row["low"], row["high"]] == pytest.approx(list(stats.binomtest(cut, 20).proportion_ci()))
        assert f"{cut / 20:.0%}" in row["ours"] and f"{paper_value('fast_from'):g}" in row["paper"]
    crossing = rows[rows["quantity"] == "crossover"].set_index("n")
    assert crossing["estimate"].tolist() == stars["tau_star"].tolist()
    assert (
        crossing["paper"].str.contains(f"{paper_value('crossover_low'):g} to {paper_value('crossover_high'):g}").all()
    )
    none = tr.beside_paper(times, tr.crossover(planted(20, 2.0), resamples=5))
    assert none.loc[none["quantity"] == "crossover", "ours"].str.startswith("none: the budget").all()


# Open limits


def markers(figure: Figure, mark: str, panel: int = 0) -> list[float]:
    """Heights of all markers of one kind."""
    lines = [line for line in figure.axes[panel].lines if line.get_marker() == mark]
    return [float(y) for line in lines for y in np.asarray(line.get_ydata(), dtype=float)]


def test_unknown_limits_are_arrows_and_known_ones_caps() -> None:
    """A limit above the budget, one of too few runs, and two that are known."""
    times = pd.DataFrame(
        {
            "n": 4,
            "temperature": np.repeat([1.0, 2.0, 3.0], [9, 3, 6]),
            "time": [1, 2, 3, 4, 5, 50, 50, 50, 50, 2, 3, 4, 1, 2, 3, 4, 5, 6],
            "censored": [False] * 5 + [True] * 4 + [False] * 9,
        }
    )
    rows = medians(times, ["n", "temperature"])
    assert rows["high"].tolist() == [np.inf, np.inf, 6]
    figure = draw.median_curves(rows, "median")
    assert sorted(markers(figure, "^")) == [4, 50]  # as far as is known, not at a limit
    assert len(markers(figure, "v")) == 1
    caps = markers(figure, "_")
    assert 50 not in caps and sorted(caps) == sorted([rows["low"][0], 1.0, 6.0])
    stars = pd.DataFrame({"n": [4], "tau_star": [1.5], "low": [-np.inf], "high": [np.inf], "reason": [""]})
    level = pd.DataFrame({"temperature": [1.0, 3.0], "C": 1.0, "low": 0.5, "high": 2.0})
    figure = draw.level_curve(level, stars, (1.5, 2.0), 8.0)
    assert (markers(figure, "v", 1), markers(figure, "^", 1), markers(figure, "_", 1)) == ([1.0], [3.0], [])


def test_the_drift_threshold_is_named_as_the_quantile_that_it_is() -> None:
    vectors = np.stack([np.cos([0, 1, 2]), np.sin([0, 1, 2])], axis=1).astype(np.float32)
    threshold, distances = tr.drift_threshold(vectors, ["a", "b", "c"], 0.05)
    assert distances.min() <= threshold < np.median(distances)  # most unrelated passages are further apart than that
    series = {"cold": xr.DataArray(np.zeros((3, 1)), dims=("record", "chain"), coords={"record": [0, 2, 4]})}
    figure = draw.trajectories(series, threshold, 2, 0.05)
    assert "5% quantile of\nunrelated passages" in figure.axes[-1].get_legend_handles_labels()[1]
    with pytest.raises(ParameterError, match=r"1 topics and quantile = 0\.05 give no threshold"):
        tr.drift_threshold(vectors, ["a", "a", "a"], 0.05)


# Input


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: tr.mixing_profile(TABLE, 0.0), "temperature 0"),
        (lambda: tr.relaxation(TABLE, [1.0, -2.0]), "temperature -2"),
        (lambda: tr.coupling_against_exact(TABLE, (0, 27), temperature=1.0, steps=3, groups=2, seed=0), "state = 27"),
        (lambda: tr.coupling_against_exact(TABLE, (0, 1), temperature="hot", steps=3, groups=2, seed=0), "hot"),  # type: ignore[arg-type]
        (lambda: tr.pseudo_log_likelihood(TABLE, [[0, 0, 0], [0, 0]]), "different lengths"),
        (lambda: tr.pseudo_log_likelihood(TABLE, [[0, 0, 0.5]]), "token id 0.5"),
        (lambda: tr.meeting_grid(TABLE, {3: [[[0, 0, 0], [1, 1]]]}, [1.0], scales=5.0, seed=0), "different lengths"),  # type: ignore[dict-item]
        (lambda: tr.meeting_grid(TABLE, {3: np.array([[[0, 0, 0], [1, 1, 0.5]]])}, [1.0], scales=5.0, seed=0), "token id 0.5"),
        (lambda: tr.chain_grid(TABLE, {3: np.array([[0, 0, 0.5]])}, [1.0], scales=5.0, record_every={3: 1}, seed=0), "token id 0.5"),
        (lambda: tr.pairs_of_topics(["a", "b"], 1.5, 0), "pairs = 1.5"),  # type: ignore[arg-type]
    ],
)  # fmt: skip
def test_odd_input_ends_in_a_sentence(call: Any, words: str) -> None:
    with pytest.raises(ParameterError, match=words):
        call()


def planted_times(stars: dict[int, float], spread: float, seed: int) -> pd.DataFrame:
    """Times that are fast above a temperature of each length and slow below; a pair is early or late at all lengths alike."""
    rng = np.random.default_rng(seed)
    rows = []
    for pair in range(40):
        luck = np.exp(spread * rng.normal())
        for n, star in stars.items():
            for tau in (0.5, 0.8, 1.2, 1.8, 2.6, 4.0):
                slow = tau < star * luck
                rows.append(
                    (tau, n, pair, n * np.log(n) * (40.0 if slow else 1.0) * np.exp(0.05 * rng.normal()), False)
                )
    return pd.DataFrame(rows, columns=["temperature", "n", "pair", "time", "censored"])


def test_the_shift_of_the_crossover_is_that_of_the_same_pairs() -> None:
    times = planted_times({8: 1.3, 32: 1.9}, spread=0.5, seed=3)
    short, long = tr.crossover(times, resamples=200).to_dict("records")
    shift = tr.crossover_shift(times, resamples=200)
    assert shift["estimate"] == pytest.approx(long["tau_star"] - short["tau_star"])
    assert shift["low"] > 0  # every pair crosses later at the greater length
    assert long["low"] < short["high"]  # though the two intervals overlap
    alone = tr.crossover_shift(planted_times({8: 0.01, 32: 1.9}, spread=0.0, seed=3), resamples=20)
    assert alone.isna().all()
