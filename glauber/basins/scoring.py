"""How well a topic score tells a topic from the rest, and the baseline of a topic's own words."""

import re
from collections.abc import Callable, Sequence

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import stats
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.metrics import roc_auc_score

from .topics import splits

Array = NDArray[np.float64]


def keyword_scores(
    texts: Sequence[str],
    labels: Sequence[str],
    groups: Sequence[int],
    topic: str,
    *,
    words: int = 40,
    folds: int = 4,
    seed: int = 0,
) -> Array:
    """The baseline: how many of a topic's own words a text holds, each fold's words taken from the other folds.

    A word is the topic's own by its smoothed log-odds of occurring in a text of that topic against the rest.

    Returns
    -------
    array of float64, shape (texts,)
        Share of the text's words that are among the ``words`` best.
    """
    counter = CountVectorizer(binary=True, token_pattern=r"[a-z]{3,}")
    present = np.asarray(counter.fit_transform(texts).todense(), dtype=np.float64)
    names, own = counter.get_feature_names_out(), np.asarray(labels) == topic
    scores = np.zeros(len(texts))
    for fitted, left in splits(labels, groups, folds, seed):
        inside, outside = present[fitted][own[fitted]], present[fitted][~own[fitted]]
        odds = [(part.sum(axis=0) + 0.5) / (len(part) + 1) for part in (inside, outside)]
        gain = np.log(odds[0] / (1 - odds[0])) - np.log(odds[1] / (1 - odds[1]))
        # Smoothing alone favours words that the other folds never saw, if the topic has fewer texts than the rest.
        gain[inside.sum(axis=0) == 0] = -np.inf
        order = np.argsort(-gain, kind="stable")[:words]
        best = set(names[order[np.isfinite(gain[order])]])
        for k in left:
            read = re.findall(r"[a-z]+", texts[k].lower())
            scores[k] = sum(word in best for word in read) / max(len(read), 1)
    return scores


def quality(
    scores: Array,
    own: NDArray[np.bool_],
    groups: Sequence[int],
    *,
    probability: bool = True,
    resamples: int = 500,
    seed: int = 0,
) -> pd.DataFrame:
    """How well a held-out score tells one topic from the rest, with bootstrap intervals over groups.

    Parameters
    ----------
    scores : array of float64, shape (texts,)
    own : array of bool, shape (texts,)
        Whether the text is of the topic.
    groups : sequence of int
        The sampling unit, a passage.
    probability : bool
        Whether the scores are probabilities, which have an error and a calibration.
    resamples, seed
        Of the bootstrap.

    Returns
    -------
    DataFrame
        ``statistic``, ``estimate``, ``low``, ``high``, ``groups``, ``texts``. ``AUC``; for probabilities ``error`` (share of texts on
        the wrong side of 1/2), ``Brier score``, and ``calibration error``: mean over texts of the gap between predicted and
        observed in bins of the score, ten equal widths.
    """
    statistics: dict[str, Callable[[Array, NDArray[np.bool_]], float]] = {
        "AUC": lambda s, y: float(roc_auc_score(y, s))
    }
    if probability:
        statistics["error"] = lambda s, y: float(((s > 0.5) != y).mean())
        statistics["Brier score"] = lambda s, y: float(((s - y) ** 2).mean())
        statistics["calibration error"] = lambda s, y: float((_gaps(s, y)["gap"] * _gaps(s, y)["texts"]).sum() / len(s))
    names = np.unique(np.asarray(groups))
    rows_of = [np.flatnonzero(np.asarray(groups) == g) for g in names]
    rng = np.random.default_rng(seed)
    draws = [np.concatenate([rows_of[k] for k in rng.integers(0, len(names), len(names))]) for _ in range(resamples)]
    draws = [rows for rows in draws if 0 < own[rows].sum() < len(rows)]
    table = []
    for name, of in statistics.items():
        values = [of(scores[rows], own[rows]) for rows in draws]
        low, high = np.quantile(values, (0.025, 0.975))
        table.append((name, of(scores, own), low, high, len(names), len(scores)))
    return pd.DataFrame(table, columns=["statistic", "estimate", "low", "high", "groups", "texts"])


def reliability(scores: Array, own: NDArray[np.bool_], level: float = 0.95) -> pd.DataFrame:
    """Observed share against predicted probability in ten bins of equal width.

    Returns
    -------
    DataFrame
        ``predicted`` (mean of the bin), ``observed``, ``low``, ``high`` (Wilson), ``texts``; empty bins are left out.
    """
    table = _gaps(scores, own)
    limits = [stats.binomtest(int(k), int(n)).proportion_ci(level, method="wilson") for k, n in
              zip(table["hits"], table["texts"], strict=True)]  # fmt: skip
    return table.assign(low=[c.low for c in limits], high=[c.high for c in limits]).drop(columns=["gap", "hits"])


def _gaps(scores: Array, own: NDArray[np.bool_]) -> pd.DataFrame:
    cells = np.minimum((scores * 10).astype(int), 9)
    grouped = pd.DataFrame({"cell": cells, "score": scores, "own": own}).groupby("cell")
    table = grouped.agg(
        predicted=("score", "mean"), observed=("own", "mean"), texts=("own", "size"), hits=("own", "sum")
    )
    return table.assign(gap=(table["predicted"] - table["observed"]).abs()).reset_index(drop=True)
