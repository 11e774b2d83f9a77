"""The level ``C(tau)`` of mixing times in units of ``n log n``, and the temperature at which it leaves its hot value.

Intervals resample pairs: a pair has the same passages and the same random streams at all temperatures and lengths, so that
it, not the single run, is the sampling unit.
"""

from collections.abc import Iterator

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.optimize import isotonic_regression

from .fits import check_times, fit, n_log_n

Array = NDArray[np.float64]


def level(times: pd.DataFrame, *, resamples: int = 200, confidence: float = 0.95, seed: int = 0) -> pd.DataFrame:
    """``C(tau)`` of ``T = C(tau) n log n`` at every temperature, with bootstrap intervals over pairs.

    Parameters
    ----------
    times : DataFrame
        ``temperature``, ``n``, ``pair``, ``time`` (steps), ``censored``.
    resamples, confidence, seed
        Of the bootstrap.

    Returns
    -------
    DataFrame
        ``temperature``, ``C``, ``low``, ``high``, ``exponent``, ``exponent_low``, ``exponent_high`` (``b`` of ``a n^b``),
        ``sigma``, ``pairs``, ``runs``, ``censored`` (share). NaN where fewer than 5 times were observed; the interval is
        NaN where more than a tenth of the resamples have no fit.
    """
    check_times(times)
    rows = []
    for tau, group in times.groupby("temperature"):
        main, power = fit(group), fit(group, "a n^b")
        estimate = np.array([np.exp(main.beta[0]) if main else np.nan, power.beta[1] if power else np.nan])
        draws = np.full((resamples, 2), np.nan)
        if main:
            for r, sample in enumerate(_resampled(group, resamples, seed)):
                again, grown = fit(sample), fit(sample, "a n^b")
                draws[r] = np.exp(again.beta[0]) if again else np.nan, grown.beta[1] if grown else np.nan
        low, high = _limits(draws, confidence)
        sigma = main.sigma if main else np.nan
        shares = (group["pair"].nunique(), len(group), group["censored"].mean())
        rows.append((tau, estimate[0], low[0], high[0], estimate[1], low[1], high[1], sigma, *shares))
    columns = ["temperature", "C", "low", "high", "exponent", "exponent_low", "exponent_high", "sigma"]
    return pd.DataFrame(rows, columns=[*columns, "pairs", "runs", "censored"])


def crossover(
    times: pd.DataFrame, *, factor: float = 5.0, resamples: int = 500, confidence: float = 0.95, seed: int = 0
) -> pd.DataFrame:
    """Temperature ``tau*(n)`` at which the median time is ``factor`` times its high-temperature level.

    The level is ``C`` at the hottest temperature, fitted over all lengths. At each length the share of pairs that take longer
    than ``factor C n log n`` is made non-increasing in temperature (isotonic regression) and interpolated linearly in
    ``log tau``; ``tau*`` is where it is one half. A censored run counts as longer, which is certain as long as the budget
    is no less than that threshold.

    Parameters
    ----------
    times : DataFrame
        ``temperature``, ``n``, ``pair``, ``time``, ``censored``. Lengths may have temperatures of their own, but for the hottest.
    factor : float
    resamples, confidence, seed
        Of the bootstrap over pairs, which redraws the level too.

    Returns
    -------
    DataFrame
        ``n``, ``tau_star``, ``low``, ``high``, ``below``, ``above`` (the two temperatures of the grid between which the
        share falls below one half), ``threshold`` (steps), ``pairs`` and ``reason``: why there is no estimate, if so.
    """
    lengths, taus, estimate, draws = _drawn(times, factor, resamples, seed)
    hot = _hot(times, taus)
    rows = []
    for k, n in enumerate(lengths):
        here = times[times["n"] == n]
        threshold = factor * hot * float(n_log_n(np.array(n)))
        reason = _reason(estimate[k], threshold, here)
        low, high = _limits(draws[:, k : k + 1], confidence) if not reason else (np.array([np.nan]),) * 2
        tau = np.nan if reason else estimate[k]
        grid = np.sort(here["temperature"].unique())
        beside = np.searchsorted(grid, tau)
        below, above = (np.nan, np.nan) if reason else (grid[max(beside - 1, 0)], grid[beside])
        rows.append((n, tau, low[0], high[0], below, above, threshold, here["pair"].nunique(), reason))
    names = ["n", "tau_star", "low", "high", "below", "above", "threshold", "pairs", "reason"]
    return pd.DataFrame(rows, columns=names)


