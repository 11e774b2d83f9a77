"""Fits with censored times recover what was planted, intervals cover, and coupling times dominate exact mixing."""

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from glauber import ParameterError, coupling, exact
from glauber import transition as tr
from glauber.transition.fits import Fit

LENGTHS = (8, 16, 32)
TAUS = (0.8, 1.0, 1.2, 1.4, 1.6, 1.8, 2.0, 2.5, 3.0, 5.0)


def random_table(n: int, k: int, seed: int, scale: float = 2.0) -> exact.Table:
    """Conditionals that fit no joint law."""
    rng = np.random.default_rng(seed)
    tables = np.zeros((n, k**n, k))
    for i in range(n):
        shape = [k] * n
        shape[i] = 1
        tables[i] = np.broadcast_to(scale * rng.standard_normal((*shape, k)), (*[k] * n, k)).reshape(-1, k)
    return exact.Table(tables)


def hot_level(tau: float, n: int, star: float = 1.5, base: float = 1.6) -> float:
    """A planted ``C``: ``base`` when hot, five times that at ``tau* = star + 0.1 log2(n / 8)``, more when colder."""
    return float(base * (1 + 4 * ((star + 0.1 * np.log2(n / 8)) / tau) ** 12))


def planted(pairs: int, scales: float, sigma: float = 0.35, seed: int = 0, flat: float | None = None) -> pd.DataFrame:
    """Log-normal times around ``C(tau, n) n log n``, cut at ``scales n log n``."""
    rng = np.random.default_rng(seed)
    rows = []
    for n in LENGTHS:
        cap = tr.budget(n, scales)
        for tau in TAUS:
            level = hot_level(tau, n) if flat is None else flat
            times = level * n * np.log(n) * np.exp(sigma * rng.standard_normal(pairs))
            rows += [(n, tau, pair, min(t, cap), t > cap) for pair, t in enumerate(times)]
    return pd.DataFrame(rows, columns=["n", "temperature", "pair", "time", "censored"])


# Growth


def test_planted_constant_is_recovered_with_and_without_censoring() -> None:
    free = tr.level(planted(40, 100, flat=6.0), resamples=100)
    cut = tr.level(planted(40, 6.0, flat=6.0), resamples=100)
    assert free["censored"].max() == 0
    assert cut["censored"].between(0.4, 0.6).all()
    for found in (free, cut):
        assert ((found["low"] <= 6.0) & (found["high"] >= 6.0)).mean() >= 0.8
        assert found["C"].to_numpy() == pytest.approx(6.0, rel=0.2)
        assert found["sigma"].to_numpy() == pytest.approx(0.35, rel=0.4)
    # What is done wrong often: cut times taken as they are, or left out. Both are far off and outside the tolerance above.
    wrong = planted(40, 6.0, flat=6.0)
    taken = tr.level(wrong.assign(censored=False), resamples=2)["C"]
    dropped = tr.level(wrong[~wrong["censored"]], resamples=2)["C"]
    assert taken.max() < 5.4
    assert dropped.max() < 5.2


def test_interval_of_the_constant_covers() -> None:
    held = []
    for seed in range(40):
        one = planted(15, 7.0, seed=seed, flat=6.0)
        found = tr.level(one[one["temperature"] == TAUS[0]], resamples=60, seed=seed).iloc[0]
        held.append(found["low"] <= 6.0 <= found["high"])
    assert stats.binomtest(sum(held), 40, 0.9).pvalue > 1e-3


def test_fit_is_the_closed_form_without_censoring() -> None:
    """Least squares of log times: the mean of log(T / n log n), and the root mean square around it."""
    times = planted(10, 100, flat=3.0).query("temperature == 1.0")
    found = tr.fit(times)
    assert isinstance(found, Fit)
    residual = np.log(times["time"] / tr.n_log_n(times["n"].to_numpy()))
    assert found.beta[0] == pytest.approx(residual.mean(), abs=1e-4)
    assert found.sigma == pytest.approx(residual.std(ddof=0), abs=1e-4)
    assert found.log_likelihood == pytest.approx(stats.norm.logpdf(residual, *stats.norm.fit(residual)).sum(), abs=1e-6)


