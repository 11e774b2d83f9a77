"""Criteria of rapid mixing that an influence matrix ``C`` may meet, the bound that each gives, and what a sampled matrix says.

Two copies of the chain that redraw the same position and couple their tokens maximally differ at position ``i`` with
probability ``u_i``, and a step takes ``u`` to ``(1 - 1/n) u + C u / n`` at most. Whatever norm makes ``C`` smaller than 1 makes
``u`` shrink: the largest row sum (Dobrushin's condition), the largest column sum (path coupling), the largest singular value,
and a weighted column sum that comes as near to the spectral radius as one likes (book, section Contraction;
:cite:`dobrushin1970`, :cite:`bubley1997path`, :cite:`dyer2009matrix`, :cite:`hayes2006simple`).

``c_ij`` is the influence of position ``j`` on position ``i``. All four values are monotone in the entries, so that of a matrix of
lower bounds each is a lower bound. Below 1 it then certifies nothing; at 1 or more it rules out *that criterion*, and no other:
only a spectral radius of 1 or more rules out all four.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr
from numpy.typing import ArrayLike, NDArray

from ..checks import reals, whole
from ..engines.trace import temperatures
from ..errors import ParameterError

CRITERIA = {
    "row_sum": "largest row sum (Dobrushin)",
    "column_sum": "largest column sum (path coupling)",
    "norm": "spectral norm",
    "radius": "spectral radius",
}
LEVELS = np.geomspace(1e-4, 1e4, 200)  # where between the radius and the column sums the weights are looked for


def criteria(matrix: ArrayLike, eps: float = 0.25) -> pd.DataFrame:
    """The four criteria of an influence matrix, and the bound on the mixing time that each gives.

    Parameters
    ----------
    matrix : array of float, shape (n, n)
        ``c_ij``, or upper bounds on them. The bounds hold for these alone, never for sampled values.
    eps : float
        Total variation, between 0 and 1.

    Returns
    -------
    DataFrame
        One row per criterion. ``criterion`` (a key of `CRITERIA`) and its ``value``; ``rate`` and ``constant``, the ``s`` and
        ``K`` of ``d(t) <= K exp(-(1 - s) t / n)``; ``steps``, the bound ``n / (1 - s) log(K / eps)``, infinite if ``s >= 1``. ``K`` is
        ``n`` and ``s`` the value itself but for the spectral radius: there ``s`` is that of `weights`, above the radius, and ``K``
        the sum of the weights over the smallest.

    Raises
    ------
    ParameterError
        If the matrix is not square, or an entry is negative or not finite; if ``eps`` is not between 0 and 1.
    """
    c = _matrix(matrix)
    n = len(c)
    w, values = weights(c, eps), values_of(c)
    rows = []
    for name, value in values.items():
        rate, constant = float(value), float(n)
        if name == "radius":
            rate, constant = float((w @ c / w).max()), float(w.sum() / w.min())
        rows.append((name, float(value), rate, constant, t_mix_bound(n, rate, eps, constant)))
    return pd.DataFrame(rows, columns=["criterion", "value", "rate", "constant", "steps"])


def values_of(matrix: NDArray[np.float64]) -> dict[str, NDArray[np.float64]]:
    """The values of `CRITERIA` of matrices of shape (..., n, n), in that order."""
    return {
        "row_sum": matrix.sum(axis=-1).max(axis=-1),
        "column_sum": matrix.sum(axis=-2).max(axis=-1),
        "norm": np.asarray(np.linalg.norm(matrix, ord=2, axis=(-2, -1))),
        "radius": np.abs(np.linalg.eigvals(matrix)).max(axis=-1),
    }


def weights(matrix: ArrayLike, eps: float = 0.25) -> NDArray[np.float64]:
    """Positive weights ``w`` of positions for which ``n / (1 - s) log(sum w / (w_min eps))`` is small.

    ``s = max_j (w C)_j / w_j``. Tried are ``w = 1`` and ``w = 1 (lambda - C)^{-1}`` at many ``lambda`` above the spectral radius:
    the left Perron vectors of ``C + delta J``, ``J`` the matrix of ones, for as many ``delta > 0``. As ``lambda`` falls to the radius
    ``s`` does too, while the sum of the weights over the smallest may grow without limit, and grows exponentially in ``n`` for a directed
    chain of copies.

    Parameters
    ----------
    matrix : array of float, shape (n, n)
    eps : float

    Returns
    -------
    array of float64, shape (n,)
        The smallest is 1. Any positive ``w`` gives a true bound, so that the choice may be improved and never be wrong.
    """
    c = _matrix(matrix)
    n = len(c)
    values = values_of(c)
    radius, column = float(values["radius"]), float(values["column_sum"])
    tried = np.ones((1, n))
    if column > radius:
        levels = radius + (column - radius) * LEVELS
        shifted = levels[:, None, None] * np.eye(n) - c.T
        # Above the radius the determinant is positive; where rounding puts a level on it the system has no solution.
        shifted = shifted[np.linalg.slogdet(shifted)[0] > 0]
        tried = np.vstack([tried, np.linalg.solve(shifted, np.ones((len(shifted), n, 1)))[..., 0]])
    tried = tried[np.isfinite(tried).all(axis=1) & (tried > 0).all(axis=1)]
    tried = tried / tried.min(axis=1, keepdims=True)
    rates = (tried @ c / tried).max(axis=1)
    bounds = np.array([t_mix_bound(n, r, eps, k) for r, k in zip(rates, tried.sum(axis=1), strict=True)])
    return np.asarray(tried[bounds.argmin() if np.isfinite(bounds).any() else rates.argmin()])


def t_mix_bound(n: int, alpha: float, eps: float = 0.25, constant: float | None = None) -> float:
    """Steps after which the chain is within ``eps`` of equilibrium, ``n/(1-alpha) log(K/eps)``; infinite if ``alpha >= 1``.

    The theorem holds from every start :cite:`bubley1997path`, :cite:`dyer2009matrix`; ``alpha`` must be the true one or an
    upper bound, never a sampled one.

    Parameters
    ----------
    n : int
        Free positions.
    alpha : float
        The largest row sum, the largest column sum or the spectral norm of the influence matrix, or the ``s`` of `weights`; not
        its spectral radius.
    eps : float
        Total variation, between 0 and 1.
    constant : float, optional
        ``K``: ``n`` by default, which is that of the first three; ``sum w / w_min`` with weights.

    Raises
    ------
    ParameterError
        If ``n`` is below 1, ``alpha`` is negative or NaN, ``eps`` is not between 0 and 1, or ``K`` is below ``n``.
    """
    whole("n", n)
    k = float(n) if constant is None else constant
    if not alpha >= 0 or not 0 < eps < 1 or not k >= n * (1 - 1e-12):
        raise ParameterError(
            f"alpha = {alpha:g}, eps = {eps:g}, K = {k:g}: give alpha of 0 or more, eps between 0 and 1, and K from n = {n}"
        )
    return float(n / (1 - alpha) * np.log(k / eps)) if alpha < 1 else float("inf")


def lower_bounds(influence: xr.Dataset) -> pd.DataFrame:
    """What a search found of each criterion, lower bounds all, and the mean influence beside them.

    Parameters
    ----------
    influence : Dataset
        From `glauber.contraction.measure`. Entries that were not measured count as 0: row sums, norm and radius need all columns to
        be worth much.

    Returns
    -------
    DataFrame
        ``scheme`` (``all``, the largest entries found by any, comes last if there are several), ``temperature``; ``row_sum``,
        ``column_sum``, ``norm`` and ``radius`` of ``max``, each a lower bound on the criterion of `CRITERIA`; ``mean``: the mean over
        ``j`` of ``sum_i`` of ``mean``, how many other positions one typical substitution moves; ``gain``: the excess of
        ``column_sum`` over the ``uniform`` scheme's, relative.
    """
    largest, mean = influence["max"], influence["mean"]
    if influence.sizes["scheme"] > 1:
        largest = xr.concat([largest, largest.max("scheme").expand_dims(scheme=["all"])], "scheme")
    by = ("scheme", "temperature")
    matrices = largest.transpose(*by, "i", "j").fillna(0.0).to_numpy()
    sums = xr.Dataset(
        {name: (by, values) for name, values in values_of(matrices).items()},
        coords={name: largest[name] for name in by},
    )
    sums["mean"] = mean.sum("i", min_count=1).mean("j").reindex(scheme=largest["scheme"])
    gain: Any = xr.full_like(sums["column_sum"], np.nan)
    if "uniform" in sums["scheme"]:
        random = sums["column_sum"].sel(scheme="uniform", drop=True)
        gain = sums["column_sum"] / random.where(random > 0) - 1
    return sums.assign(gain=gain).to_dataframe(dim_order=list(by)).reset_index()


@dataclass(frozen=True)
class Crossing:
    """Where a value that was found falls below a level.

    Attributes
    ----------
    temperature : float
        NaN if there is none in the grid.
    reason : str
        Why it is NaN, else empty.
    last : float
        The largest temperature of the grid with a value at or above the level, NaN if there is none: what was found, not
        interpolated.
    count, of : int
        Temperatures of the grid with such a value, and in all. The values need not be monotone, so they need not be all up to
        ``last``.
    """

    temperature: float
    reason: str
    last: float
    count: int
    of: int

    @property
    def words(self) -> str:
        """At how many temperatures the value is at the level or above, and up to which."""
        grid = f"of the {self.of} temperatures of the grid"
        return f"{self.count} {grid}, the largest of them τ = {self.last:.3g}" if self.count else f"none {grid}"


def crossing(taus: ArrayLike, values: ArrayLike, level: float = 1.0) -> Crossing:
    """The temperature above which ``values`` stay below ``level``, interpolated linearly in ``log tau``.

    A criterion need not be monotone: near ``tau = 0`` two laws with the same likeliest token agree again. So this is the last
    crossing of the grid. For a sampled criterion it lies, up to the interpolation, at or below that of the criterion itself.

    Raises
    ------
    ParameterError
        If the two have different lengths or are empty.
    """
    tau, value = np.asarray(taus, dtype=np.float64), np.asarray(values, dtype=np.float64)
    if tau.ndim != 1 or tau.shape != value.shape or not len(tau):
        raise ParameterError(f"temperatures {tau.shape} and values {value.shape} do not match: give one value for each")
    order = np.argsort(tau)
    tau, value = tau[order], value[order]
    above = np.flatnonzero(value >= level)
    if not len(above):
        return Crossing(np.nan, f"below {level:g} on the whole grid, from tau = {tau[0]:g} on", np.nan, 0, len(tau))
    last, found = int(above[-1]), (float(tau[above[-1]]), len(above), len(tau))
    if last == len(tau) - 1:
        reason = f"still {value[-1]:.3g} at the highest temperature of the grid, tau = {tau[-1]:g}"
        return Crossing(np.nan, reason, *found)
    share = (value[last] - level) / (value[last] - value[last + 1])
    return Crossing(float(tau[last] * (tau[last + 1] / tau[last]) ** share), "", *found)


def ruled_out(found: pd.DataFrame) -> dict[str, Crossing]:
    """For each criterion, the temperatures at which a value of 1 or more was found: there it cannot hold.

    Parameters
    ----------
    found : DataFrame
        Rows of one scheme from `lower_bounds`.
    """
    return {name: crossing(found["temperature"], found[name]) for name in CRITERIA}


def grid(given: ArrayLike) -> NDArray[np.float64]:
    """One or more temperatures, shape (count,), each in the range of a run.

    Raises
    ------
    ParameterError
        If there is none, or one is no number or not from 1e-4 to 1e6, as in a run.
    """
    tau = np.atleast_1d(reals("temperatures", given))
    if tau.ndim != 1 or not len(tau):
        raise ParameterError(f"temperatures have shape {tau.shape}: give a list of one or more")
    return np.asarray(temperatures(tau, len(tau), "value").numpy())


def _matrix(given: ArrayLike) -> NDArray[np.float64]:
    matrix = reals("the influence matrix", given).astype(np.float64)
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1] or not len(matrix):
        raise ParameterError(f"the influence matrix has shape {matrix.shape}: give a square one")
    bad = matrix[~(np.isfinite(matrix) & (matrix >= 0))]
    if bad.size:
        raise ParameterError(f"the influence matrix holds {bad[0]:g}: give all entries, each a number of 0 or more")
    return matrix
