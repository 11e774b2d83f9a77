"""The landscape seen by sentence vectors: principal components and clusters of texts."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.cluster import KMeans
from sklearn.decomposition import PCA
from sklearn.metrics import adjusted_rand_score

from .topics import SEEDS

Array = NDArray[np.float64]
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
    """How far k-means clusters depend on the chains, by the number of clusters.

    Two halves of the chains, drawn at random, are clustered by themselves; both clusterings label all points, and are compared by the
    adjusted Rand index: 1 if they agree, 0 as by chance. A chain is in one half as a whole: its records are near one another, so
    that halves which share a chain would agree on the places where it has been.

    Parameters
    ----------
    points : array of float64, shape (records, chains, components)
    sizes : sequence of int
        Numbers of clusters; those for which half of the chains have too few points are left out.
    repeats, seed
        Of the halving.

    Returns
    -------
    DataFrame
        ``clusters``, ``rand`` (mean), ``low``, ``high`` (least and most of the repeats), ``repeats``. Empty for one chain.
    """
    rng = np.random.default_rng(seed)
    records, chains, components = points.shape
    every = points.reshape(-1, components)
    rows = []
    for k in sizes:
        if k > records * (chains // 2):
            continue
        found = []
        for _ in range(repeats):
            halves = np.array_split(rng.permutation(chains), 2)
            labels = [
                KMeans(k, n_init=4, random_state=seed % SEEDS)
                .fit(points[:, half].reshape(-1, components))
                .predict(every)
                for half in halves
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
