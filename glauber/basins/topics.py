"""What a text is about: a topic score from labelled passages, calibrated, and checked on passages it has not seen.

The score is a logistic regression on sentence vectors. Word salad, as hot chains write it, has a class of its own,
since without one it would have to be about something.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.calibration import CalibratedClassifierCV
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedGroupKFold

from ..errors import ParameterError

NONE = "none of these"
ELSEWHERE = -1  # group of a text that is no labelled one, nor began as one
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


@dataclass(frozen=True)
class CrossFitted:
    """A score of all labelled texts, and one of each fold, which has seen all but that fold.

    Attributes
    ----------
    classes : tuple of str
        Names, in the order of the columns of the probabilities.
    whole : TopicModel
        Trained on all texts.
    parts : tuple of TopicModel
        One per fold, trained and calibrated without it.
    fold : mapping of int to int
        Fold of each group.
    """

    classes: tuple[str, ...]
    whole: TopicModel
    parts: tuple[TopicModel, ...]
    fold: Mapping[int, int]

    def probabilities(self, vectors: NDArray[np.float32], groups: Sequence[int]) -> Array:
        """Class probabilities of texts, each by a score that has not seen its group.

        Parameters
        ----------
        vectors : array of float32, shape (texts, dimension)
        groups : sequence of int
            The group of the labelled texts that each text is of, or began as; `ELSEWHERE` if none, for the score of all.

        Returns
        -------
        array of float64, shape (texts, classes)

        Raises
        ------
        ParameterError
            If a group is no group of the labelled texts.
        """
        strange = set(groups) - set(self.fold) - {ELSEWHERE}
        if strange or len(groups) != len(vectors):
            raise ParameterError(
                f"{len(groups)} groups for {len(vectors)} texts, {len(strange)} of them unknown: give each text the group of a "
                f"labelled text, or ELSEWHERE"
            )
        chosen = np.array([-1 if g == ELSEWHERE else self.fold[g] for g in groups])
        found = np.empty((len(vectors), len(self.classes)))
        for k, model in enumerate([*self.parts, self.whole]):
            rows = chosen == (k if k < len(self.parts) else -1)
            if rows.any():
                found[rows] = model.probabilities(vectors[rows])
        return found

    def labels(self, vectors: NDArray[np.float32], groups: Sequence[int]) -> NDArray[np.int64]:
        """Column of the likeliest class, shape (records, chains), of chains' vectors (records, chains, dimension).

        Parameters
        ----------
        vectors : array of float32, shape (records, chains, dimension)
        groups : sequence of int
            Of each chain, as in `probabilities`: where it started.
        """
        records, chains, dimension = vectors.shape
        found = self.probabilities(vectors.reshape(-1, dimension), np.tile(np.asarray(groups), records).tolist())
        return np.asarray(found.argmax(axis=1).reshape(records, chains))


def cross_fit(
    vectors: NDArray[np.float32], labels: Sequence[str], groups: Sequence[int], *, folds: int = 4, seed: int = 0
) -> CrossFitted:
    """Train a score on all texts, and one without each fold of groups, so that every text has a score that never saw its group.

    Parameters are those of `train`; a group has a number from 0.

    Raises
    ------
    ParameterError
        If a topic has too few groups to be split, or some fold holds nearly all of a topic.
    """
    names, parts, fold = tuple(sorted(set(labels))), [], {}
    for k, (fitted, left) in enumerate(splits(labels, groups, folds, seed)):
        model = train(vectors[fitted], np.asarray(labels)[fitted].tolist(), np.asarray(groups)[fitted].tolist(), seed)
        if model.classes != names:
            raise ParameterError(f"a fold of {folds} holds all of a topic: give more passages on each topic")
        parts.append(model)
        fold.update(dict.fromkeys(np.asarray(groups)[left].tolist(), k))
    return CrossFitted(names, train(vectors, labels, groups, seed), tuple(parts), fold)


def start_groups(texts: Sequence[str], labelled: Sequence[str]) -> list[int]:
    """Which labelled text each start is: its index, or `ELSEWHERE`."""
    index = {text.strip(): k for k, text in reversed(list(enumerate(labelled)))}
    return [index.get(text.strip(), ELSEWHERE) for text in texts]


def elsewhere(origins: Sequence[str], topic: str) -> NDArray[np.bool_]:
    """Which starts are on other topics, shape (starts,).

    Parameters
    ----------
    origins : sequence of str
        Topic of each start; an empty one, where the source names none, counts as another.
    topic : str

    Raises
    ------
    ParameterError
        If none is: then nothing can be said of chains that come to the topic.
    """
    others = np.array([name != topic for name in origins], dtype=bool)
    if not others.any():
        raise ParameterError(
            f"all {len(others)} passages are on topic {topic!r}: give another topic, or passages on others too"
        )
    return others


def splits(
    labels: Sequence[str], groups: Sequence[int], folds: int, seed: int
) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int64]]]:
    """Folds by group, of the topics' own shares: rows to fit on and rows left out."""
    if _fewest_groups(labels, groups) < 2 * folds:
        raise ParameterError(
            f"the smallest topic has {_fewest_groups(labels, groups)} passages: {folds} folds need {2 * folds} in each"
        )
    return iter(
        StratifiedGroupKFold(folds, shuffle=True, random_state=seed % SEEDS).split(
            np.zeros((len(labels), 1)), labels, groups
        )
    )