def test_optimum_beats_its_surroundings_with_censoring() -> None:
    times = planted(12, 5.0, flat=5.0).query("temperature == 1.0")
    for growth in tr.GROWTHS:
        best = tr.fit(times, growth)
        assert best is not None
        assert best.log_likelihood == pytest.approx(likelihood(times, best), abs=1e-6)
        for k in range(len(best.beta)):
            for change in (-0.01, 0.01):
                beta = best.beta.copy()
                beta[k] += change
                assert likelihood(times, Fit(growth, beta, best.sigma, 0.0)) < best.log_likelihood
        for factor in (0.97, 1.03):
            assert likelihood(times, Fit(growth, best.beta, best.sigma * factor, 0.0)) < best.log_likelihood


def likelihood(times: pd.DataFrame, candidate: Fit) -> float:
    """Written out again: densities of observed log times, survival of censored ones."""
    at = np.log(candidate.median(times["n"].to_numpy(dtype=float)))
    law = stats.norm(at, candidate.sigma)
    y = np.log(times["time"].to_numpy())
    return float(np.where(times["censored"], law.logsf(y), law.logpdf(y)).sum())


@pytest.mark.parametrize("growth", list(tr.GROWTHS))
def test_information_criterion_finds_the_planted_growth(growth: str) -> None:
    beta = {"C n log n": [0.7], "a n^b": [0.5, 1.9], "a exp(b n)": [2.5, 0.15]}[growth]
    rng = np.random.default_rng(5)
    n = np.repeat(LENGTHS, 40)
    true = Fit(growth, np.array(beta), 0.3, 0.0).median(n.astype(float)) * np.exp(0.3 * rng.standard_normal(len(n)))
    cap = np.quantile(true, 0.85)
    times = pd.DataFrame({"n": n, "temperature": 1.0, "time": np.minimum(true, cap), "censored": true > cap})
    rows = tr.compare(times).set_index("growth")
    assert rows["delta"].min() == 0
    # n log n lies within n^b for b near 1.3, so that the criterion may not tell the two apart; the others it must.
    delta = rows["delta"].astype(float).to_dict()
    assert delta[growth] <= 2
    far = "a exp(b n)" if growth != "a exp(b n)" else "C n log n"
    assert delta[far] > 10
    if len(beta) > 1:
        assert float(rows["exponent"].to_dict()[growth]) == pytest.approx(beta[1], rel=0.15)


def test_residuals_are_standard_and_no_fit_is_said() -> None:
    left = tr.residuals(planted(40, 100, flat=3.0))
    assert stats.kstest(left["residual"], "norm").pvalue > 1e-3
    lost = planted(4, 0.01)
    assert lost["censored"].all()
    assert tr.fit(lost) is None
    assert tr.residuals(lost).empty
    assert tr.compare(lost).empty
    assert tr.level(lost, resamples=3)["C"].isna().all()


# Crossover


def test_planted_crossover_is_recovered_with_its_shift() -> None:
    found = tr.crossover(planted(30, 12.0), resamples=100).set_index("n")
    for n, row in found.iterrows():
        truth = 1.5 + 0.1 * np.log2(int(str(n)) / 8)
        assert row["low"] - 0.05 <= truth <= row["high"] + 0.05
        assert row["tau_star"] == pytest.approx(truth, abs=0.08)
        assert row["below"] < row["tau_star"] <= row["above"]
        assert row["reason"] == ""
    assert found["tau_star"].is_monotonic_increasing


def test_crossover_needs_no_time_beyond_the_threshold() -> None:
    """Censored runs count as longer: a budget just over the threshold gives what an unlimited one gives."""
    long, short = planted(30, 1e6), planted(30, 11.0)
    assert short["censored"].mean() > 0.3
    one, two = (tr.crossover(t, resamples=2)["tau_star"].to_numpy() for t in (long, short))
    assert one == pytest.approx(two, abs=0.02)


def test_lengths_may_have_temperatures_of_their_own() -> None:
    """Cells far below the crossover, where no pair meets, add nothing."""
    whole = planted(30, 12.0)
    coldest, long = whole["temperature"].min(), whole["n"].max()
    ragged = whole[(whole["temperature"] > coldest) | (whole["n"] < long)]
    assert len(ragged) < len(whole)
    one, two = (tr.crossover(t, resamples=5, seed=1) for t in (whole, ragged))
    pd.testing.assert_frame_equal(one, two)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"scales": 3.0}, "budget"),
        ({"scales": 100.0, "flat": 2.0}, "below the coldest"),
        ({"scales": 0.01}, "no finite level"),
    ],
)
def test_crossover_says_why_there_is_none(change: dict[str, float], reason: str) -> None:
    found = tr.crossover(planted(10, **change), resamples=5)  # type: ignore[arg-type]
    assert found["tau_star"].isna().all()
    assert found["reason"].str.contains(reason).all()


