"""The rectangle test: two ways round a rectangle of tokens, and what they disagree by.

Positions ``i != j``, tokens ``a, a'`` at ``i`` and ``b, b'`` at ``j``, all else fixed. From ``(a, b)`` to ``(a', b')``:

    path 1:  [l_i(a'; b) - l_i(a; b)]  +  [l_j(b'; a') - l_j(b; a')]
    path 2:  [l_j(b'; a) - l_j(b; a)]  +  [l_i(a'; b') - l_i(a; b')]

``D = path 1 - path 2`` is 0 on every rectangle iff the conditionals come from one positive joint law.
"""

import re
from dataclasses import dataclass, fields
from itertools import combinations

import numpy as np
import pandas as pd
import torch
from numpy.typing import ArrayLike, NDArray

from ..errors import ParameterError
from ..models import RectangleSource, Text

ROWS = 256  # full rows of logits held at a time
SCHEMES = ("conditional", "top", "uniform")


@dataclass(frozen=True)
class Grids:
    """Logits on ``k x k`` token grids, one grid per passage and pair of positions (``g`` grids).

    Attributes
    ----------
    passage, i, j : array of int64, shape (g,)
        Which passage, and the two positions, ``i < j``.
    tokens_i, tokens_j : array of int64, shape (g, k)
        Candidate tokens at each position.
    logit_i : array of float64, shape (g, k, k)
        ``logit_i[g, b, a] = l_i(a; b)`` in nats: the logit of token ``a`` at ``i`` while ``j`` holds ``b``.
    logit_j : array of float64, shape (g, k, k)
        ``logit_j[g, a, b] = l_j(b; a)`` in nats.
    """

    passage: NDArray[np.int64]
    i: NDArray[np.int64]
    j: NDArray[np.int64]
    tokens_i: NDArray[np.int64]
    tokens_j: NDArray[np.int64]
    logit_i: NDArray[np.float64]
    logit_j: NDArray[np.float64]

    def take(self, where: NDArray[np.int64] | NDArray[np.bool_]) -> "Grids":
        """Some of the grids."""
        return Grids(**{f.name: getattr(self, f.name)[where] for f in fields(self)})


def measure(
    model: RectangleSource,
    states: ArrayLike,
    *,
    pairs: int,
    candidates: int,
    scheme: str = "conditional",
    temperature: float = 1.0,
    seed: int = 0,
) -> Grids:
    """Logits on ``k x k`` grids at random pairs of positions: ``2k`` forwards for ``(k choose 2)**2`` rectangles.

    Parameters
    ----------
    model : RectangleSource
        A masked language model, a causal control, or a table.
    states : array of int, shape (passages, n)
    pairs : int
        Pairs of positions per passage, drawn uniformly without repetition.
    candidates : int
        Tokens ``k`` at each of the two positions.
    scheme : str
        ``conditional``: drawn without repetition from the model's conditional at ``temperature``; ``top``: its ``k``
        likeliest tokens; ``uniform``: drawn from the whole vocabulary.
    temperature : float
        Of the ``conditional`` scheme alone; the logits are returned untempered.
    seed : int
        The draws of a passage depend on ``(seed, its row)`` alone.

    Raises
    ------
    ParameterError
        If there are fewer pairs of positions or tokens than asked for, or the scheme is unknown.
    """
    text = torch.as_tensor(np.asarray(states), dtype=torch.long, device=model.device)
    passages, n = text.shape
    if scheme not in SCHEMES:
        raise ParameterError(f"scheme {scheme!r} is unknown: give one of {', '.join(SCHEMES)}")
    if not 1 <= pairs <= n * (n - 1) // 2:
        raise ParameterError(f"pairs = {pairs}: n = {n} positions have 1 to {n * (n - 1) // 2} pairs")
    if not 2 <= candidates <= len(model.vocabulary):
        raise ParameterError(f"candidates = {candidates}: give 2 to {len(model.vocabulary)}")
    streams = [np.random.default_rng([seed, row]) for row in range(passages)]
    every = np.array(list(combinations(range(n), 2)))
    chosen = np.stack([every[rng.choice(len(every), pairs, replace=False)] for rng in streams])
    row = np.repeat(np.arange(passages), pairs)
    i, j = chosen.reshape(-1, 2).T
    drawn = [
        _candidates(model, text[row], at, candidates, scheme, temperature, [streams[r] for r in row]) for at in (i, j)
    ]
    return Grids(
        passage=row, i=i, j=j,
        tokens_i=drawn[0], tokens_j=drawn[1],
        logit_i=_logits(model, text[row], i, drawn[0], j, drawn[1]),
        logit_j=_logits(model, text[row], j, drawn[1], i, drawn[0]),
    )  # fmt: skip


def remeasure(model: RectangleSource, states: ArrayLike, grids: Grids) -> Grids:
    """The same grids (passages, positions, tokens) with another model of the same tokens, or in another precision."""
    text = torch.as_tensor(np.asarray(states), dtype=torch.long, device=model.device)[grids.passage]
    return Grids(
        grids.passage, grids.i, grids.j, grids.tokens_i, grids.tokens_j,
        _logits(model, text, grids.i, grids.tokens_i, grids.j, grids.tokens_j),
        _logits(model, text, grids.j, grids.tokens_j, grids.i, grids.tokens_i),
    )  # fmt: skip


