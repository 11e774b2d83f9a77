"""Diagnostics of scalar observables along chains: how many draws they are worth, and whether the chains agree.

Estimates are those of ArviZ: rank-normalised split R-hat, bulk and tail effective sample size, and the Monte Carlo standard error of
the mean (Vehtari, Gelman, Simpson, Carpenter and Bürkner 2021). Where they have no meaning, the table holds NaN and says why.
"""

import warnings
from collections.abc import Hashable, Mapping

import numpy as np
import pandas as pd
import xarray as xr
from numpy.typing import ArrayLike, NDArray

from .checks import reals, shown
from .errors import ParameterError

with warnings.catch_warnings():
    warnings.simplefilter("ignore", FutureWarning)  # ArviZ announces its next major version at every import
    import arviz

FEWEST = 4  # draws per chain, as in ArviZ


def diagnose(observables: Mapping[Hashable, ArrayLike | xr.DataArray] | xr.Dataset) -> pd.DataFrame:
    """Effective sample sizes, R-hat and standard errors of observables recorded along chains.

    Parameters
    ----------
    observables : mapping of name to array
        Each an array of shape (chains, draws), or a DataArray with the dimension ``chain`` and one more, that of the draws.

    Returns
    -------
    DataFrame
        One row per observable: ``observable``, ``chains``, ``draws`` (per chain), ``mean``, ``mcse_mean``, ``ess_bulk``,
        ``ess_tail``, ``r_hat``, ``autocorrelation_time`` and ``reason``. Effective sizes count draws of all chains.
        ``autocorrelation_time`` is ``chains * draws / ess_mean`` in draws: times the recording interval it is in steps; it
        counts disagreement between chains as correlation. ``reason`` says why a number is NaN, and is empty otherwise. The
        numbers describe the time that was observed: chains that have all missed a basin agree.

    Raises
    ------
    ParameterError
        If an observable has another shape or holds what is no number.
    """
    if not isinstance(observables, Mapping):
        raise ParameterError(f"observables = {shown(observables)} are refused: give a mapping of names to arrays")
    return pd.DataFrame([{"observable": str(name), **_row(_values(name, v))} for name, v in observables.items()])


def _values(name: Hashable, given: ArrayLike | xr.DataArray) -> NDArray[np.float64]:
    """Values, shape (chains, draws)."""
    if isinstance(given, xr.DataArray):
        if "chain" not in given.dims:
            raise ParameterError(f"observable {name!r} has dimensions {given.dims}: give chain and one more")
        given = given.transpose("chain", ...).to_numpy()
    values = reals(f"observable {name!r}", given, "biuf").astype(np.float64)
    if values.ndim != 2 or 0 in values.shape:
        raise ParameterError(f"observable {name!r} has shape {values.shape}: give one row of draws per chain")
    return values


def _row(values: NDArray[np.float64]) -> dict[str, float | int | str]:
    chains, draws = values.shape
    row: dict[str, float | int | str] = {"chains": chains, "draws": draws, "mean": float(values.mean())}
    row |= dict.fromkeys(["mcse_mean", "ess_bulk", "ess_tail", "r_hat", "autocorrelation_time"], np.nan)
    reason = _no_meaning(values)
    if reason:
        return row | {"reason": reason}
    reasons = []
    row["mcse_mean"] = float(arviz.mcse(values, method="mean"))
    row["ess_bulk"] = float(arviz.ess(values, method="bulk"))
    row["autocorrelation_time"] = values.size / float(arviz.ess(values, method="mean"))
    if chains > 1:
        row["r_hat"] = float(arviz.rhat(values, method="rank"))
    else:
        reasons.append("one chain: no R-hat")
    if np.quantile(values, 0.05) < values.max():
        row["ess_tail"] = float(arviz.ess(values, method="tail"))
    else:  # both tails' indicators are constant, and ArviZ would call every draw of them effective
        reasons.append("95 % of the values are the largest: no tail")
    return row | {"reason": "; ".join(reasons)}


def _no_meaning(values: NDArray[np.float64]) -> str:
    """Why nothing can be estimated; empty if something can."""
    chains, draws = values.shape
    if not np.isfinite(values).all():
        return "values not finite"
    if draws < FEWEST:
        return f"fewer than {FEWEST} draws"
    stuck = int((values == values[:, :1]).all(axis=1).sum())
    return f"constant chain ({stuck} of {chains})" if stuck else ""
