"""Time spent on topics: shares, visits, dwell times and first passages, each with an interval over chains."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import stats

from ..survival import kaplan_meier, medians

Labels = NDArray[np.int64]
SHARE, VISITS, COMES, RETURNS, ENDS = "share of time", "visits", "comes at all", "leaves and comes back", "ends inside"
DWELL = "mean dwell of ended visits (sweeps)"


def shares(
    labels: Labels, classes: Sequence[str], *, level: float = 0.95, resamples: int = 1000, seed: int = 0
) -> pd.DataFrame:
    """Share of time on each topic, with percentile bootstrap intervals that resample chains.

    Parameters
    ----------
    labels : array of int64, shape (records, chains)
        Class of each chain's text at each record.
    classes : sequence of str
    level, resamples, seed
        Of the bootstrap.

    Returns
    -------
    DataFrame
        As `mean_shares`, with ``chains`` and ``records``.
    """
    found = mean_shares(own_shares(labels, len(classes)), classes, level=level, resamples=resamples, seed=seed)
    return found.rename(columns={"units": "chains"}).assign(records=len(labels))


def own_shares(labels: Labels, count: int) -> NDArray[np.float64]:
    """Share of time of each chain on each topic, shape (chains, count), of labels (records, chains)."""
    return np.stack([(labels == k).mean(axis=0) for k in range(count)], axis=1)


def mean_shares(
    own: NDArray[np.float64], classes: Sequence[str], *, level: float = 0.95, resamples: int = 1000, seed: int = 0
) -> pd.DataFrame:
    """Mean over units, such as chains or passages, of the share that each has of each topic, with percentile bootstrap intervals.

    Parameters
    ----------
    own : array of float64, shape (units, classes)
    classes : sequence of str
    level, resamples, seed
        Of the bootstrap, which resamples units.

    Returns
    -------
    DataFrame
        ``topic``, ``share``, ``low``, ``high``, ``units``. Records of one chain are not independent; chains are,
        and one chain alone has no interval (NaN). Where no chain is ever on a topic, the upper end is Clopper and Pearson's for
        the share of chains that come at all.
    """
    rng = np.random.default_rng(seed)
    units = len(own)
    draws = own[rng.integers(0, units, (resamples, units))].mean(axis=1)
    low, high = np.full((2, len(classes)), np.nan)
    if units > 1:
        low, high = np.quantile(draws, ((1 - level) / 2, (1 + level) / 2), axis=0)
        # Resampling cannot tell what no chain did. A share of time is at most the share of chains that come at all, at least the
        # share of those that never leave: the limits of these are Clopper and Pearson's.
        edge = ((1 - level) / 2) ** (1 / units)
        high = np.where(own.max(axis=0) == 0, 1 - edge, high)
        low = np.where(own.min(axis=0) == 1, edge, low)
    return pd.DataFrame({"topic": list(classes), "share": own.mean(axis=0), "low": low, "high": high, "units": units})


def visits(inside: NDArray[np.bool_], every: int) -> pd.DataFrame:
    """Separate stays inside a set.

    Parameters
    ----------
    inside : array of bool, shape (records, chains)
    every : int
        Steps between records.

    Returns
    -------
    DataFrame
        ``chain``, ``visit`` (number within the chain, from 0), ``entered`` (steps), ``time`` (dwell in steps, from the record of
        entry to the first record outside), ``censored`` (the run ended inside), ``born`` (the chain started inside, so that
        the stay had no entry).
    """
    rows = []
    for chain, path in enumerate(inside.T):
        padded = np.concatenate([[False], path, [False]]).astype(np.int8)
        first, last = np.flatnonzero(np.diff(padded) == 1), np.flatnonzero(np.diff(padded) == -1)
        for k, (a, b) in enumerate(zip(first, last, strict=True)):
            cut = b == len(path)
            # A stay that is cut has been seen from its entry to the last record.
            rows.append((chain, k, a * every, (b - a - cut) * every, bool(cut), bool(a == 0)))
    return pd.DataFrame(rows, columns=["chain", "visit", "entered", "time", "censored", "born"])


def first_passage(inside: NDArray[np.bool_], origin: Sequence[str], every: int, level: float = 0.95) -> pd.DataFrame:
    """First record inside a set, by the topic that a chain started from.

    Parameters
    ----------
    inside : array of bool, shape (records, chains)
    origin : sequence of str
        Start topic of each chain.
    every : int
        Steps between records.
    level : float
        Of the intervals.

    Returns
    -------
    DataFrame
        ``origin``, ``reached`` (share by the end of the run), ``median``, ``low``, ``high`` (steps, Kaplan-Meier; infinite where
        above the run), ``chains``.
    """
    reached = inside.any(axis=0)
    time = np.where(reached, inside.argmax(axis=0), len(inside) - 1) * every
    table = pd.DataFrame({"origin": list(origin), "time": time, "censored": ~reached})
    found = medians(table, ["origin"], level).rename(columns={"count": "chains"})
    return found.assign(reached=1 - found["censored"])[["origin", "reached", "median", "low", "high", "chains"]]


def staying(stays: pd.DataFrame, level: float = 0.95) -> pd.DataFrame:
    """Probability that a stay lasts longer than ``t`` steps, over stays with an entry; those cut by the end are censored.

    Parameters
    ----------
    stays : DataFrame
        From `visits`.

    Returns
    -------
    DataFrame
        As `glauber.survival.kaplan_meier`; empty without a stay. Its intervals take stays as independent.
    """
    entered = stays[~stays["born"].astype(bool) & (stays["time"] > 0)]
    if entered.empty:
        return pd.DataFrame(columns=["time", "survival", "low", "high"], dtype=float)
    return kaplan_meier(entered["time"], entered["censored"], level)


def summary(inside: NDArray[np.bool_], every: int, sweep: int) -> pd.DataFrame:
    """Visits in one table, per chain on average, with intervals over chains: Student's, and Clopper and Pearson's for shares of chains.

    Returns
    -------
    DataFrame
        ``quantity``, ``mean``, ``low``, ``high``, ``chains``. Share of time, visits per chain, share of chains that come at all, that
        come back after having left, that end inside, and the mean dwell in sweeps of the stays that ended. Limits of a mean are cut
        to what such a mean can be in a run of that length, and are NaN where all values are the same, which give no interval.
    """
    stays, (records, chains) = visits(inside, every), inside.shape
    number = stays.groupby("chain").size().reindex(range(chains), fill_value=0).to_numpy()
    ended = stays[~stays["censored"].astype(bool)]
    dwell = ended.groupby("chain")["time"].mean() / sweep
    step = every / sweep
    rows = [
        (SHARE, *_student(inside.mean(axis=0), 0, 1), chains),
        (VISITS, *_student(number, 0, (records + 1) // 2), chains),
    ]
    for name, yes in {COMES: number > 0, RETURNS: number > 1, ENDS: inside[-1]}.items():
        limits = stats.binomtest(int(yes.sum()), chains).proportion_ci(0.95)
        rows.append((name, float(yes.mean()), limits.low, limits.high, chains))
    rows.append((DWELL, *_student(dwell.to_numpy(), step, (records - 1) * step), len(dwell)))
    return pd.DataFrame(rows, columns=["quantity", "mean", "low", "high", "chains"])


def _student(values: NDArray[Any], least: float, most: float) -> tuple[float, float, float]:
    if len(values) == 0:
        return np.nan, np.nan, np.nan
    if np.ptp(values) == 0:
        return float(values[0]), np.nan, np.nan
    limits = stats.ttest_1samp(values, 0.0).confidence_interval(0.95)
    low, high = np.clip([limits.low, limits.high], least, most)
    return float(values.mean()), float(low), float(high)
