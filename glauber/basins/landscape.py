"""The landscape seen by sentence vectors: principal components, clusters of texts, and the Markov model between them."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.cluster import KMeans
from sklearn.decomposition import PCA
from sklearn.metrics import adjusted_rand_score

from ..checks import whole

Array = NDArray[np.float64]
Labels = NDArray[np.int64]
SEEDS = 2**32  # scikit-learn takes no larger seed; the streams of chains do
COMPONENTS = 10  # principal components that clusters are sought in


@dataclass(frozen=True)
class Landscape:
    """Coordinates of texts.

    Attributes
    ----------
    pca : PCA
        Fitted on passages and chains.
    explained : array of float64
        Share of the variance by component.
    """

    pca: PCA

    @property
    def explained(self) -> Array:
        """Share of the variance of each component."""
        return np.asarray(self.pca.explained_variance_ratio_)

    def coordinates(self, vectors: NDArray[np.float32]) -> Array:
        """Principal coordinates, shape (texts, components)."""
        return np.asarray(self.pca.transform(vectors), dtype=np.float64)


def principal(passages: NDArray[np.float32], chains: NDArray[np.float32], seed: int = 0) -> Landscape:
    """Principal components of passages and chains together.

    Both count the same, however many records the chains have.

    Parameters
    ----------
    passages, chains : array of float32, shape (texts, dimension)
    seed : int
    """
    rng = np.random.default_rng(seed)
    count = max(len(passages), COMPONENTS)
    drawn = chains[rng.choice(len(chains), min(count, len(chains)), replace=False)]
    both = np.concatenate([passages, drawn])
    return Landscape(PCA(min(COMPONENTS, *both.shape), random_state=seed % SEEDS).fit(both))


def stability(points: Array, sizes: Sequence[int], *, repeats: int = 6, seed: int = 0) -> pd.DataFrame:
    """How far k-means clusters depend on the sample, by the number of clusters.

    Two halves of the points, drawn at random, are clustered by themselves; both clusterings label all points, and are compared by the
    adjusted Rand index: 1 if they agree, 0 as by chance.

    Returns
    -------
    DataFrame
        ``clusters``, ``rand`` (mean), ``low``, ``high`` (least and most of the repeats), ``repeats``.
    """
    rng = np.random.default_rng(seed)
    rows = []
    for k in sizes:
        if 2 * k > len(points):
            continue
        found = []
        for _ in range(repeats):
            order = rng.permutation(len(points))
            halves = np.array_split(order, 2)
            labels = [
                KMeans(k, n_init=4, random_state=seed % SEEDS).fit(points[half]).predict(points) for half in halves
            ]
            found.append(adjusted_rand_score(*labels))
        rows.append((k, float(np.mean(found)), min(found), max(found), repeats))
    return pd.DataFrame(rows, columns=["clusters", "rand", "low", "high", "repeats"])


def clusters(points: Array, count: int, seed: int = 0) -> KMeans:
    """K-means clusters of texts, numbered by size, largest first."""
    found = KMeans(count, n_init=10, random_state=seed % SEEDS).fit(points)
    order = np.argsort(-np.bincount(found.labels_, minlength=count), kind="stable")
    found.cluster_centers_ = found.cluster_centers_[order]
    found.labels_ = np.argsort(order)[found.labels_]
    return found


def transition_counts(labels: Labels, count: int, lag: int) -> Array:
    """Number of moves from one cluster to another in ``lag`` records, over all chains, shape (count, count).

    Parameters
    ----------
    labels : array of int64, shape (records, chains)
    count : int
        Clusters.
    lag : int
        Records.

    Raises
    ------
    ParameterError
        If the lag is no whole number from 1.
    """
    lag = whole("lag", lag)
    counts = np.zeros((count, count))
    np.add.at(counts, (labels[:-lag].ravel(), labels[lag:].ravel()), 1)
    return counts


def time_scales(labels: Labels, count: int, lags: Sequence[int], *, every: int, slowest: int = 3,
                resamples: int = 100, seed: int = 0) -> pd.DataFrame:  # fmt: skip
    """Implied time scales ``-lag / ln |lambda|`` of the Markov model between clusters, by lag.

    If the clusters were the states of a Markov chain the time scales would not depend on the lag (Prinz et al. 2011): that
    is the lag test. Only the clusters that chains both leave and enter take part. Intervals resample chains,
    and one chain alone has none.

    Returns
    -------
    DataFrame
        ``lag`` (steps), ``order`` (1 is the slowest), ``time_scale``, ``low``, ``high`` (steps). NaN where no eigenvalue is there or it
        is not below 1.
    """
    rng = np.random.default_rng(seed)
    chains = labels.shape[1]
    rows = []
    for lag in lags:
        if lag >= len(labels):
            continue
        own = _scales(transition_counts(labels, count, lag), lag * every, slowest)
        draws = [
            _scales(transition_counts(labels[:, rng.integers(0, chains, chains)], count, lag), lag * every, slowest)
            for _ in range(resamples)
        ]
        for k in range(slowest):
            values = np.array([d[k] for d in draws])
            values = values[np.isfinite(values)]
            enough = chains > 1 and len(values) > resamples / 2
            low, high = np.quantile(values, (0.025, 0.975)) if enough else (np.nan, np.nan)
            rows.append((lag * every, k + 1, own[k], low, high))
    return pd.DataFrame(rows, columns=["lag", "order", "time_scale", "low", "high"])


def _scales(counts: Array, lag: int, slowest: int) -> Array:
    while True:  # what is never entered or never left, in turn, until no such cluster remains
        off = counts - np.diag(np.diag(counts))
        kept = (off.sum(axis=0) > 0) & (off.sum(axis=1) > 0)
        if kept.all():
            break
        counts = counts[np.ix_(kept, kept)]
    scales = np.full(slowest, np.nan)
    if len(counts) > 1:
        moduli = np.sort(np.abs(np.linalg.eigvals(counts / counts.sum(axis=1, keepdims=True))))[::-1][1:]
        usable = (moduli > 0) & (moduli < 1 - 1e-9)
        values = np.where(usable, -lag / np.log(np.where(usable, moduli, 0.5)), np.nan)[:slowest]
        scales[: len(values)] = values
    return scales
