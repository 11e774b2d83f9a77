"""Drift basins of a repeated token (paper, section 4).

``N(x)`` is the number of positions that hold a token ``t``. One step raises it with probability
``up = (1/n) sum_{i: x_i != t} p_i(t | x_-i)`` and lowers it with ``down = (1/n) sum_{i: x_i = t} (1 - p_i(t | x_-i))``; both are
exact in a given state. If ``up >= rho down`` with ``rho > 1`` in *every* state with ``a < N(x) <= b``, an excursion from ``N = b``
gets down to ``a`` with probability at most ``rho**-(b-a)``. A ratio found over sampled states is no such hypothesis.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from .. import chain
from ..checks import reals, whole
from ..errors import ParameterError
from ..margins import leaving_probability, local_margins
from ..models import Conditionals, Text
from .fillings import KINDS, adversarial, fill, visited
from .paths import FirstPassage, first_passage
from .rates import up_down


def profile(
    model: Conditionals,
    token: int,
    texts: ArrayLike,
    *,
    temperature: float,
    samples: int,
    rounds: int = 4,
    tries: int = 12,
    moves: int = 40,
    counts: Sequence[int] | None = None,
    seed: int = 0,
) -> pd.DataFrame:
    """Ratios of up to down in sampled, visited and adversarially chosen states, by the number of copies.

    Parameters
    ----------
    model : Conditionals
    token : int
    texts : array of int, shape (texts, n)
        Passages to fill with.
    temperature : float
    samples : int
        States per number of copies and kind of filling.
    rounds, tries : int
        Of the adversarial search, which starts from the worst sampled state of each number of copies; 0 rounds leave it out.
    moves : int
        Of chains started from one passage filling of each number of copies, whose states are kind ``chain``; 0 leaves them out.
    counts : sequence of int, optional
        By default ``1 .. n-1``: with none there is no way down, with ``n`` none up.
    seed : int

    Returns
    -------
    DataFrame
        Columns of `up_down` and ``kind``, one row per state.
    """
    pool = chain.init(model, texts).tokens.cpu().numpy()
    rounds, moves, samples = whole("rounds", rounds, 0), whole("moves", moves, 0), whole("samples", samples)
    numbers = list(range(1, pool.shape[1])) if counts is None else list(counts)
    states = {kind: fill(model, token, numbers, kind=kind, samples=samples, texts=pool, seed=seed) for kind in KINDS}
    if moves:
        states["chain"] = visited(model, states["passage"][::samples], temperature=temperature, moves=moves, seed=seed)
    parts = [up_down(model, rows, token, temperature).assign(kind=kind) for kind, rows in states.items()]
    if rounds:
        sampled = pd.concat(parts, ignore_index=True)
        every = np.concatenate(list(states.values()))
        worst = sampled[sampled["N"].isin(numbers)].groupby("N")["ratio"].idxmin()
        found = adversarial(
            model, every[worst.to_numpy()], token, temperature=temperature, rounds=rounds, tries=tries, texts=pool,
            seed=seed,
        )  # fmt: skip
        parts.append(up_down(model, found, token, temperature).assign(kind="adversarial"))
    return pd.concat(parts, ignore_index=True)


def by_count(ratios: pd.DataFrame) -> pd.DataFrame:
    """Smallest and median ratio by number of copies and kind of filling, and over all kinds (``kind`` = ``all``).

    Returns
    -------
    DataFrame
        ``N``, ``kind``, ``min``, ``median``, ``states``. The smallest is that of the sampled states: no bound.
    """
    both = pd.concat([ratios, ratios.assign(kind="all")])
    table = both.groupby(["N", "kind"])["ratio"].agg(["min", "median", "size"]).reset_index()
    return table.rename(columns={"size": "states"})


@dataclass(frozen=True)
class Window:
    """Numbers of copies ``a < N <= b`` in which every ratio found is over 1.

    Attributes
    ----------
    a, b : int
    rho : float
        Smallest ratio found there.
    states : int
        States that it is the smallest of.
    proven : bool
        Whether these were all states, so that the theorem applies; else ``excursion`` is evidence only.
    """

    a: int
    b: int
    rho: float
    states: int
    proven: bool

    @property
    def excursion(self) -> float:
        """``rho**-(b-a)``, the theorem's bound on the probability that an excursion from ``b`` gets down to ``a``."""
        return float(self.rho ** -(self.b - self.a))


