"""States with a given number of copies of one token: sampled, visited by the chain itself, or chosen to be bad."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .. import chain
from ..checks import shown, whole
from ..engines import rejection_free
from ..errors import ParameterError
from ..models import Conditionals
from .paths import replay
from .rates import up_down

KINDS = ("passage", "random")


def fill(
    model: Conditionals,
    token: int,
    counts: Sequence[int],
    *,
    kind: str,
    samples: int,
    texts: ArrayLike,
    seed: int = 0,
) -> NDArray[np.int64]:
    """States with exactly ``N`` copies of a token at random positions, ``samples`` for each ``N`` of ``counts``.

    Parameters
    ----------
    model : Conditionals
    token : int
    counts : sequence of int
        Each from 0 to n.
    kind : str
        What stands at the other positions: ``passage``, the tokens of a random text there, or ``random``, tokens drawn
        uniformly from the vocabulary. A filling token that happens to be ``token`` is redrawn uniformly.
    samples : int
    texts : array of int, shape (texts, n)
    seed : int

    Returns
    -------
    array of int64, shape (len(counts) * samples, n)

    Raises
    ------
    ParameterError
        If the kind is unknown, or another parameter is outside its range.
    """
    pool = chain.init(model, texts).tokens.cpu().numpy()
    n = pool.shape[1]
    if kind not in KINDS:
        raise ParameterError(f"kind = {shown(kind)} is unknown: give one of {', '.join(KINDS)}")
    counts = [whole("a number of copies", count, 0, n) for count in counts]
    samples, seed, token = whole("samples", samples), whole("seed", seed, 0), whole("token", token, 0)
    rng = np.random.default_rng([seed, KINDS.index(kind)])
    others = np.setdiff1d(model.vocabulary, [token])
    total = len(counts) * samples
    states = pool[rng.integers(len(pool), size=total)] if kind == "passage" else rng.choice(others, (total, n))
    states = np.where(states == token, rng.choice(others, states.shape), states)
    for state, count in zip(states, np.repeat(np.asarray(counts, dtype=np.int64), samples), strict=True):
        state[rng.permutation(n)[:count]] = token
    return np.asarray(states)


def visited(
    model: Conditionals, states: ArrayLike, *, temperature: float, moves: int, seed: int = 0
) -> NDArray[np.int64]:
    """The different states that chains visit within some moves, their starts included, shape (rows, n)."""
    begin = chain.init(model, states).tokens.cpu().numpy()
    run = rejection_free(model, begin, temperature=temperature, steps=10**18, seed=seed, moves=moves)
    paths = [replay(begin[int(str(c))], rows) for c, rows in run.table.groupby("chain")]
    return np.asarray(np.unique(np.concatenate([begin, *paths]), axis=0))


def adversarial(
    model: Conditionals,
    states: ArrayLike,
    token: int,
    *,
    temperature: float,
    rounds: int,
    tries: int,
    texts: ArrayLike,
    seed: int = 0,
) -> NDArray[np.int64]:
    """Make the ratio of up to down as small as a greedy search can, at the number of copies that each state has.

    A proposal exchanges a copy of the token with a filling token, or replaces a filling token by one of a text or of the
    vocabulary, or does two such things. In each round the best of ``tries`` proposals is taken if it lowers the ratio.

    Parameters
    ----------
    model : Conditionals
    states : array of int, shape (rows, n)
        Where the searches start.
    token : int
    temperature : float
    rounds, tries : int
        Each try costs ``n`` forwards.
    texts : array of int, shape (texts, n)
    seed : int

    Returns
    -------
    array of int64, shape (rows, n)
        The worst states found: no minimum over all fillings.
    """
    worst, pool = (chain.init(model, given).tokens.cpu().numpy() for given in (states, texts))
    worst, pool = worst.copy(), pool.ravel()
    rounds, tries, token = whole("rounds", rounds, 0), whole("tries", tries), whole("token", token, 0)
    rng = np.random.default_rng(seed)
    others = np.setdiff1d(model.vocabulary, [token])
    pool = pool[pool != token] if (pool != token).any() else others
    lowest = np.array(up_down(model, worst, token, temperature)["ratio"])
    for _ in range(rounds):
        proposals = np.repeat(worst, tries, axis=0)
        for state in proposals:
            for _ in range(rng.integers(1, 3)):
                _propose(state, token, pool, others, rng)
        ratio = up_down(model, proposals, token, temperature)["ratio"].to_numpy().reshape(len(worst), tries)
        best = ratio.argmin(axis=1)
        better = ratio.min(axis=1) < lowest
        chosen = proposals.reshape(len(worst), tries, -1)[np.arange(len(worst)), best]
        worst[better], lowest[better] = chosen[better], ratio.min(axis=1)[better]
    return worst


def _propose(
    state: NDArray[np.int64], token: int, pool: NDArray[np.int64], others: NDArray[np.int64], rng: np.random.Generator
) -> None:
    """Change ``state`` in place, keeping its number of copies."""
    copies, fillers = np.flatnonzero(state == token), np.flatnonzero(state != token)
    if not len(fillers):
        return
    at = rng.choice(fillers)
    if len(copies) and rng.random() < 0.5:
        other = rng.choice(copies)
        state[at], state[other] = state[other], state[at]
    else:
        state[at] = rng.choice(pool if rng.random() < 0.5 else others)
