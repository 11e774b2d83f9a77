"""The chain of a small space as a matrix: stationary law, gap, distance to equilibrium, entropy production."""

from collections.abc import Sequence
from itertools import combinations

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray

from ..errors import ParameterError
from ..models import Conditionals


def enumerate_states(n: int, k: int) -> NDArray[np.int64]:
    """All states, shape (k**n, n); the state ``x`` has index ``sum_i x_i k**(n-1-i)``."""
    return np.indices((k,) * n).reshape(n, -1).T


def conditional_tables(model: Conditionals, n: int) -> NDArray[np.float64]:
    """Logits of every conditional in every state.

    Parameters
    ----------
    model : Conditionals
        Vocabulary ``0 .. k-1``.
    n : int
        Free positions.

    Returns
    -------
    array of float64, shape (n, k**n, k)
        ``l_i(v; x_-i)`` in nats.
    """
    states = torch.from_numpy(enumerate_states(n, len(model.vocabulary)))
    at = [torch.full((len(states),), i) for i in range(n)]
    return np.stack([model.conditional_logits(states, i).double().cpu().numpy() for i in at])


def site_matrices(tables: NDArray[np.float64], temperature: float) -> NDArray[np.float64]:
    """Transition matrix of the update of each site, shape (n, states, states)."""
    n, count, k = tables.shape
    scaled = (tables - tables.max(axis=2, keepdims=True)) / temperature
    law = np.exp(scaled)
    law /= law.sum(axis=2, keepdims=True)
    states = enumerate_states(n, k)
    matrices = np.zeros((n, count, count))
    for i in range(n):
        stride = k ** (n - 1 - i)
        base = np.arange(count) - states[:, i] * stride
        for v in range(k):
            matrices[i, np.arange(count), base + v * stride] = law[i, :, v]
    return matrices


def transition_matrix(
    tables: NDArray[np.float64], temperature: float, order: Sequence[int] | None = None
) -> NDArray[np.float64]:
    """Transition matrix (states, states): one step of random scan, or one sweep in the given order of sites."""
    matrices = site_matrices(tables, temperature)
    if order is None:
        return np.asarray(matrices.mean(axis=0))
    sweep = np.eye(matrices.shape[1])
    for i in order:
        sweep = sweep @ matrices[i]
    return np.asarray(sweep)


def stationary_law(matrix: NDArray[np.float64]) -> NDArray[np.float64]:
    """The law ``mu`` with ``mu P = mu``, shape (states,), by state reduction (Grassmann, Taksar and Heyman).

    The reduction subtracts nothing, so that small probabilities keep their relative accuracy.
    """
    p = matrix.copy()
    count = len(p)
    for s in range(count - 1, 0, -1):
        p[:s, s] /= p[s, :s].sum()
        p[:s, :s] += np.outer(p[:s, s], p[s, :s])
    mu = np.zeros(count)
    mu[0] = 1.0
    for s in range(1, count):
        mu[s] = mu[:s] @ p[:s, s]
    return np.asarray(mu / mu.sum())


def spectral_gap(matrix: NDArray[np.float64]) -> float:
    """``1 - |lambda_2|`` per application of the matrix, ``lambda_2`` the second largest eigenvalue in modulus."""
    moduli = np.sort(np.abs(np.linalg.eigvals(matrix)))
    return float(1.0 - moduli[-2]) if len(moduli) > 1 else 1.0


def total_variation(p: NDArray[np.float64], q: NDArray[np.float64]) -> NDArray[np.float64]:
    """Total-variation distance of laws along the last axis, in [0, 1]: rounding alone can take the sum past 1."""
    return np.asarray(np.minimum(0.5 * np.abs(p - q).sum(axis=-1), 1.0))


