"""What visits to topics would be by chance: labels in random order, and a Markov chain between topics."""

from collections.abc import Sequence

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from .moves import simulate
from .visits import COMES, ENDS, RETURNS, SHARE, VISITS, summary

Array = NDArray[np.float64]
Labels = NDArray[np.int64]
QUANTITIES = (SHARE, VISITS, COMES, RETURNS, ENDS)
FIXED = (SHARE, COMES)  # an order of the same labels changes neither
MORE, LESS = "more than either null gives", "less than either null gives"
MARKOV = "not told apart from a Markov chain between topics"
UNTOLD = "not to be told, for want of an interval"
ORDER = "what labels in random order give"
BETWEEN = "between what the two nulls give"


def permuted(labels: Labels, rng: np.random.Generator) -> Labels:
    """Each chain's labels in random order, but for the first, with which it starts; shape (records, chains)."""
    return np.concatenate([labels[:1], rng.permuted(labels[1:], axis=0)])


def _quantities(labels: Labels, count: int) -> Array:
    """Of each chain and class, shape (quantities, chains, classes)."""
    inside = labels[:, :, None] == np.arange(count)
    number = inside[0] + (inside[1:] & ~inside[:-1]).sum(axis=0)
    return np.stack([inside.mean(axis=0), number, number > 0, number > 1, inside[-1]]).astype(np.float64)


def beside_nulls(labels: Labels, classes: Sequence[str], origins: Sequence[str], *, draws: int = 500,
                 level: float = 0.95, seed: int = 0) -> pd.DataFrame:  # fmt: skip
    """Visits to every topic by the chains that start on others, beside two nulls.

    A topic of a given share is visited and left again by chance alone. Labels in random order keep each chain's shares and lose
    all memory: what lies below has longer and fewer stays than independent labels. The Markov chain keeps the
    moves between topics, over all chains: what lies above has more than the present topic alone would bring.

    Parameters
    ----------
    labels : array of int64, shape (records, chains)
    classes : sequence of str
    origins : sequence of str
        Start topic of each chain.
    draws : int
        Of each null.
    level : float
        Of the ranges.
    seed : int

    Returns
    -------
    DataFrame
        ``topic``, ``quantity``, ``observed``, ``low``, ``high`` (95 % interval over chains), ``permuted_low``, ``permuted_high``,
        ``markov_low``, ``markov_high`` (range of that mean under each null), ``verdict`` (a null is left only where the interval over chains
        lies wholly beyond its range), ``chains``. The range
        under labels in random order is NaN for quantities that the order does not change. Topics from which all chains start have
        no rows.
    """
    rng = np.random.default_rng(seed)
    count = len(classes)
    away = np.array([[origin != name for name in classes] for origin in origins], dtype=np.float64)
    size = away.sum(axis=0)
    usable = np.flatnonzero(size)
    simulated = np.empty((2, draws, len(QUANTITIES), count))
    for k, moved in enumerate(simulate(labels, count, draws, rng)):
        for null, path in enumerate((permuted(labels, rng), moved)):
            simulated[null, k] = (_quantities(path, count) * away).sum(axis=1) / np.maximum(size, 1)
    low, high = np.quantile(simulated, ((1 - level) / 2, (1 + level) / 2), axis=1)
    rows = []
    for c in usable.tolist():
        told = summary(labels[:, away[:, c] == 1] == c, 1, 1).set_index("quantity")
        for q, quantity in enumerate(QUANTITIES):
            mean, *limits = (float(value) for value in told.loc[quantity, ["mean", "low", "high"]].to_numpy())
            ranges = [(low[null, q, c], high[null, q, c]) for null in (0, 1)]
            if quantity in FIXED:
                ranges[0] = (np.nan, np.nan)
            verdict = _verdict((limits[0], limits[1]), *ranges)
            rows.append((classes[c], quantity, mean, *limits, *ranges[0], *ranges[1], verdict, int(size[c])))
    return pd.DataFrame(
        rows,
        columns=["topic", "quantity", "observed", "low", "high", "permuted_low", "permuted_high", "markov_low", "markov_high",
                 "verdict", "chains"],
    )  # fmt: skip


def _verdict(observed: tuple[float, float], permuted: tuple[float, float], markov: tuple[float, float]) -> str:
    """In words. The interval over chains must leave out the range of a null, since one chain more or less is no finding.

    A null whose range is NaN says nothing; rounding is no difference.
    """
    if not np.isfinite(observed).all():
        return UNTOLD
    close = 1e-9
    above = [observed[0] > high + close for _, high in (permuted, markov)]
    below = [observed[1] < low - close for low, _ in (permuted, markov)]
    said = [bool(np.isfinite(low)) for low, _ in (permuted, markov)]
    if not above[1] and not below[1]:
        return MARKOV
    if above[1] and (above[0] or not said[0]):
        return MORE
    if below[1] and (below[0] or not said[0]):
        return LESS
    return BETWEEN if above[0] or below[0] else ORDER


def recurrence(table: pd.DataFrame, topic: str) -> str:
    """Whether chains come back to a topic more than by chance, in a few sentences, from `beside_nulls`."""
    chosen = table[table["quantity"] == RETURNS].set_index("topic")
    row, others = chosen.loc[topic], chosen.drop(topic)
    visits = table[(table["topic"] == topic) & (table["quantity"] == VISITS)].iloc[0]
    meaning = {
        MORE: ": neither shares of time nor single moves bring as many",
        LESS: ": shares of time and single moves would both bring more",
        MARKOV: ": nothing is shown beyond the rates of single moves",
    }.get(str(row["verdict"]), "")
    rest = "No chains start off another topic, to be compared."
    if len(others):
        more = int((others["verdict"] == MORE).sum())
        rest = (
            f"Of the other {len(others)} classes the same share is {others['observed'].min():.0%} to {others['observed'].max():.0%}, and it "
            f"is {MORE} in {more} of them."
        )
    return (
        f"Returns to {topic} are {row['verdict']}{meaning}. Of the {row['chains']} chains that start elsewhere {row['observed']:.0%} leave it and "
        f"come back; labels in random order give {row['permuted_low']:.0%} to {row['permuted_high']:.0%}, a Markov chain between topics "
        f"{row['markov_low']:.0%} to {row['markov_high']:.0%}. The chains make {visits['observed']:.1f} visits each, against "
        f"{visits['permuted_low']:.1f} to {visits['permuted_high']:.1f} and {visits['markov_low']:.1f} to {visits['markov_high']:.1f}. {rest}"
    )
