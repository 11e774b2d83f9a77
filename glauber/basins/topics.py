"""What a text is about: a topic score from labelled passages, calibrated, and checked on passages it has not seen.

The score is a logistic regression on sentence vectors. Word salad, as hot chains write it, has a class of its own,
since without one it would have to be about something.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import stats
from sklearn.calibration import CalibratedClassifierCV
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import StratifiedGroupKFold

from ..errors import ParameterError

NONE = "none of these"
STRENGTH = 10.0  # inverse regularisation of the logistic regression; unit vectors need little
SEEDS = 2**32  # scikit-learn takes no larger seed; the streams of chains do
FOLDS = 4
Array = NDArray[np.float64]


@dataclass(frozen=True)
class TopicModel:
    """A trained score.

    Attributes
    ----------
    classes : tuple of str
        Names, in the order of the columns of the probabilities.
    """

    classes: tuple[str, ...]
    _estimator: Any

    def probabilities(self, vectors: NDArray[np.float32]) -> Array:
        """Calibrated class probabilities of sentence vectors, shape (texts, classes)."""
        return np.asarray(self._estimator.predict_proba(vectors), dtype=np.float64)

    def labels(self, vectors: NDArray[np.float32]) -> NDArray[np.int64]:
        """Column of the likeliest class, shape (texts,)."""
        return np.asarray(self.probabilities(vectors).argmax(axis=1))


def windows(states: Sequence[Sequence[int]], n: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """All stretches of ``n`` tokens that a list of texts holds end to end, and the text that each is from.

    Returns
    -------
    array of int64, shape (windows, n); array of int64, shape (windows,)
    """
    cut = [(ids[s : s + n], k) for k, ids in enumerate(states) for s in range(0, len(ids) - n + 1, n)]
    if not cut:
        raise ParameterError(f"no text has {n} tokens: give longer texts or a smaller n")
    return np.array([row for row, _ in cut]), np.array([k for _, k in cut])


def train(vectors: NDArray[np.float32], labels: Sequence[str], groups: Sequence[int], seed: int = 0) -> TopicModel:
    """Train and calibrate a topic score.

    Classes count the same however many texts they have: the probabilities are those of a text whose class was drawn uniformly.

    Parameters
    ----------
    vectors : array of float32, shape (texts, dimension)
    labels : sequence of str
        Topic of each text; word salad has the label `NONE`.
    groups : sequence of int
        Texts of one group, such as the stretches of a passage, are never on both sides of a split.
    seed : int

    Raises
    ------
    ParameterError
        If there are fewer than two topics, or a topic has too few groups to be split.
    """
    names, few = np.unique(np.asarray(labels)), _fewest_groups(labels, groups)
    if len(names) < 2 or few < FOLDS:
        raise ParameterError(
            f"{len(names)} topics with {few} passages in the smallest: a topic score needs 2 topics with {FOLDS} passages each"
        )
    inner = list(StratifiedGroupKFold(FOLDS, shuffle=True, random_state=seed % SEEDS).split(vectors, labels, groups))
    # One temperature for all classes, fitted to held-out scores: it calibrates and changes no order.
    estimator = CalibratedClassifierCV(
        LogisticRegression(C=STRENGTH, max_iter=2000, class_weight="balanced"),
        method="temperature",
        cv=inner,
        ensemble=False,
    )
    estimator.fit(vectors, np.asarray(labels))
    return TopicModel(tuple(str(c) for c in estimator.classes_), estimator)


def _fewest_groups(labels: Sequence[str], groups: Sequence[int]) -> int:
    return min(pd.Series(list(groups)).groupby(list(labels)).nunique().tolist(), default=0)


def held_out(
    vectors: NDArray[np.float32], labels: Sequence[str], groups: Sequence[int], *, folds: int = 4, seed: int = 0
) -> pd.DataFrame:
    """Probabilities of every text by a score that was trained, and calibrated, without its group.

    Returns
    -------
    DataFrame
        ``label``, ``group``, and one column of probabilities per class.
    """
    names = sorted(set(labels))
    table = pd.DataFrame({"label": list(labels), "group": list(groups)}).assign(**dict.fromkeys(names, np.nan))
    for fitted, left in _splits(labels, groups, folds, seed):
        model = train(vectors[fitted], np.asarray(labels)[fitted].tolist(), np.asarray(groups)[fitted].tolist(), seed)
        table.loc[left, list(model.classes)] = model.probabilities(vectors[left])
    return table


def _splits(
    labels: Sequence[str], groups: Sequence[int], folds: int, seed: int
) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int64]]]:
    if _fewest_groups(labels, groups) < 2 * folds:
        raise ParameterError(
            f"the smallest topic has {_fewest_groups(labels, groups)} passages: {folds} folds need {2 * folds} in each"
        )
    return iter(
        StratifiedGroupKFold(folds, shuffle=True, random_state=seed % SEEDS).split(
            np.zeros((len(labels), 1)), labels, groups
        )
    )


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
    for fitted, left in _splits(labels, groups, folds, seed):
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
