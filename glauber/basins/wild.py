"""Traps as chains meet them: long stretches during which next to nothing changes, and templates that recur."""

from collections.abc import Callable

import numpy as np
import pandas as pd
import xarray as xr
from numpy.typing import NDArray
from scipy.cluster.hierarchy import fcluster, linkage

from ..margins import local_margins
from ..models import Conditionals


def quiet_stretches(trace: xr.Dataset, *, longer: int = 300, positions: int = 2) -> pd.DataFrame:
    """Every stretch of over ``longer`` steps in which at most ``positions`` positions change.

    Stretches of a chain do not overlap: the longest is taken first.

    Parameters
    ----------
    trace : Dataset
        From `glauber.engines` with ``states``, ``site`` and ``changed``.
    longer : int
        Steps.
    positions : int

    Returns
    -------
    DataFrame
        ``chain``, ``first``, ``last`` (the stretch is steps ``first + 1`` to ``last``; step ``first`` and step ``last + 1`` change
        the text elsewhere, where the run has them), ``time`` (its number of steps), ``censored`` (cut by an end of the run),
        ``moving`` (tuple of the positions that change).
    """
    site, changed = trace["site"].to_numpy(), trace["changed"].to_numpy()
    steps = len(site)
    rows = []
    for chain in range(site.shape[1]):
        when = np.flatnonzero(changed[:, chain])
        for first, last, moving in _longest_first(when, site[when, chain], steps, longer, positions):
            rows.append((chain, first, last, last - first, first == 0 or last == steps, moving))
    return pd.DataFrame(rows, columns=["chain", "first", "last", "time", "censored", "moving"])


def _longest_first(
    when: NDArray[np.int64], where: NDArray[np.int16], steps: int, longer: int, positions: int
) -> list[tuple[int, int, tuple[int, ...]]]:
    """Maximal stretches between changes, longest first without overlap.

    A stretch from change ``a`` (not in it) to change ``b`` (not in it) is bounded by the ends of the run where there is none.
    """
    times, places = np.concatenate([[-1], when, [steps]]), [-1, *where.tolist(), -1]
    found, a = [], 0
    counts: dict[int, int] = {}
    for b in range(1, len(times)):  # the stretch may not hold change b: find how far it reaches to the left of it
        full = places[b] not in counts and len(counts) == positions
        if full or b == len(times) - 1:
            found.append((int(times[a]) + 1, int(times[b]), tuple(sorted(counts))))
        counts[places[b]] = counts.get(places[b], 0) + 1
        while len(counts) > positions:
            a += 1
            left = places[a]
            counts[left] -= 1
            if not counts[left]:
                del counts[left]
    taken: list[tuple[int, int, tuple[int, ...]]] = []
    for first, last, moving in sorted(found, key=lambda s: s[0] - s[1]):
        if last - first > longer and all(last <= f or first >= e for f, e, _ in taken):
            taken.append((first, last, moving))
    return sorted(taken)


def describe(
    model: Conditionals, trace: xr.Dataset, stretches: pd.DataFrame, decode: Callable[[list[int]], str]
) -> pd.DataFrame:
    """Stretches with their text and margins.

    The text is the one recorded most often during the stretch.

    Parameters
    ----------
    model : Conditionals
    trace : Dataset
    stretches : DataFrame
        From `quiet_stretches`.
    decode : callable
        Token ids to a text.

    Returns
    -------
    DataFrame
        ``stretches`` and ``text``, ``tokens`` (tuple of ids), ``margin`` (the least, nats), ``kind``: ``perfect`` if every token is
        its position's argmax, else ``near``. Stretches during which no state was recorded are left out.
    """
    states, record = trace["states"].to_numpy(), trace["record"].to_numpy()
    rows, texts = [], []
    for k, (_, stretch) in enumerate(stretches.iterrows()):
        # Record t is the state after t steps; the steps of the stretch are first + 1 to last.
        seen = states[(record >= stretch["first"]) & (record <= stretch["last"]), stretch["chain"]]
        if len(seen):
            distinct, times = np.unique(seen, axis=0, return_counts=True)
            rows.append(k)
            texts.append(distinct[times.argmax()])
    kept = stretches.iloc[rows].reset_index(drop=True)
    if not rows:
        return kept.assign(text="", tokens=None, margin=np.nan, kind="")
    tokens = np.array(texts)
    least = local_margins(model, tokens).min(axis=1)
    return kept.assign(
        text=[decode(row.tolist()) for row in tokens],
        tokens=pd.Series(list(map(tuple, tokens.tolist())), dtype=object),
        margin=least,
        kind=np.where(least >= 0, "perfect", "near"),
    )


def templates(found: pd.DataFrame, origin: list[str], share: float = 0.7) -> pd.DataFrame:
    """Texts that recur: groups of stretches that agree at most positions, met from different starts.

    Parameters
    ----------
    found : DataFrame
        From `describe`.
    origin : list of str
        What each chain started from; a template counts the distinct ones.
    share : float
        Two texts are of one template if they agree at this share of positions or more, or are linked by such texts.

    Returns
    -------
    DataFrame
        ``template`` (text of the longest stretch), ``fixed`` (positions at which all agree), ``stretches``, ``chains``, ``starts``
        (distinct), ``time`` (steps, over all); only those met from two starts or more, most starts first.
    """
    columns = ["template", "fixed", "stretches", "chains", "starts", "time"]
    if len(found) < 2:
        return pd.DataFrame(columns=columns)
    tokens = np.array(found["tokens"].tolist())
    groups = fcluster(linkage(tokens, "single", metric="hamming"), 1 - share + 1e-9, "distance")
    rows = []
    for g in np.unique(groups):
        here = found[groups == g]
        starts = {origin[c] for c in here["chain"]}
        if len(starts) > 1:
            same = int((tokens[groups == g] == tokens[groups == g][0]).all(axis=0).sum())
            longest = here["text"].iloc[here["time"].to_numpy().argmax()]
            rows.append((longest, same, len(here), here["chain"].nunique(), len(starts), int(here["time"].sum())))
    return pd.DataFrame(rows, columns=columns).sort_values(["starts", "time"], ascending=False, ignore_index=True)
