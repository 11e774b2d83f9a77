"""Kaplan-Meier estimates against a hand calculation, exact coverage and what censoring must not do."""

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from glauber.survival import Median, kaplan_meier, median, medians


def test_curve_of_a_textbook_example() -> None:
    """Six patients of whom two are lost: the product of (1 - deaths / at risk)."""
    curve = kaplan_meier([1, 2, 2, 3, 4, 5], [False, True, False, False, True, False]).set_index("time")["survival"]
    assert curve[1] == pytest.approx(5 / 6)
    assert curve[2] == pytest.approx(5 / 6 * 4 / 5)
    assert curve[3] == pytest.approx(5 / 6 * 4 / 5 * 2 / 3)
    assert curve[5] == 0


def test_medians_keep_the_censored() -> None:
    times = pd.DataFrame(
        {
            "time": [5, 9, 20, 20, 20, 20, 20, 3],
            "censored": [False, False, True, True, True, True, True, False],
            "temperature": [2.0, 2.0, 2.0, 2.0, 1.0, 1.0, 1.0, 1.0],
        }
    )
    rows = medians(times, ["temperature"]).set_index("temperature")
    assert rows["median"].to_dict() == {2.0: 9, 1.0: np.inf}
    assert rows["censored"].tolist() == [0.75, 0.5]
    assert rows["budget"].tolist() == [20, 20]
    assert (rows["low"] <= rows["median"]).all()
    assert rows["high"].tolist() == [np.inf, np.inf]


def test_intervals_of_the_median_cover() -> None:
    """Exponential times of median 100 censored at 120: near 95 % of the intervals hold the median, and none drops censored runs."""
    rng = np.random.default_rng(3)
    true = rng.exponential(100 / np.log(2), size=(400, 30))
    table = pd.DataFrame({"run": np.repeat(np.arange(400), 30), "time": np.minimum(true, 120).ravel()})
    table["censored"] = (true > 120).ravel()
    rows = medians(table, ["run"])
    covered = (rows["low"] <= 100) & (rows["high"] >= 100)
    assert 0.91 <= covered.mean() <= 0.99
    dropped = table[~table["censored"]].groupby("run")["time"].median()
    assert dropped.median() < 70  # what leaving them out would have said


def test_all_censored_and_none() -> None:
    times = pd.DataFrame({"k": [0, 0, 1, 1], "time": [7, 7, 1, 2], "censored": [True, True, False, False]})
    rows = medians(times, ["k"])
    assert rows["median"].tolist() == [np.inf, 1]


def test_interval_at_full_observation_is_that_of_the_order_statistics() -> None:
    """Six runs: from the shortest to the longest, and never an open end; fewer than six have no interval by ranks."""
    six = median(np.arange(1.0, 7.0), np.zeros(6, bool))
    assert six == Median(3.0, 1.0, 6.0, "order statistics")
    assert median(np.arange(1.0, 6.0), np.zeros(5, bool)) == Median(3.0, 0.0, np.inf, "too few runs")
    assert median(np.arange(1.0, 102.0), np.zeros(101, bool)) == Median(51.0, 41.0, 61.0, "order statistics")
    assert median(np.arange(1.0, 7.0), np.zeros(6, bool), level=0.99).interval == "too few runs"


RUNS = 1200  # the ranks are checked exactly; these only show that their coverage is the one that is computed


@pytest.mark.parametrize("count", [6, 9, 16, 41])
@pytest.mark.parametrize("budget", [np.inf, 1.35])
def test_coverage_is_the_binomial_s(count: int, budget: float) -> None:
    """``P(T_(r) <= median <= T_(s)) = P(r <= B <= s - 1)`` for ``B`` of Bin(count, 1/2), whatever the law of the times.

    With a budget, runs whose upper order statistic is past it take the other interval; the rest are checked to be the same.
    """
    rng = np.random.default_rng(count)
    true = rng.weibull(0.6, size=(RUNS, count))
    middle = np.log(2) ** (1 / 0.6)
    found = [median(np.minimum(row, budget), row > budget) for row in true]
    ranks = {(int((row < f.low).sum()) + 1, int((row <= f.high).sum())) for row, f in zip(true, found, strict=True)
             if f.interval == "order statistics"}  # fmt: skip
    assert len(ranks) == 1  # the same two ranks, budget or not
    first, last = ranks.pop()
    law = stats.binom(count, 0.5)
    wanted = law.cdf(last - 1) - law.cdf(first - 1)
    assert wanted >= 0.95 > law.cdf(last - 2) - law.cdf(first)
    held = sum(f.low <= middle <= f.high for f in found)
    if budget == np.inf:
        assert {f.interval for f in found} == {"order statistics"}
        assert stats.binomtest(held, RUNS, wanted).pvalue > 1e-4
    else:
        assert {"order statistics", "Kaplan-Meier"} == {f.interval for f in found}
        assert held / RUNS > 0.93


def test_ranks_past_the_first_censoring_are_not_used() -> None:
    """Nine runs need ranks 2 and 8: with the shortest lost they are unknown, with the longest lost they are not."""
    time = np.arange(1.0, 10.0)
    assert median(time, time == 9)[1:] == (2.0, 8.0, "order statistics")
    assert median(time, time == 1).interval == "Kaplan-Meier"
    assert median(time, time == 7).interval == "Kaplan-Meier"


def test_a_lower_limit_is_never_past_what_was_seen() -> None:
    """Runs that are all cut say that the median is no shorter than the runs, if there are enough of them."""
    assert median(np.full(16, 20.0), np.ones(16, bool)) == Median(np.inf, 20.0, np.inf, "Kaplan-Meier")
    assert median(np.full(2, 20.0), np.ones(2, bool)) == Median(np.inf, 0.0, np.inf, "too few runs")
    lengths = np.arange(1.0, 17.0)
    assert median(lengths, np.ones(16, bool)).low == 4.0