def distance_to_equilibrium(matrix: NDArray[np.float64], times: Sequence[int]) -> NDArray[np.float64]:
    """``d(t) = max_x TV(P^t(x, .), mu)`` at each time, shape (times,)."""
    mu = stationary_law(matrix)
    return np.array([total_variation(np.linalg.matrix_power(matrix, t), mu).max() for t in times])


def mixing_time(matrix: NDArray[np.float64], eps: float = 0.25, limit: int = 2**40) -> int:
    """First ``t`` with ``d(t) <= eps``, found by doubling and bisection over stored powers.

    Raises
    ------
    ParameterError
        If it is over ``limit``.
    """
    mu = stationary_law(matrix)
    powers = [matrix]
    while total_variation(powers[-1], mu).max() > eps:
        if 2 ** len(powers) > limit:
            raise ParameterError(f"the mixing time is over {limit} steps: raise the temperature or the limit")
        powers.append(powers[-1] @ powers[-1])
    # Largest t with d(t) > eps, built bit by bit from the top: d is non-increasing.
    time, reached = 0, np.eye(len(matrix))
    for bit in range(len(powers) - 1, -1, -1):
        further = reached @ powers[bit]
        if total_variation(further, mu).max() > eps:
            time, reached = time + 2**bit, further
    return time + 1 if total_variation(reached, mu).max() > eps else 0


def entropy_production(tables: NDArray[np.float64], temperature: float) -> float:
    """Stationary entropy production of random scan in nats per step: 0 iff the chain is reversible.

    ``sigma = sum_x mu(x) (1/n) sum_i sum_v p_i(v | x_-i) [l_i(v) - l_i(x_i)] / tau`` (Schnakenberg 1976).
    """
    n, _, k = tables.shape
    mu = stationary_law(transition_matrix(tables, temperature))
    scaled = tables / temperature
    law = np.exp(scaled - scaled.max(axis=2, keepdims=True))
    law /= law.sum(axis=2, keepdims=True)
    states = enumerate_states(n, k)
    own = np.take_along_axis(scaled, states.T[:, :, None], axis=2)
    return float((mu * (law * (scaled - own)).sum(axis=2)).sum(axis=1).mean())


def phase_laws(tables: NDArray[np.float64], temperature: float, order: Sequence[int]) -> NDArray[np.float64]:
    """Stationary laws of a systematic scan after each of its updates, shape (sites, states).

    A scan that goes through the sites in turn has one stationary law per phase; the last is that of the end of a sweep.
    """
    matrices = site_matrices(tables, temperature)
    law = stationary_law(transition_matrix(tables, temperature, order))
    laws = []
    for i in order:
        law = law @ matrices[i]
        laws.append(law)
    return np.array(laws)


def scan_order(tables: NDArray[np.float64], temperature: float) -> pd.DataFrame:
    """Stationary laws of random scan and of two systematic scans, compared.

    Conditionals of one joint law have it as the stationary law of every scan and phase; incompatible ones have a law for each. Two
    scans compared at the end of a sweep differ by the phase that they end with as well as by their order: on two sites
    forward and backward scan go through the same two laws, and differ at the end of a sweep all the same.

    Returns
    -------
    DataFrame
        ``first``, ``second`` (names of the scans); total variation between their stationary laws: ``end_of_sweep``, and
        ``phase_averaged``, between the means over the phases, which is what an average along each scan sees.
    """
    n = len(tables)
    random = stationary_law(transition_matrix(tables, temperature))[None]
    laws = {
        "random": random,
        "forward": phase_laws(tables, temperature, range(n)),
        "backward": phase_laws(tables, temperature, range(n - 1, -1, -1)),
    }
    rows = [
        (
            p,
            q,
            float(total_variation(laws[p][-1], laws[q][-1])),
            float(total_variation(laws[p].mean(axis=0), laws[q].mean(axis=0))),
        )
        for p, q in combinations(laws, 2)
    ]
    return pd.DataFrame(rows, columns=["first", "second", "end_of_sweep", "phase_averaged"])
