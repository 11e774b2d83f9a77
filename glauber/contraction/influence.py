"""Influence of one position on another: how far a conditional moves when one token elsewhere changes.

``c_ij(tau) = max TV(p_i,tau(. | x_-i), p_i,tau(. | y_-i))`` over the pairs ``x, y`` that differ at ``j`` alone (paper, section 3;
:cite:`dobrushin1970`). On a network the maximum can only be searched, so that whatever is found here is a *lower* bound on
``c_ij``, and so is what `glauber.contraction.lower_bounds` makes of it on each criterion of rapid mixing: a sampled value below 1 certifies
nothing, a sampled value of 1 or more rules out that criterion alone.
"""

from collections.abc import Sequence

import numpy as np
import pandas as pd
import torch
import xarray as xr
from numpy.typing import ArrayLike, NDArray

from .. import chain
from ..checks import whole
from ..engines import trace
from ..errors import ParameterError
from ..models import Conditionals
from .criteria import grid

ELEMENTS = 2**22  # probabilities held at a time, in float64 and a few copies
SCHEMES = ("uniform", "top", "greedy")


def measure(
    model: Conditionals,
    states: ArrayLike,
    *,
    temperatures: ArrayLike,
    substitutions: int,
    schemes: Sequence[str] = SCHEMES,
    columns: int | None = None,
    rows: int | None = None,
    seed: int = 0,
) -> xr.Dataset:
    """Influence at every temperature from one set of logits, over contexts and substituted tokens.

    At each position ``j`` of each context the token is replaced by ``substitutions`` others. One masked forward per position
    ``i`` and token gives the laws, and the maximum is over all pairs of tokens tried at ``j``, the text's own included:
    ``rows * columns * (substitutions + 1)`` forwards per context and scheme.

    Parameters
    ----------
    model : Conditionals
    states : array of int, shape (contexts, n)
    temperatures : array of float, shape (temperatures,)
        Each from 1e-4 to 1e6, as in a run.
    substitutions : int
        Tokens tried at ``j`` beside the text's own.
    schemes : sequence of str
        How they are chosen. ``uniform``: drawn from the vocabulary without repetition. ``top``: the model's likeliest at
        ``j``. ``greedy``: half of them the tokens that moved the other positions most in what the search has seen so far
        (total variation summed over positions and temperatures), half drawn afresh; the same number of forwards.
    columns, rows : int, optional
        How many positions ``j`` and ``i`` to measure, drawn uniformly; all by default. Fewer still give lower bounds, but
        weaker ones: a row sum needs all columns.
    seed : int
        The draws of a context depend on (seed, its row, the scheme) alone, up to what ``greedy`` has seen before.

    Returns
    -------
    xarray.Dataset
        By ``scheme``, ``temperature``, ``i``, ``j``: ``max``, the largest total variation found, a lower bound on ``c_ij``;
        ``mean``, the mean total variation between the text and the text with one token substituted. ``count`` (i, j): the
        substitutions behind the mean. ``by context`` (context, ...): the mean of each context alone. The diagonal is 0;
        positions not measured are NaN.

    Raises
    ------
    ParameterError
        If a parameter is outside its range, rows of states have different lengths, or a token is no whole number or not in the
        vocabulary.
    """
    texts, tau = _check(model, states, temperatures, schemes)
    contexts, n = texts.shape
    size = len(model.vocabulary)
    substitutions, seed = whole("substitutions", substitutions, high=size - 1), whole("seed", seed, 0)
    columns, rows = (n if m is None else whole(name, m, high=n) for name, m in (("columns", columns), ("rows", rows)))
    chosen = np.random.default_rng(seed)
    at_j = np.sort(chosen.choice(n, columns, replace=False))
    at_i = np.sort(chosen.choice(n, rows, replace=False))
    shape = (len(schemes), len(tau), n, n)
    largest, each = np.full(shape, np.nan), np.full((contexts, *shape), np.nan)
    largest[:, :, at_i[:, None], at_j] = each[:, :, :, at_i[:, None], at_j] = 0.0
    seen = np.zeros(size)  # of the greedy search: the largest shift that each token has taken part in
    own = np.searchsorted(model.vocabulary, texts)
    for c in range(contexts):
        likeliest = _likeliest(model, texts[c], at_j, own[c], substitutions) if "top" in schemes else {}
        streams = [np.random.default_rng([seed, c, SCHEMES.index(scheme)]) for scheme in schemes]
        for j in at_j:
            others = at_i[at_i != j]
            for s, scheme in enumerate(schemes):
                if scheme == "top":
                    tried = likeliest[int(j)]
                else:
                    loudest = (
                        np.argsort(-seen, kind="stable")[: substitutions // 2 + 1] if scheme == "greedy" else own[c, :0]
                    )
                    kept = [int(v) for v in loudest if seen[v] > 0 and v != own[c, j]][: substitutions // 2]
                    tried = np.append(kept, _draw(streams[s], size, [own[c, j], *kept], substitutions - len(kept)))
                tokens = np.append(own[c, j], tried).astype(np.int64)
                shift = _distances(model, texts[c], int(j), others, model.vocabulary[tokens], tau)
                largest[s, :, others, j] = np.maximum(largest[s, :, others, j], shift.max(axis=(2, 3)).T)
                each[c, s, :, others, j] = shift[:, :, 0, 1:].mean(axis=2).T
                if scheme == "greedy":
                    seen[tokens] = np.maximum(seen[tokens], shift.sum(axis=(0, 1)).max(axis=1))
    count = np.where(np.isnan(largest[0, 0]), 0, contexts * substitutions) * ~np.eye(n, dtype=bool)
    by = ("scheme", "temperature", "i", "j")
    return xr.Dataset(
        {
            "max": (by, largest),
            "mean": (by, each.mean(axis=0)),
            "by context": (("context", *by), each),
            "count": (("i", "j"), count),
        },
        coords={"scheme": list(schemes), "temperature": tau, "i": np.arange(n), "j": np.arange(n)},
        attrs={"seed": seed, "contexts": contexts, "substitutions": substitutions, "max": "lower bounds"},
    )


def _check(
    model: Conditionals, states: ArrayLike, temperatures: ArrayLike, schemes: Sequence[str]
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    texts, tau = chain.init(model, states).tokens.cpu().numpy(), grid(temperatures)
    if texts.shape[1] < 2:
        raise ParameterError(f"states have shape {texts.shape}: give rows of 2 tokens or more")
    if not len(schemes) or not set(schemes) <= set(SCHEMES):
        raise ParameterError(f"schemes {list(schemes)}: give some of {', '.join(SCHEMES)}")
    return texts, tau


def _draw(rng: np.random.Generator, size: int, without: list[int], count: int) -> NDArray[np.int64]:
    """Distinct numbers below ``size``, none of ``without``: drawn among the places left, then moved past the gaps."""
    drawn = rng.choice(size - len(without), count, replace=False)
    for gap in sorted(without):
        drawn[drawn >= gap] += 1
    return np.asarray(drawn)


def _likeliest(
    model: Conditionals, text: NDArray[np.int64], at: NDArray[np.int64], own: NDArray[np.int64], count: int
) -> dict[int, NDArray[np.int64]]:
    """Columns of the likeliest tokens of each position other than the text's own."""
    found = {}
    for j in at:
        row = torch.from_numpy(text[None]).to(model.device)
        scores = model.conditional_logits(row, torch.tensor([j], device=model.device))[0].double().cpu().numpy()
        scores[own[j]] = -np.inf
        found[int(j)] = np.argsort(-scores, kind="stable")[:count]
    return found


def _distances(
    model: Conditionals,
    text: NDArray[np.int64],
    j: int,
    others: NDArray[np.int64],
    tokens: NDArray[np.int64],
    temperatures: NDArray[np.float64],
) -> NDArray[np.float64]:
    """Total variation at each of ``others`` between every two of ``tokens`` at ``j``, shape (taus, others, k, k)."""
    k = len(tokens)
    found = np.empty((len(temperatures), len(others), k, k))
    size = max(1, ELEMENTS // (k * len(model.vocabulary)))
    for s in range(0, len(others), size):
        at = others[s : s + size]
        rows = np.tile(text, (len(at) * k, 1))
        rows[:, j] = np.tile(tokens, len(at))
        masked = torch.from_numpy(np.repeat(at, k)).to(model.device)
        logits = model.conditional_logits(torch.from_numpy(rows).to(model.device), masked)
        # float64 lives on the CPU where the device (MPS) lacks it.
        logits = (logits.cpu() if logits.device.type == "mps" else logits).double().reshape(len(at), k, -1)
        for t, tau in enumerate(temperatures):
            laws = torch.softmax(logits / tau, dim=2)
            found[t, s : s + size] = (0.5 * torch.cdist(laws, laws, p=1)).cpu().numpy()
    return np.minimum(found, 1.0)


def exact_influence(tables: NDArray[np.float64], temperature: float) -> NDArray[np.float64]:
    """The influence matrix ``c_ij`` of a small space, by enumeration, shape (n, n).

    Parameters
    ----------
    tables : array of float64, shape (n, k**n, k)
        ``l_i(v; x_-i)`` in nats, in the order of `glauber.exact.enumerate_states`.
    temperature : float

    Raises
    ------
    ParameterError
        If the temperature is outside the range of a run.
    """
    n, _, k = tables.shape
    law = np.exp((tables - tables.max(axis=2, keepdims=True)) / trace.temperatures(temperature, 1, "matrix").item())
    law /= law.sum(axis=2, keepdims=True)
    found = np.zeros((n, n))
    for i in range(n):
        for j in set(range(n)) - {i}:
            by_j = np.moveaxis(law[i].reshape(*(k,) * n, k), j, 0).reshape(k, -1, k)
            found[i, j] = max(0.5 * np.abs(by_j - by_j[a]).sum(axis=2).max() for a in range(k))
    return found


def by_context(influence: xr.Dataset, distance: int | None = None) -> pd.DataFrame:
    """Mean influence of each context: contexts are the sampling unit of an interval for it.

    Parameters
    ----------
    influence : Dataset
        From `measure`.
    distance : int, optional
        The mean over the measured pairs of positions at this distance; by default the mean over ``j`` of the sum over
        ``i``, as ``mean`` of `glauber.contraction.lower_bounds`.

    Returns
    -------
    DataFrame
        ``scheme``, ``temperature``, ``context``, ``mean``.
    """
    each = influence["by context"]
    if distance is None:
        mean = each.sum("i", min_count=1).mean("j")
    else:
        mean = each.where(abs(each["i"] - each["j"]) == distance).mean(["i", "j"])
    return mean.rename("mean").to_dataframe(dim_order=["scheme", "temperature", "context"]).reset_index()


def by_distance(influence: xr.Dataset) -> pd.DataFrame:
    """Influence against the distance of the two positions.

    Returns
    -------
    DataFrame
        ``scheme``, ``temperature``, ``distance`` (positions), and over the measured pairs at that distance: ``largest``, the
        largest ``max``; ``typical``, the mean of ``max``; ``mean``, the mean of ``mean``; ``pairs``.
    """
    table = influence[["max", "mean"]].to_dataframe().dropna().reset_index()
    table = table.assign(distance=(table["i"] - table["j"]).abs())
    grouped = table[table["distance"] > 0].groupby(["scheme", "temperature", "distance"], sort=False)
    return grouped.agg(
        largest=("max", "max"), typical=("max", "mean"), mean=("mean", "mean"), pairs=("max", "size")
    ).reset_index()
