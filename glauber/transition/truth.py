"""Distance to equilibrium where it can be known: small spaces, by their transition matrix."""

from collections.abc import Sequence

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import stats

from .. import coupling, exact
from ..checks import whole
from ..engines.trace import temperatures
from ..errors import ParameterError

Array = NDArray[np.float64]


def coupling_against_exact(
    table: exact.Table,
    pair: tuple[int, int],
    *,
    temperature: float,
    steps: int,
    groups: int,
    seed: int,
    kind: str = "maximal",
    level: float = 0.95,
) -> pd.DataFrame:
    """Exact total variation between two chains, and the probability that their coupling has not met.

    Parameters
    ----------
    table : Table
        A small space.
    pair : tuple of int
        Indices of the two starting states in `glauber.exact.enumerate_states`.
    temperature : float
    steps : int
    groups : int
        Independent coupled pairs.
    seed : int
    kind : str
        See `glauber.coupling.couple`.
    level : float
        Of the intervals.

    Returns
    -------
    DataFrame
        ``step`` from 0 to ``steps``; ``TV``, of ``P^t(x, .)`` and ``P^t(y, .)``, exact; ``apart``, ``low``, ``high``: estimate of
        ``P(T_c > t)`` with Clopper and Pearson's interval. ``TV <= P(T_c > t)`` at every step.

    Raises
    ------
    ParameterError
        If a parameter is outside its range, or the two states are one.
    """
    n, _, k = table.tables.shape
    states = exact.enumerate_states(n, k)
    first, second = (whole("state", index, 0, len(states) - 1) for index in pair)
    steps, groups = whole("steps", steps), whole("groups", groups)
    if first == second:
        raise ParameterError(
            f"all {groups} pairs start from two equal states, {first}, whose time would be 0: give two states"
        )
    matrix = _matrix(table, temperature)
    laws = np.zeros((2, len(states)))
    laws[0, first] = laws[1, second] = 1.0
    distance = np.zeros(steps + 1)
    for t in range(steps + 1):
        distance[t] = exact.total_variation(laws[0], laws[1])
        laws = laws @ matrix
    met = coupling.couple(
        table,
        np.tile(states[[first, second]], (groups, 1, 1)),
        temperature=temperature,
        steps=steps,
        seed=seed,
        kind=kind,
    )
    # No pair is cut before the last step, so that the number still apart is binomial at each.
    left = (met["time"].to_numpy()[:, None] > np.arange(steps + 1)) | met["censored"].to_numpy()[:, None]
    counts = left.sum(axis=0)
    limits = [stats.binomtest(int(k), groups).proportion_ci(level) for k in counts]
    return pd.DataFrame({"step": np.arange(steps + 1), "TV": distance, "apart": counts / groups,
                         "low": [c.low for c in limits], "high": [c.high for c in limits]})  # fmt: skip


def _matrix(table: exact.Table, temperature: float) -> Array:
    return exact.transition_matrix(table.tables, float(temperatures(temperature, 1, "space")))


def relaxation(table: exact.Table, temperatures: Sequence[float], eps: float = 0.25) -> pd.DataFrame:
    """Spectral gap and mixing time of random scan, exact, at each temperature.

    Returns
    -------
    DataFrame
        ``temperature``; ``gap``, ``1 - |lambda_2|`` per step; ``relaxation`` = 1 / gap and ``mixing``, the first ``t`` with
        ``d(t) <= eps``, in steps. ``mixing`` is NaN where it is over 2^40 steps, and the gap where it is lost to rounding.
    """
    rows = []
    for tau in temperatures:
        matrix = _matrix(table, tau)
        gap = exact.spectral_gap(matrix)
        gap = gap if gap > 1e-12 else np.nan
        try:
            mixing: float = exact.mixing_time(matrix, eps)
        except ParameterError:
            mixing = np.nan
        rows.append((float(tau), gap, 1 / gap, mixing))
    return pd.DataFrame(rows, columns=["temperature", "gap", "relaxation", "mixing"])


def mixing_profile(table: exact.Table, temperature: float, *, eps: float = 0.25, points: int = 60) -> pd.DataFrame:
    """``d(t)``, the distance to equilibrium from the worst start, over time in units of the mixing time.

    With cut-off the profile gets steeper with ``n``, and its limit is a step at 1.

    Returns
    -------
    DataFrame
        ``step``, ``scaled`` (``t / t_mix``, up to 3 or a little over), ``d``.
    """
    matrix = _matrix(table, temperature)
    mixing = exact.mixing_time(matrix, eps)
    every = max(1, round(3 * mixing / points))
    stride = np.linalg.matrix_power(matrix, every)
    mu = exact.stationary_law(matrix)
    rows, reached = [], np.eye(len(matrix))
    for k in range(-(-3 * mixing // every) + 1):
        rows.append((k * every, k * every / mixing, float(exact.total_variation(reached, mu).max())))
        reached = reached @ stride
    return pd.DataFrame(rows, columns=["step", "scaled", "d"])


def window(profile: pd.DataFrame, high: float = 0.75, low: float = 0.05) -> float:
    """Time that ``d(t)`` takes from ``high`` to ``low``, in units of the mixing time: with cut-off it goes to 0 with ``n``."""
    d, scaled = profile["d"].to_numpy()[::-1], profile["scaled"].to_numpy()[::-1]
    return float(np.interp(low, d, scaled) - np.interp(high, d, scaled))