def window(ratios: pd.DataFrame, *, best: str = "exponent", enumerated: bool = False) -> Window | None:
    """The widest window, or the one of largest exponent ``(b - a) log rho``; None if no ratio is over 1.

    Parameters
    ----------
    ratios : DataFrame
        ``N`` and ``ratio``, one row per state. A number of copies without a state ends a window.
    best : str
        ``width`` or ``exponent``.
    enumerated : bool
        Whether the table holds every state of each of its numbers of copies.

    Raises
    ------
    ParameterError
        If ``best`` is unknown.
    """
    if best not in ("width", "exponent"):
        raise ParameterError(f"best = {best!r} is unknown: give width or exponent")
    grouped = ratios[np.isfinite(ratios["ratio"])].groupby("N")["ratio"].agg(["min", "size"])
    lowest, size = grouped["min"].to_dict(), grouped["size"].to_dict()
    found: list[tuple[float, float, Window]] = []
    for first in lowest:
        rho, count, last = np.inf, 0, first
        while last in lowest and lowest[last] > 1:
            rho, count = min(rho, lowest[last]), count + size[last]
            made = Window(int(first) - 1, int(last), float(rho), int(count), enumerated)
            width, exponent = float(made.b - made.a), float((made.b - made.a) * np.log(rho))
            found.append((width, exponent, made) if best == "width" else (exponent, width, made))
            last += 1
    return max(found, key=lambda f: f[:2])[2] if found else None


def candidate_tokens(text: Text, states: ArrayLike, frequent: int, also: ArrayLike = ()) -> NDArray[np.int64]:
    """Tokens without a letter or digit, the ``frequent`` most common ones of some texts, and ``also``: ids, ascending."""
    ids, counts = np.unique(np.asarray(states), return_counts=True)
    common = ids[np.argsort(-counts, kind="stable")[:frequent]]
    vocabulary = text.vocabulary
    marks = [not any(c.isalnum() for c in name) for name in text.tokens(vocabulary.tolist())]
    return np.union1d(vocabulary[np.array(marks)], np.append(common, np.asarray(also, dtype=np.int64)))


def search_tokens(
    model: Conditionals,
    tokens: ArrayLike,
    texts: ArrayLike,
    *,
    temperature: float,
    samples: int,
    keep: int = 12,
    always: Sequence[int] = (),
    seed: int = 0,
) -> pd.DataFrame:
    """Rank tokens by how hard it is to leave the state that repeats them.

    Where every position holds the token nothing can go up, so the ratio there is 0 for every token. Tokens are first
    ordered by the exact holding time of that state; the ``keep`` best are ranked by the smallest ratio found with one
    position filled otherwise.

    Parameters
    ----------
    model : Conditionals
    tokens : array of int
        Candidates.
    texts : array of int, shape (texts, n)
    temperature : float
    samples : int
        Fillings of each kind per token.
    keep : int
    always : sequence of int
        Tokens that are kept whatever their holding time.
    seed : int

    Returns
    -------
    DataFrame
        ``token`` (id), ``holding time`` (``1/q`` of the repeated state, steps), ``min margin`` (nats), ``min ratio``,
        ``median ratio`` (at ``N = n - 1``), ``states``; largest ``min ratio`` first.
    """
    pool, keep = chain.init(model, texts).tokens.cpu().numpy(), whole("keep", keep)
    n = pool.shape[1]
    repeated = chain.init(model, np.repeat(reals("tokens", tokens).reshape(-1, 1), n, axis=1)).tokens.cpu().numpy()
    ids = repeated[:, 0]
    q = leaving_probability(model, repeated, temperature)
    first = np.argsort(q, kind="stable")
    kept = np.array([r for place, r in enumerate(first) if place < keep or ids[r] in always])
    margin = local_margins(model, repeated[kept]).min(axis=1)
    rows = []
    for r, m in zip(kept, margin, strict=True):
        states = np.concatenate(
            [fill(model, int(ids[r]), [n - 1], kind=k, samples=samples, texts=pool, seed=seed) for k in KINDS]
        )
        ratio = up_down(model, states, int(ids[r]), temperature)["ratio"]
        with np.errstate(divide="ignore"):
            rows.append(
                (int(ids[r]), float(1 / q[r]), float(m), float(ratio.min()), float(ratio.median()), len(states))
            )
    table = pd.DataFrame(rows, columns=["token", "holding time", "min margin", "min ratio", "median ratio", "states"])
    return table.sort_values("min ratio", ascending=False, kind="stable", ignore_index=True)


def fall_times(
    model: Conditionals,
    token: int,
    states: ArrayLike,
    a: int,
    *,
    temperature: float,
    steps: int,
    moves: int = 1000,
    seed: int = 0,
    label: str = "",
) -> FirstPassage:
    """Chains from given states until the number of copies of a token is down to ``a``.

    Parameters
    ----------
    model : Conditionals
    token : int
    states : array of int, shape (chains, n)
    a : int
    temperature, steps, moves, seed, label
        As for `glauber.escape.first_passage`.
    """
    a = whole("a", a, 0)
    return first_passage(
        model, states, lambda path, c: np.asarray((path == token).sum(axis=1) <= a), temperature=temperature,
        steps=steps, seed=seed, moves=moves, label=label,
    )  # fmt: skip