# The inequality of the chapter: coupling times dominate exact mixing


@pytest.mark.parametrize("kind", ["maximal", "common", "gumbel"])
@pytest.mark.parametrize("tau", [0.7, 2.0])
def test_total_variation_is_below_the_probability_of_not_having_met(kind: str, tau: float) -> None:
    table = random_table(3, 3, 4)
    rows = tr.coupling_against_exact(table, (0, 26), temperature=tau, steps=40, groups=600, seed=2, kind=kind)
    check_domination(rows, 600)


def test_domination_on_restricted_spaces_of_the_model(tiny: object, restricted_tables: list[exact.Table]) -> None:
    for seed, table in enumerate(restricted_tables):
        last = table.tables.shape[1] - 1
        rows = tr.coupling_against_exact(table, (0, last), temperature=1.5, steps=30, groups=300, seed=seed)
        check_domination(rows, 300)


def check_domination(rows: pd.DataFrame, groups: int) -> None:
    """Exact TV is at most the estimate plus what a binomial of that size leaves at 1e-5, at every step."""
    apart = np.round(rows["apart"].to_numpy() * groups).astype(int)
    upper = np.array([stats.binomtest(int(k), groups).proportion_ci(1 - 2e-5).high for k in apart])
    assert (rows["TV"].to_numpy() <= upper).all()


def test_the_check_of_domination_can_fail() -> None:
    table = random_table(3, 3, 4)
    rows = tr.coupling_against_exact(table, (0, 26), temperature=1.0, steps=40, groups=600, seed=2)
    with pytest.raises(AssertionError):
        check_domination(rows.assign(apart=rows["apart"].shift(-4, fill_value=0.0)), 600)


def test_bad_kind_is_refused() -> None:
    with pytest.raises(ParameterError, match="unknown"):
        tr.coupling_against_exact(random_table(2, 2, 0), (0, 3), temperature=1, steps=3, groups=2, seed=0, kind="x")


# Relaxation and cut-off


def test_gap_and_mixing_of_independent_sites_are_the_closed_form() -> None:
    """Uniform independent bits: eigenvalues 1 - k/n, so the gap is 1/n and d(t) is that of lazy coordinates refreshed."""
    n = 6
    table = exact.from_joint(np.zeros((2,) * n))
    rows = tr.relaxation(table, [0.5, 3.0])
    assert rows["gap"].to_numpy() == pytest.approx(1 / n)
    assert rows["relaxation"].to_numpy() == pytest.approx(n)
    assert set(rows["mixing"]) == {exact.mixing_time(exact.transition_matrix(table.tables, 1.0))}


def test_relaxation_says_what_is_lost_to_rounding() -> None:
    stuck = exact.from_joint(np.log(np.array([[1.0, 1e-8], [1e-8, 1.0]])))
    rows = tr.relaxation(stuck, [0.1, 1.0])
    assert np.isnan(rows["gap"].iloc[0])
    assert np.isnan(rows["mixing"].iloc[0])
    assert rows["gap"].iloc[1] > 0


def test_profile_starts_at_the_farthest_and_gets_steeper() -> None:
    widths = []
    for n in (3, 6, 9):
        profile = tr.mixing_profile(exact.from_joint(np.zeros((2,) * n)), 1.0)
        assert profile["d"].iloc[0] == pytest.approx(1 - 2.0**-n)
        assert profile["d"].is_monotonic_decreasing
        assert np.interp(1.0, profile["scaled"], profile["d"]) <= 0.26
        widths.append(tr.window(profile))
    assert widths == sorted(widths, reverse=True)


def test_window_of_a_straight_line() -> None:
    profile = pd.DataFrame({"scaled": np.linspace(0, 1, 11), "d": np.linspace(1, 0, 11)})
    assert tr.window(profile) == pytest.approx(0.7)


# Growth of the meeting time in a case that is known


def test_coupon_collector() -> None:
    """Independent sites couple when all have been redrawn: the coupon collector's time, ``n H_n`` in the mean."""
    n = 10
    table = exact.from_joint(np.zeros((2,) * n))
    starts = np.tile([[0] * n, [1] * n], (400, 1, 1))
    met = coupling.couple(table, starts, temperature=1.0, steps=400, seed=1)
    mean = n * (1 / np.arange(1, n + 1)).sum()
    times = met["time"].to_numpy()
    assert not met["censored"].any()
    assert abs(times.mean() - mean) < 4 * times.std() / 20
