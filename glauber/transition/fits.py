"""Growth of waiting times with the number of positions, fitted by likelihood with censored times in it.

At one temperature, ``log T = log m(n) + sigma Z`` with a standard normal ``Z``: log-normal times around a median that grows
with ``n`` in one of three ways. A censored time contributes ``P(T > t)``. The log-likelihood is concave in
``(beta / sigma, 1 / sigma)`` (Olsen 1978), so that every fit has one optimum.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import optimize, special, stats

from ..errors import ParameterError

Array = NDArray[np.float64]
FEWEST = 5  # observed times that a fit needs


def n_log_n(n: Array) -> Array:
    """The scale ``n log n``."""
    return np.asarray(n * np.log(n))


# Growth -> (offset, design): log m(n) = offset(n) + design(n) @ beta.
GROWTHS: dict[str, tuple[Callable[[Array], Array], Callable[[Array], Array]]] = {
    "C n log n": (lambda n: np.log(n_log_n(n)), lambda n: np.ones((len(n), 1))),
    "a n^b": (lambda n: np.zeros(len(n)), lambda n: np.stack([np.ones(len(n)), np.log(n)], axis=1)),
    "a exp(b n)": (lambda n: np.zeros(len(n)), lambda n: np.stack([np.ones(len(n)), n], axis=1)),
}


@dataclass(frozen=True)
class Fit:
    """One growth fitted to the times of one temperature.

    Attributes
    ----------
    growth : str
    beta : array of float64
        ``log C``; or ``log a`` and ``b``.
    sigma : float
        Standard deviation of ``log T``.
    log_likelihood : float
        Of the log times.
    """

    growth: str
    beta: Array
    sigma: float
    log_likelihood: float

    @property
    def aic(self) -> float:
        """Akaike's information criterion."""
        return 2 * (len(self.beta) + 1) - 2 * self.log_likelihood

    def median(self, n: Array) -> Array:
        """Fitted median time in steps."""
        offset, design = GROWTHS[self.growth]
        return np.asarray(np.exp(offset(n) + design(n) @ self.beta))


def check_times(times: pd.DataFrame) -> Array:
    """The times of a table, if all can be fitted.

    Raises
    ------
    ParameterError
        If a time is not above 0 or not finite, with the number of such times.
    """
    time = times["time"].to_numpy(dtype=np.float64)
    bad = int((~((time > 0) & (time < np.inf))).sum())
    if bad:
        raise ParameterError(
            f"{bad} of {len(time)} times are not above 0 and finite; pairs of two equal starts have time 0: leave those pairs "
            f"out, as pairs_of_topics does with starts"
        )
    return time


def fit(times: pd.DataFrame, growth: str = "C n log n") -> Fit | None:
    """Fit one growth at one temperature.

    Parameters
    ----------
    times : DataFrame
        ``n``, ``time`` (steps), ``censored``.
    growth : str
        A key of `GROWTHS`.

    Returns
    -------
    Fit or None
        None with fewer than 5 observed times, or where they do not tell the parameters apart or have no finite fit.

    Raises
    ------
    ParameterError
        If a time is not above 0 or not finite: its logarithm has no place in the law.
    """
    n, time = times["n"].to_numpy(dtype=np.float64), check_times(times)
    cut = times["censored"].to_numpy(dtype=bool)
    offset, design = GROWTHS[growth]
    y, x = np.log(time) - offset(n), design(n)
    if (~cut).sum() < FEWEST or np.linalg.matrix_rank(x[~cut]) < x.shape[1]:
        return None

    def loss(theta: Array) -> tuple[float, Array]:
        gamma, rate = theta[:-1], np.exp(theta[-1])
        z = rate * y - x @ gamma
        value = -(theta[-1] * (~cut).sum() + stats.norm.logpdf(z[~cut]).sum() + special.log_ndtr(-z[cut]).sum())
        # d(-log L)/dz: z where observed, the hazard of the normal law where censored.
        slope = np.where(cut, np.exp(stats.norm.logpdf(z) - special.log_ndtr(-z)), z)
        return float(value), np.append(-x.T @ slope, (slope * rate * y).sum() - (~cut).sum())

    # Columns centred on the data keep the search well scaled; the first column is constant in every growth.
    centre = np.append(0.0, x[:, 1:].mean(axis=0))
    x = x - centre
    start, *_ = np.linalg.lstsq(x, y, rcond=None)
    spread = max(float(np.std(y - x @ start)), 1e-3)
    with np.errstate(over="ignore", invalid="ignore"):  # without scatter the likelihood has no maximum
        best = optimize.minimize(loss, np.append(start / spread, -np.log(spread)), jac=True, method="BFGS")
    if not np.isfinite(best.x).all():
        return None
    sigma = float(np.exp(-best.x[-1]))
    beta = best.x[:-1] * sigma
    beta[0] -= centre[1:] @ beta[1:]
    return Fit(growth, beta, sigma, -float(best.fun))


def compare(times: pd.DataFrame) -> pd.DataFrame:
    """All growths at every temperature, by Akaike's information criterion.

    Parameters
    ----------
    times : DataFrame
        ``temperature``, ``n``, ``time``, ``censored``.

    Returns
    -------
    DataFrame
        ``temperature``, ``growth``, ``aic``, ``delta`` (above the best growth at that temperature; log-likelihood units
        times two), ``sigma``, ``exponent`` (``b`` of either power or exponential growth, NaN for ``n log n``), ``runs``,
        ``censored`` (share). Temperatures at which some growth has no fit are left out.
    """
    check_times(times)
    rows = []
    for tau, group in times.groupby("temperature"):
        fits = [fit(group, growth) for growth in GROWTHS]
        found = [f for f in fits if f is not None]
        if len(found) < len(GROWTHS):
            continue
        best = min(f.aic for f in found)
        for f in found:
            exponent = f.beta[1] if len(f.beta) > 1 else np.nan
            rows.append((tau, f.growth, f.aic, f.aic - best, f.sigma, exponent, len(group), group["censored"].mean()))
    columns = ["temperature", "growth", "aic", "delta", "sigma", "exponent", "runs", "censored"]
    return pd.DataFrame(rows, columns=columns)


def residuals(times: pd.DataFrame) -> pd.DataFrame:
    """Standardised residuals of ``C n log n``: ``(log T - log(C n log n)) / sigma``.

    Returns
    -------
    DataFrame
        ``times`` of the temperatures with a fit, and the column ``residual``; a censored one is at least that large.
    """
    check_times(times)
    parts = []
    for _, group in times.groupby("temperature"):
        found = fit(group)
        if found is not None:
            median = found.median(group["n"].to_numpy(dtype=np.float64))
            parts.append(group.assign(residual=np.log(group["time"] / median) / found.sigma))
    return pd.concat(parts) if parts else times.iloc[:0].assign(residual=np.nan)
