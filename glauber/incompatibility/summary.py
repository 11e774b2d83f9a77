"""Statistics of rectangles, each with a bootstrap interval over passages."""

from collections.abc import Callable, Sequence
from itertools import pairwise

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import stats

from .rectangles import Grids, rectangle_table

Array = NDArray[np.float64]
# Columns of the array that each statistic sees: D, |path 1| + |path 2|.
STATISTICS: dict[str, Callable[[Array, Array, float], float]] = {
    "mean |D|": lambda d, s, floor: float(np.abs(d).mean()),
    "median |D|": lambda d, s, floor: float(np.median(np.abs(d))),
    "share above the noise floor": lambda d, s, floor: float((np.abs(d) > floor).mean()),
    "normalised, mean of ratios": lambda d, s, floor: float((np.abs(d) / np.where(s > 0, s, 1.0)).mean()),
    "normalised, ratio of means": lambda d, s, floor: float(np.abs(d).mean() / s.mean()) if s.mean() > 0 else 0.0,
}
UNITS = {"mean |D|": "nats", "median |D|": "nats"}


def summarise(
    table: pd.DataFrame, floor: float, *, resamples: int = 999, level: float = 0.95, seed: int = 0
) -> pd.DataFrame:
    """Statistics of a rectangle table, with percentile bootstrap intervals that resample passages.

    Rectangles of one passage share forwards and text, so the passage, not the rectangle, is the sampling unit.

    Parameters
    ----------
    table : DataFrame
        From `rectangle_table`; every passage has the same number of rectangles.
    floor : float
        Noise floor in nats (see `noise_floor`).
    resamples, level, seed
        Of the bootstrap.

    Returns
    -------
    DataFrame
        ``statistic``, ``unit``, ``estimate``, ``low``, ``high``, ``passages``, ``rectangles``. With one passage the
        interval is NaN: there is nothing to resample.
    """
    ordered = table.sort_values("passage", kind="stable")
    passages = ordered["passage"].nunique()
    d = ordered["D"].to_numpy().reshape(passages, -1)
    size = (ordered["path1"].abs() + ordered["path2"].abs()).to_numpy().reshape(passages, -1)
    rows = []
    for name, statistic in STATISTICS.items():
        low = high = np.nan
        if passages > 1:
            interval = stats.bootstrap(
                (np.arange(passages),),
                lambda index, f=statistic: f(d[index], size[index], floor),
                vectorized=False, n_resamples=resamples, confidence_level=level, method="percentile",
                rng=np.random.default_rng(seed),
            ).confidence_interval  # fmt: skip
            low, high = interval.low, interval.high
        rows.append((name, UNITS.get(name, ""), statistic(d, size, floor), low, high, passages, d.size))
    return pd.DataFrame(rows, columns=["statistic", "unit", "estimate", "low", "high", "passages", "rectangles"])


def normalised_against(summaries: Sequence[pd.DataFrame], low: float, high: float) -> str:
    """How our normalised discrepancies lie to a range that another work prints, in words.

    Parameters
    ----------
    summaries : sequence of DataFrame
        From `summarise`, one for each choice of candidates.
    low, high : float
        The other work's range.
    """
    rows = pd.concat(list(summaries))
    values = rows.loc[rows["statistic"].str.startswith("normalised"), "estimate"]
    ours = f"{values.min():.2g} to {values.max():.2g}"
    if values.min() <= 0:
        return f"{ours}, where {low:g} to {high:g} are printed"
    if values.max() < low:
        return f"{ours}, so that the figures printed are {low / values.max():.2g} to {high / values.min():.2g} times as large"
    if values.min() > high:
        return f"{ours}, which is {values.min() / high:.2g} to {values.max() / low:.2g} times the figures printed"
    return f"{ours}, which overlaps the {low:g} to {high:g} that are printed"


def noise_floor(given: Grids, again: Grids, source: str) -> pd.DataFrame:
    """How far ``D`` of the same rectangles moves by rounding alone.

    Parameters
    ----------
    given, again : Grids
        The same grids of the model in two precisions; where the first is float64 already, in batches of two shapes.
    source : str
        What was compared, for the table.

    Returns
    -------
    DataFrame
        ``source``, ``median`` and ``max`` of the difference in nats, ``rectangles``. The floor of an experiment is ``max``,
        the largest of the sampled rectangles: no bound, and 0 where no rounding was seen.
    """
    rounding = (rectangle_table(given)["D"] - rectangle_table(again)["D"]).abs()
    row = (source, float(rounding.median()), float(rounding.max()), len(rounding))
    return pd.DataFrame([row], columns=["source", "median", "max", "rectangles"])


def by_distance(
    table: pd.DataFrame, edges: tuple[int, ...] = (1, 2, 3, 5, 9, 17, 33, 65, 129, 257, 513)
) -> pd.DataFrame:
    """Mean ``|D|`` of each passage by distance between the positions.

    Returns
    -------
    DataFrame
        ``distance`` (label of the bin, in positions), ``passage``, ``mean |D|`` in nats, ``rectangles``.
    """
    labels = [str(a) if b - a == 1 else f"{a}–{b - 1}" for a, b in pairwise(edges)]
    binned = pd.cut(table["distance"], list(edges), right=False, labels=labels)
    grouped = table.assign(distance=binned, size=table["D"].abs()).groupby(["distance", "passage"], observed=True)
    means = grouped["size"].agg(["mean", "size"]).reset_index()
    return means.rename(columns={"mean": "mean |D|", "size": "rectangles"})
