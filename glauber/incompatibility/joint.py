"""The joint law whose conditionals are nearest to a model's, on a grid of tokens at two positions."""

from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.special import log_softmax, softmax

from ..errors import GlauberError
from ..exact import total_variation
from .rectangles import Grids


@dataclass(frozen=True)
class Nearest:
    """The nearest compatible joint and what it leaves unexplained.

    Attributes
    ----------
    joint : array, shape (k, k)
        Law of ``(a, b)``.
    kl : float
        Mean Kullback-Leibler divergence in nats from the model's conditionals to the joint's, over the ``2k`` contexts.
    tv_mean, tv_max : float
        Total variation between them, mean and largest over the ``2k`` contexts.
    """

    joint: NDArray[np.float64]
    kl: float
    tv_mean: float
    tv_max: float


def nearest_joint(logit_i: NDArray[np.float64], logit_j: NDArray[np.float64], temperature: float = 1.0) -> Nearest:
    """Minimise the summed divergence of the model's conditionals from those of one joint law.

    With the joint written as ``exp(theta) / Z`` the objective is a negative log pseudo-likelihood: convex, so that the
    minimum found is the minimum up to the tolerance of the optimiser. The model's conditionals are renormalised to the
    tokens of the grid.

    Parameters
    ----------
    logit_i : array, shape (k, k)
        ``logit_i[b, a] = l_i(a; b)`` in nats.
    logit_j : array, shape (k, k)
        ``logit_j[a, b] = l_j(b; a)`` in nats.
    temperature : float

    Raises
    ------
    GlauberError
        If the minimisation does not converge.
    """
    k = len(logit_i)
    log_i = log_softmax(logit_i.T / temperature, axis=0)  # (a, b), a law over a for each b
    log_j = log_softmax(logit_j / temperature, axis=1)  # (a, b), a law over b for each a
    p_i, p_j = np.exp(log_i), np.exp(log_j)

    def objective(flat: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        theta = flat.reshape(k, k)
        q_i, q_j = log_softmax(theta, axis=0), log_softmax(theta, axis=1)
        value = (p_i * (log_i - q_i)).sum() + (p_j * (log_j - q_j)).sum()
        return float(value), (np.exp(q_i) - p_i + np.exp(q_j) - p_j).ravel()

    start = (0.5 * (log_i + log_j)).ravel()
    found = minimize(
        objective, start, jac=True, method="L-BFGS-B", options={"maxiter": 5000, "ftol": 1e-15, "gtol": 1e-9}
    )
    # "ABNORMAL" ends a line search at rounding level; the gradient says whether that is the minimum.
    if np.abs(found.jac).max() > 1e-4:
        raise GlauberError(
            f"the nearest joint was not found (gradient {np.abs(found.jac).max():.1e}): raise the temperature"
        )
    theta = found.x.reshape(k, k)
    tv = np.concatenate(
        [total_variation(softmax(theta, axis=0).T, p_i.T), total_variation(softmax(theta, axis=1), p_j)]
    )
    return Nearest(softmax(theta), max(0.0, float(found.fun)) / (2 * k), float(tv.mean()), float(tv.max()))


def nearest_joints(grids: Grids, temperature: float = 1.0) -> pd.DataFrame:
    """`nearest_joint` of every grid: ``passage``, ``distance`` (positions), ``kl`` (nats), ``tv_mean``, ``tv_max``."""
    found = [nearest_joint(li, lj, temperature) for li, lj in zip(grids.logit_i, grids.logit_j, strict=True)]
    return pd.DataFrame(
        {
            "passage": grids.passage,
            "distance": grids.j - grids.i,
            "kl": [f.kl for f in found],
            "tv_mean": [f.tv_mean for f in found],
            "tv_max": [f.tv_max for f in found],
        }
    )
