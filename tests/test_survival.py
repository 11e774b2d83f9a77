"""Kaplan-Meier estimates against a hand calculation, exact coverage and what censoring must not do."""

import numpy as np
import pandas as pd
import pytest

from glauber.survival import kaplan_meier, medians


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