def _candidates(
    model: RectangleSource,
    text: torch.Tensor,
    at: NDArray[np.int64],
    k: int,
    scheme: str,
    temperature: float,
    streams: list[np.random.Generator],
) -> NDArray[np.int64]:
    vocabulary = model.vocabulary
    if scheme == "uniform":
        return np.stack([rng.choice(vocabulary, k, replace=False) for rng in streams])
    chosen: list[NDArray[np.int64]] = []
    for s in range(0, len(text), ROWS):
        scores = model.proposal_logits(text[s : s + ROWS], torch.from_numpy(at[s : s + ROWS])).double().cpu().numpy()
        for score, rng in zip(scores, streams[s : s + ROWS], strict=True):
            if scheme == "conditional":
                # The k largest of logit + Gumbel noise are a draw without repetition from the softmax.
                score = score / temperature + rng.gumbel(size=len(score))
            chosen.append(vocabulary[np.argsort(-score, kind="stable")[:k]])
    return np.stack(chosen)


def _logits(
    model: RectangleSource,
    text: torch.Tensor,
    at: NDArray[np.int64],
    tokens: NDArray[np.int64],
    other: NDArray[np.int64],
    fills: NDArray[np.int64],
) -> NDArray[np.float64]:
    """Logits (g, k, k) of ``tokens`` at ``at``, for each of ``fills`` at ``other``."""
    g, k = tokens.shape
    rows = text.repeat_interleave(k, dim=0)
    rows[torch.arange(g * k), torch.from_numpy(np.repeat(other, k)).to(rows.device)] = (
        torch.from_numpy(fills).to(rows.device).reshape(-1)
    )
    positions = torch.from_numpy(np.repeat(at, k))
    wanted = torch.from_numpy(np.repeat(tokens, k, axis=0))
    return np.asarray(model.candidate_logits(rows, positions, wanted).double().cpu().reshape(g, k, k).numpy())


def rectangle_table(grids: Grids, temperature: float = 1.0) -> pd.DataFrame:
    """Every rectangle of every grid.

    Returns
    -------
    DataFrame
        ``grid``, ``passage``, ``i``, ``j``, ``distance`` (positions), ``a``, ``a2``, ``b``, ``b2`` (columns of the grid),
        ``path1``, ``path2``, ``D`` (nats, divided by ``temperature``).
    """
    g, k = grids.tokens_i.shape
    low, high = np.array(list(combinations(range(k), 2))).T
    a, b = (index.ravel() for index in np.meshgrid(np.arange(len(low)), np.arange(len(low)), indexing="ij"))
    a, a2, b, b2 = low[a], high[a], low[b], high[b]
    li, lj = grids.logit_i / temperature, grids.logit_j / temperature
    path1 = (li[:, b, a2] - li[:, b, a]) + (lj[:, a2, b2] - lj[:, a2, b])
    path2 = (lj[:, a, b2] - lj[:, a, b]) + (li[:, b2, a2] - li[:, b2, a])
    each = len(a)
    columns = {
        "grid": np.arange(g),
        "passage": grids.passage,
        "i": grids.i,
        "j": grids.j,
        "distance": grids.j - grids.i,
    }
    table = pd.DataFrame({name: np.repeat(values, each) for name, values in columns.items()})
    for name, values in {"a": a, "a2": a2, "b": b, "b2": b2}.items():
        table[name] = np.tile(values, g)
    return table.assign(path1=path1.ravel(), path2=path2.ravel(), D=(path1 - path2).ravel())


def worked_rectangle(grids: Grids, row: pd.Series, text: Text, temperature: float = 1.0) -> pd.DataFrame:
    """One rectangle step by step: which token is replaced, beside which, and by how many nats the model prefers it.

    Parameters
    ----------
    grids : Grids
    row : Series
        A row of `rectangle_table`.
    text : Text
        For the token strings.
    temperature : float

    Returns
    -------
    DataFrame
        ``path``, ``step``, ``replace``, ``by``, ``while the other position holds``, ``nats``; two steps and a sum per path.
    """
    g = int(row["grid"])
    a, a2, b, b2 = (int(row[name]) for name in ("a", "a2", "b", "b2"))
    li, lj = grids.logit_i[g] / temperature, grids.logit_j[g] / temperature
    ti, tj = text.tokens(grids.tokens_i[g].tolist()), text.tokens(grids.tokens_j[g].tolist())
    steps = [
        (1, "first", ti[a], ti[a2], tj[b], li[b, a2] - li[b, a]),
        (1, "then", tj[b], tj[b2], ti[a2], lj[a2, b2] - lj[a2, b]),
        (1, "sum", "", "", "", row["path1"]),
        (2, "first", tj[b], tj[b2], ti[a], lj[a, b2] - lj[a, b]),
        (2, "then", ti[a], ti[a2], tj[b2], li[b2, a2] - li[b2, a]),
        (2, "sum", "", "", "", row["path2"]),
    ]
    return pd.DataFrame(steps, columns=["path", "step", "replace", "by", "while the other position holds", "nats"])


def worked_text(grids: Grids, row: pd.Series, states: ArrayLike, text: Text) -> str:
    """The passage of a rectangle as Markdown, with both tokens of both positions: ``the **[cat → dog]** sat``."""
    g = int(row["grid"])
    ids = np.asarray(states)[grids.passage[g]].tolist()
    ti, tj = text.tokens(grids.tokens_i[g].tolist()), text.tokens(grids.tokens_j[g].tolist())
    marked = {
        int(grids.i[g]): f"**[{_plain(ti[int(row['a'])])} → {_plain(ti[int(row['a2'])])}]**",
        int(grids.j[g]): f"**[{_plain(tj[int(row['b'])])} → {_plain(tj[int(row['b2'])])}]**",
    }
    pieces, start = [], 0
    for position in sorted(marked):
        pieces += [_plain(text.decode(ids[start:position])), marked[position]]
        start = position + 1
    return " ".join(filter(None, [*pieces, _plain(text.decode(ids[start:]))]))


def _plain(piece: str) -> str:
    """Keep Markdown from reading a token as markup."""
    return re.sub(r"([\\`*_{}\[\]<>#|~$!])", r"\\\1", piece)