def crossover_shift(
    times: pd.DataFrame, *, factor: float = 5.0, resamples: int = 500, confidence: float = 0.95, seed: int = 0
) -> "pd.Series[float]":
    """How far ``tau*`` moves from the shortest to the longest length, over the same pairs.

    A pair has the same passages at all lengths, so that two estimates share their luck: each resample gives both, and their
    difference is what varies. Whether the intervals of the two overlap says little.

    Parameters
    ----------
    times, factor, resamples, confidence, seed
        As for `crossover`.

    Returns
    -------
    Series
        ``estimate``, ``low``, ``high`` of ``tau*(longest) - tau*(shortest)``; NaN where one of the two has no estimate (a ``reason`` in
        `crossover`), and infinite where the limit lies off the grid.
    """
    lengths, taus, estimate, draws = _drawn(times, factor, resamples, seed)
    hot = _hot(times, taus)
    known = all(
        not _reason(estimate[k], factor * hot * float(n_log_n(np.array(lengths[k]))), times[times["n"] == lengths[k]])
        for k in (0, -1)
    )
    if not known or len(lengths) < 2:
        return pd.Series({"estimate": np.nan, "low": np.nan, "high": np.nan})
    with np.errstate(invalid="ignore"):
        low, high = _limits((draws[:, -1] - draws[:, 0])[:, None], confidence)
    return pd.Series({"estimate": estimate[-1] - estimate[0], "low": low[0], "high": high[0]})


def _drawn(times: pd.DataFrame, factor: float, resamples: int, seed: int) -> tuple[list[int], Array, Array, Array]:
    """Lengths, temperatures, ``tau*`` of each length, and the same of every resample (resamples, lengths)."""
    check_times(times)  # also those of colder runs, of which only the order counts
    lengths = sorted(times["n"].unique())
    taus = np.array(sorted(times["temperature"].unique()))
    estimate = _crossings(times, factor, lengths, taus)
    return (
        lengths,
        taus,
        estimate,
        np.array([_crossings(s, factor, lengths, taus) for s in _resampled(times, resamples, seed)]),
    )


def _hot(times: pd.DataFrame, taus: Array) -> float:
    """The high-temperature level ``C``; NaN where there is none or it is not finite, so that nothing is compared with it."""
    found = fit(times[times["temperature"] == taus[-1]])
    level = float(np.exp(found.beta[0])) if found else np.nan
    return level if np.isfinite(level) else np.nan


def _reason(tau: float, threshold: float, here: pd.DataFrame) -> str:
    if not np.isfinite(threshold):
        return "no finite level at the hottest temperature"
    cut = here[here["censored"]]
    if len(cut) and cut["time"].min() < threshold:
        return f"the budget of {cut['time'].min():.0f} steps is below the threshold"
    if tau == -np.inf:
        return "below the coldest temperature"
    return "above the hottest temperature" if tau == np.inf else ""


def _crossings(times: pd.DataFrame, factor: float, lengths: list[int], taus: Array) -> Array:
    """``tau*`` of each length; infinite where it is outside of the grid, NaN without a level."""
    scale = factor * _hot(times, taus)
    if np.isnan(scale):
        return np.full(len(lengths), np.nan)
    longer = (times["time"] > scale * n_log_n(times["n"].to_numpy())) | times["censored"]
    shares = longer.groupby([times["n"], times["temperature"]]).mean()
    return np.array([_half(shares[n].to_numpy(), shares[n].index.to_numpy()) for n in lengths])


def _half(share: Array, taus: Array) -> float:
    falling = np.asarray(isotonic_regression(share, increasing=False).x)
    if falling[0] <= 0.5:
        return -np.inf
    if falling[-1] > 0.5:
        return np.inf
    k = int(np.argmax(falling <= 0.5))
    weight = (falling[k - 1] - 0.5) / (falling[k - 1] - falling[k])
    return float(np.exp((1 - weight) * np.log(taus[k - 1]) + weight * np.log(taus[k])))


def _resampled(times: pd.DataFrame, resamples: int, seed: int) -> Iterator[pd.DataFrame]:
    """The runs of pairs drawn with replacement; the same draws for every table with the same pairs."""
    pairs = np.sort(times["pair"].unique())
    rows = [np.flatnonzero(times["pair"].to_numpy() == pair) for pair in pairs]
    rng = np.random.default_rng(seed)
    for _ in range(resamples):
        yield times.iloc[np.concatenate([rows[k] for k in rng.integers(0, len(pairs), len(pairs))])]


def _limits(draws: Array, confidence: float) -> tuple[Array, Array]:
    """Percentile interval of each column. NaN where over a tenth of the draws is."""
    edges = ((1 - confidence) / 2, (1 + confidence) / 2)
    limits = np.full((2, draws.shape[1]), np.nan)
    for k, column in enumerate(draws.T):
        there = column[~np.isnan(column)]
        if len(there) and len(there) >= 0.9 * len(column):
            # inverted_cdf: no interpolation between a temperature and infinity.
            limits[:, k] = np.quantile(there, edges, method="inverted_cdf")
    return limits[0], limits[1]
