"""Moves between clusters: their counts, the implied time scales of a Markov model, and the test whether it is one."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ..checks import whole

Array = NDArray[np.float64]
Labels = NDArray[np.int64]
CONSISTENT = "consistent with a Markov chain"
REJECTED = "rejected"
UNTOLD = "cannot be told"


def transition_counts(labels: Labels, count: int, lag: int) -> Array:
    """Number of moves from one cluster to another in ``lag`` records, over all chains, shape (count, count).

    Parameters
    ----------
    labels : array of int64, shape (records, chains)
    count : int
        Clusters.
    lag : int
        Records.

    Raises
    ------
    ParameterError
        If the lag is no whole number from 1.
    """
    lag = whole("lag", lag)
    return np.asarray(_by_chain(labels[:-lag], labels[lag:], count).sum(axis=0))


def _by_chain(before: Labels, after: Labels, count: int) -> Array:
    """Moves of each chain, shape (chains, count, count)."""
    chains = before.shape[1]
    cells = (np.arange(chains) * count + before) * count + after
    counts = np.bincount(cells.ravel(), minlength=chains * count**2)
    return np.asarray(counts.reshape(chains, count, count), dtype=np.float64)


def simulate(labels: Labels, count: int, copies: int, rng: np.random.Generator) -> Labels:
    """The first-order Markov chain fitted to all chains, from their starts and as long as they are.

    Parameters
    ----------
    labels : array of int64, shape (records, chains)
    count : int
        Clusters.
    copies : int
    rng : Generator

    Returns
    -------
    array of int64, shape (copies, records, chains)
    """
    counts = transition_counts(labels, count, 1)
    never = counts.sum(axis=1) == 0
    counts[never, never] = 1.0  # a cluster that was never left
    cumulative = np.cumsum(counts / counts.sum(axis=1, keepdims=True), axis=1)
    cumulative[:, -1] = 1.0
    path = np.empty((copies, *labels.shape), dtype=np.int64)
    path[:, 0] = labels[0]
    for t in range(1, len(labels)):
        drawn = rng.random((copies, labels.shape[1], 1))
        path[:, t] = (drawn >= cumulative[path[:, t - 1]]).sum(axis=2)
    return path


@dataclass(frozen=True)
class TimeScales:
    """Implied time scales by lag, with those of resampled chains.

    Attributes
    ----------
    lags : array of int64, shape (lags,)
        Steps.
    estimates : array of float64, shape (lags, orders)
        Steps, slowest first. NaN where there is no such time scale, infinite where nothing links two sets of clusters.
    draws : array of float64, shape (resamples, lags, orders)
        The same of resampled chains; in one resample all lags see the same chains. Without resamples of one chain alone.
    markov : array of float64, shape (simulations, lags, orders)
        The same of as many chains of the same starts and length from the Markov chain fitted at a lag of one record.
    """

    lags: NDArray[np.int64]
    estimates: Array
    draws: Array
    markov: Array

    def table(self, level: float = 0.95) -> pd.DataFrame:
        """``lag`` (steps), ``order`` (1 is the slowest), ``time_scale``, ``low``, ``high`` (steps; pointwise percentile intervals).

        A limit is infinite where resamples reach no finite one, and NaN where most of them have no such time scale.
        """
        rows = []
        for j, lag in enumerate(self.lags.tolist()):
            for k, scale in enumerate(self.estimates[j].tolist()):
                values = self.draws[:, j, k]
                values = values[~np.isnan(values)]
                low, high = np.nan, np.nan
                if len(values) > len(self.draws) / 2:
                    # No interpolation: infinite values have none.
                    low, high = np.quantile(values, ((1 - level) / 2, (1 + level) / 2), method="inverted_cdf")
                rows.append((lag, k + 1, scale, low, high))
        return pd.DataFrame(rows, columns=["lag", "order", "time_scale", "low", "high"])


def time_scales(labels: Labels, count: int, lags: Sequence[int], *, every: int, slowest: int = 3,
                resamples: int = 500, seed: int = 0) -> TimeScales:  # fmt: skip
    """Implied time scales ``-lag / ln |lambda|`` of the Markov model between clusters, by lag.

    If the clusters were the states of a Markov chain the time scales would not depend on the lag (Prinz et al. 2011). Lags are to
    differ in nothing else: at every lag moves from the same records count, those that the longest lag leaves, and the same clusters take
    part, those that chains both leave and enter at every lag. Resamples are of whole chains.

    Parameters
    ----------
    labels : array of int64, shape (records, chains)
    count : int
        Clusters.
    lags : sequence of int
        Records; those that are not shorter than the run are left out.
    every : int
        Steps between records.
    slowest : int
        Number of time scales.
    resamples : int
        Of the bootstrap, and of simulations of the Markov chain.
    seed : int
    """
    used = sorted({whole("lag", lag) for lag in lags if lag < len(labels)})
    chains = labels.shape[1]
    steps = np.array(used, dtype=np.int64) * every
    if not used:
        return TimeScales(steps, np.empty((0, slowest)), *np.empty((2, 0, 0, slowest)))
    counts = _at_lags(labels, count, used)
    rng = np.random.default_rng(seed)
    weights = rng.multinomial(chains, np.full(chains, 1 / chains), resamples) if chains > 1 else np.empty((0, 1))
    drawn = [_scales(np.tensordot(w, counts, (0, 1)), steps, slowest) for w in weights]
    simulated = [
        _scales(_at_lags(path, count, used).sum(axis=1), steps, slowest)
        for path in simulate(labels, count, resamples, rng)
    ]
    own = _scales(counts.sum(axis=1), steps, slowest)
    return TimeScales(steps, own, *(np.array(x).reshape(-1, len(used), slowest) for x in (drawn, simulated)))


def _at_lags(labels: Labels, count: int, lags: list[int]) -> Array:
    """Moves of each chain from the records that have one at every lag, shape (lags, chains, count, count)."""
    origins = len(labels) - lags[-1]
    return np.stack([_by_chain(labels[:origins], labels[lag : lag + origins], count) for lag in lags])


def _scales(counts: Array, lags: NDArray[np.int64], slowest: int) -> Array:
    """Time scales, shape (lags, slowest), of counts (lags, clusters, clusters)."""
    while counts.shape[1]:  # what is never entered or never left, in turn, until no such cluster remains
        off = counts * ~np.eye(counts.shape[1], dtype=bool)
        kept = ((off.sum(axis=1) > 0) & (off.sum(axis=2) > 0)).all(axis=0)
        if kept.all():
            break
        counts = counts[:, kept][:, :, kept]
    scales = np.full((len(lags), slowest), np.nan)
    if counts.shape[1] > 1:
        moduli = np.abs(np.linalg.eigvals(counts / counts.sum(axis=2, keepdims=True)))
        moduli = np.sort(moduli, axis=1)[:, ::-1][:, 1 : slowest + 1]
        with np.errstate(divide="ignore"):
            values = np.where(moduli < 1 - 1e-9, -lags[:, None] / np.log(np.minimum(moduli, 1 - 1e-9)), np.inf)
        scales[:, : values.shape[1]] = values
    return scales


@dataclass(frozen=True)
class LagTest:
    """Whether the slowest time scale depends on the lag.

    Attributes
    ----------
    verdict : str
        `CONSISTENT`, `REJECTED` or `UNTOLD`.
    reason : str
        Why, in words.
    table : DataFrame
        ``lag``, ``time_scale`` (steps), ``used`` (the lag is below the time scale), and for used lags but the shortest
        ``ratio`` to the time scale at the shortest, with the simultaneous interval ``low``, ``high`` over chains, and the
        simultaneous range ``markov_low``, ``markov_high`` that a Markov chain gives.
    """

    verdict: str
    reason: str
    table: pd.DataFrame


def lag_test(scales: TimeScales, *, level: float = 0.95) -> LagTest:
    """Test that the slowest implied time scale is the same at all lags, as it is if moves between clusters are Markov.

    The time scale at each lag is divided by that at the shortest, in each resample of chains: time scales at different lags are of
    the same chains, so that their own intervals cannot be compared. The intervals of the log ratios are two-sided and hold
    for all lags at once (largest deviation of the resamples, in units of their spread). What resamples cannot show, the
    finite length and moves too rare to have occurred, simulations of the fitted Markov chain do: their range is the second
    criterion. A lag above its time scale carries no information on it and is left out.

    Parameters
    ----------
    scales : TimeScales
        From `time_scales`.
    level : float
        Of the intervals, together.

    Returns
    -------
    LagTest
        Rejected if at some lag the interval leaves out 1 and the ratio is outside the range of the Markov chain. Cannot be told if
        fewer than two lags are below their time scale, or intervals are missing or open.
    """
    slow = scales.estimates[:, 0]
    used = np.isfinite(slow) & (slow > scales.lags)
    limits = ["low", "high", "markov_low", "markov_high"]
    table = pd.DataFrame({"lag": scales.lags, "time_scale": slow, "used": used}).assign(
        **dict.fromkeys(["ratio", *limits], np.nan)
    )
    if used.sum() < 2:
        few = "one lag is" if used.sum() else "no lag is"
        return LagTest(UNTOLD, f"{few} below the time scale, and a comparison needs two", table)
    first, *later = np.flatnonzero(used).tolist()
    logs = np.log(slow[later] / slow[first])
    table.loc[later, "ratio"] = np.exp(logs)
    if not len(scales.draws):
        return LagTest(UNTOLD, "one chain alone has no interval", table)
    ratios = [_log_ratios(x[:, :, 0], first, later) for x in (scales.draws, scales.markov)]
    middle = np.quantile(ratios[1], 0.5, axis=0, method="inverted_cdf")  # a short run has a bias
    half, reach = _band(ratios[0], logs, level), _band(ratios[1], middle, level)
    table.loc[later, limits] = np.exp(np.stack([logs - half, logs + half, middle - reach, middle + reach], axis=1))
    known = np.isfinite(half) & np.isfinite(reach)
    if not known.any():
        return LagTest(UNTOLD, "the resamples of the chains give no interval", table)
    # How far each lag is beyond both limits, at most 1 if within one of them.
    beyond = np.where(known, np.minimum(np.abs(logs) / half, np.abs(logs - middle) / reach), 0.0)
    worst = later[int(beyond.argmax())]
    row = table.loc[worst]
    reason = (
        f"from a lag of {table['lag'][first]:,} to one of {row['lag']:,} steps the time scale changes by a factor of "
        f"{row['ratio']:.2f} [{row['low']:.2f}, {row['high']:.2f}], where a Markov chain gives {row['markov_low']:.2f} to "
        f"{row['markov_high']:.2f}"
    )
    if beyond.max() > 1:
        return LagTest(REJECTED, reason, table)
    if not known.all():
        return LagTest(UNTOLD, "at some lags the resamples of the chains give no interval", table)
    return LagTest(CONSISTENT, f"at most, {reason}", table)


def _log_ratios(draws: Array, first: int, later: list[int]) -> Array:
    with np.errstate(divide="ignore", invalid="ignore"):
        drawn = np.log(draws[:, later] / draws[:, [first]])
    return np.where(np.isfinite(drawn), drawn, np.inf)  # without a finite ratio it is as far off as can be


def _band(drawn: Array, middle: Array, level: float) -> Array:
    """Half widths, shape (lags,), of a band about ``middle`` that holds all lags of a draw at the level; infinite where there is none."""
    half = np.full(len(middle), np.inf)
    known = np.isfinite(middle) & (np.isinf(drawn).mean(axis=0) <= (1 - level) / 2)
    if known.any():
        low, high = np.quantile(drawn[:, known], (0.25, 0.75), axis=0, method="inverted_cdf")
        spread = high - low  # unlike the variance, finite with a few draws that are not
        if (spread > 0).all():
            deviation = np.abs(drawn[:, known] - middle[known]) / spread
            half[known] = spread * np.quantile(deviation.max(axis=1), level, method="inverted_cdf")
    return half
