"""Waiting times of which some are only known to be longer than the run: right-censored, by Kaplan and Meier's estimate."""

import warnings
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from scipy import stats


def kaplan_meier(time: ArrayLike, censored: ArrayLike, level: float = 0.95) -> pd.DataFrame:
    """Estimate of ``P(T > t)`` with pointwise log-log intervals.

    Parameters
    ----------
    time : array, shape (count,)
        Waiting times; where censored, the time until which nothing had happened.
    censored : array of bool, shape (count,)
    level : float

    Returns
    -------
    DataFrame
        ``time``, ``survival``, ``low``, ``high``, one row per distinct time. Where no one or everyone is left the log-log
        interval is undefined, and its limits are NaN.
    """
    times, cut = np.asarray(time, dtype=np.float64), np.asarray(censored, dtype=bool)
    survival = stats.ecdf(stats.CensoredData(uncensored=times[~cut], right=times[cut])).sf
    with np.errstate(divide="ignore", invalid="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # says what the docstring says of the ends
        limits = survival.confidence_interval(level, method="log-log")
    return pd.DataFrame(
        {
            "time": survival.quantiles,
            "survival": survival.probabilities,
            "low": limits.low.probabilities,
            "high": limits.high.probabilities,
        }
    )


class Median(NamedTuple):
    """A median waiting time and its interval.

    Attributes
    ----------
    median : float
        Kaplan and Meier's: the first time at which half or fewer are left; infinite where that is not seen.
    low, high : float
        Limits; ``high`` is infinite where the upper end is open, ``low`` is 0 where the lower one is.
    interval : str
        What the limits are: ``order statistics``, ``Kaplan-Meier``, or ``too few runs`` for the level, where both are open.
    """

    median: float
    low: float
    high: float
    interval: str


def median(time: ArrayLike, censored: ArrayLike, level: float = 0.95) -> Median:
    """Median of waiting times of which some may be censored, with its interval.

    Where the order statistics that the binomial law asks for are known, the interval is theirs (David and Nagaraja 2003,
    section 7.1): it covers at the level or more, whatever the law of the times, and for six runs at 95 % goes from the shortest to the
    longest. They are known without censoring, and as long as the upper one is no later than the first censoring. Else the interval is
    Brookmeyer and Crowley's, from log-log limits of the Kaplan-Meier curve, which is approximate. With fewer runs than the level needs,
    6 at 95 %, no interval by ranks exists, and both ends are open.

    Parameters
    ----------
    time : array, shape (count,)
        Waiting times; where censored, the time until which nothing had happened.
    censored : array of bool, shape (count,)
    level : float
    """
    times, cut = np.asarray(time, dtype=np.float64), np.asarray(censored, dtype=bool)
    curve = kaplan_meier(times, cut, level)
    middle = _first(curve["time"], curve["survival"])
    # What is past the first censoring has no known rank.
    known = np.where(cut | (times > times[cut].min(initial=np.inf)), np.inf, times)
    ranked = stats.quantile_test(known, p=0.5).confidence_interval(level)
    if np.isnan(ranked.low) or np.isnan(ranked.high):
        return Median(middle, 0.0, np.inf, "too few runs")
    if np.isfinite(ranked.high):
        return Median(middle, float(ranked.low), float(ranked.high), "order statistics")
    low, high = (_first(curve["time"], curve[end]) for end in ("low", "high"))
    if np.isinf(low):  # no run is shorter than it was seen to be, so that its rank bounds the median from below
        low = float(stats.quantile_test(times, p=0.5).confidence_interval(level).low)
    return Median(middle, low, high, "Kaplan-Meier")


def medians(times: pd.DataFrame, by: Sequence[str], level: float = 0.95) -> pd.DataFrame:
    """Medians with intervals, by group (see `median`).

    Parameters
    ----------
    times : DataFrame
        ``time`` (steps) and ``censored``, one row per run, and the columns ``by``.
    by : sequence of str
    level : float
        Of the intervals.

    Returns
    -------
    DataFrame
        The columns ``by``, then ``median``, ``low``, ``high`` (steps), ``censored`` (share), ``count`` (runs), ``budget``
        (steps, the longest time seen: the budget where runs are censored) and ``interval`` (what the limits are). A median or an
        upper limit that lies above the budget is infinite: nothing more is known. An open lower limit is 0.
    """
    rows = []
    for key, group in times.groupby(list(by)):
        *limits, kind = median(group["time"], group["censored"], level)
        values = (*limits, group["censored"].mean(), len(group), group["time"].max(), kind)
        rows.append((*(key if isinstance(key, tuple) else (key,)), *values))
    return pd.DataFrame(rows, columns=[*by, "median", "low", "high", "censored", "count", "budget", "interval"])


def _first(time: "pd.Series[float]", level: "pd.Series[float]") -> float:
    """First time at which a survival curve is at one half or below; a NaN, as at the ends of an interval, is not."""
    below: NDArray[np.bool_] = level.to_numpy() <= 0.5
    return float(time.to_numpy()[below.argmax()]) if below.any() else np.inf
