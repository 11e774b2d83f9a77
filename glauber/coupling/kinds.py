"""The couplings: how the members of a group draw their tokens at the common site from common randomness.

Each function takes the conditional laws, shape ``(groups, members, |V|)`` and float64, and returns the columns of the new tokens,
shape (groups, members). Members whose laws are the same to the last bit draw the same token, and the one that a group's law draws
where it is given once, for all members.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from .. import chain
from ..randomness import uniform

SMALLEST = 2.0**-65  # in place of a uniform of 0, half of the grid's first step


@dataclass(frozen=True)
class Shared:
    """The randomness that the members of each group share in one step.

    Attributes
    ----------
    seed : int
    groups : array of uint64, shape (groups,)
        Stream index of each group.
    step : int
    uniforms : Tensor of float64, shape (groups, 3)
        On [0, 1).
    """

    seed: int
    groups: NDArray[np.uint64]
    step: int
    uniforms: torch.Tensor

    def of(self, rows: NDArray[np.int64]) -> "Shared":
        """That of some of the groups."""
        return Shared(self.seed, self.groups[rows], self.step, self.uniforms[rows])

    def exponentials(self, count: int) -> torch.Tensor:
        """Standard exponentials ``E``, shape (groups, count); ``-log E`` is standard Gumbel noise.

        They come from the group's own Philox key at counters that `glauber.randomness.words` never reaches: its highest
        word is 1 here and 0 there. They depend on (seed, group, step) and the column alone.
        """
        counter = np.array([0, self.step, 0, 1], dtype=np.uint64)
        once, of_group = np.unique(self.groups, return_inverse=True)
        raw = np.empty((len(once), count), dtype=np.uint64)
        for row, group in zip(raw, once, strict=True):
            key = np.array([self.seed, group], dtype=np.uint64)
            row[:] = np.random.Philox(key=key, counter=counter).random_raw(count)
        noise = -np.log1p(-np.maximum(uniform(raw), SMALLEST))
        return torch.from_numpy(noise[of_group])


@dataclass(frozen=True)
class Split:
    """Two laws as what they have in common and what each has beyond it.

    Attributes
    ----------
    overlap : Tensor of float64, shape ``(groups, |V|)``
        ``min(p, q)``.
    gap : Tensor of float64, shape ``(groups, |V|)``
        ``p - q``, which sums to 0.
    mode : Tensor of int64, shape (groups,)
        Column of the largest overlap.
    distance : Tensor of float64, shape (groups,)
        Total variation, the mass of what either law has beyond the overlap.
    """

    overlap: torch.Tensor
    gap: torch.Tensor
    mode: torch.Tensor
    distance: torch.Tensor

    def beyond(self, rows: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """What ``p`` and ``q`` have beyond the overlap, of some of the groups."""
        gap = self.gap.index_select(0, rows)
        return gap.clamp(min=0), gap.neg_().clamp_(min=0)


def split(p: torch.Tensor, q: torch.Tensor) -> Split:
    """Overlap and gap of laws ``(groups, |V|)``.

    In a trap both laws have all but a tiny mass on one token, and their difference there is rounding noise. It is not
    used: both laws sum to 1, so that the difference at the mode is what the others leave.
    """
    overlap = torch.minimum(p, q)
    mode = overlap.max(dim=1).indices  # argmax takes three times as long
    gap = (p - q).scatter_(1, mode[:, None], 0.0)
    others = gap.sum(dim=1)
    distance = (gap.abs().sum(dim=1) + others.abs()) / 2
    return Split(overlap, gap.scatter_(1, mode[:, None], -others[:, None]), mode, distance)


def maximal(laws: torch.Tensor, shared: Shared) -> torch.Tensor:
    """Maximal coupling of two members: the tokens differ with probability ``TV(p, q)``, the least that any coupling allows.

    With probability ``1 - TV`` both get one draw from the overlap, else each gets an independent draw from its residual.
    """
    parts = split(laws[:, 0], laws[:, -1])
    meet, pick, other = shared.uniforms.to(laws.device).unbind(dim=1)
    differ = meet < parts.distance
    together, apart = torch.nonzero(~differ)[:, 0], torch.nonzero(differ)[:, 0]
    columns = torch.empty(laws.shape[:2], dtype=torch.int64, device=laws.device)
    if len(together):
        overlap = parts.overlap.index_select(0, together)
        columns[together] = _from_overlap(overlap, parts.mode[together], pick[together])[:, None]
    if len(apart):
        first, second = parts.beyond(apart)
        columns[apart, 0] = chain.invert(first.cumsum_(dim=1), pick[apart])
        columns[apart, 1] = chain.invert(second.cumsum_(dim=1), other[apart])
    return columns


def _from_overlap(overlap: torch.Tensor, mode: torch.Tensor, pick: torch.Tensor) -> torch.Tensor:
    """Inverse of the cumulative overlap with the mode put last: uniforms near 0 are fine, so rare tokens keep their rate.

    The overlap is spent: sums are made in its place.
    """
    largest = overlap.gather(1, mode[:, None])[:, 0]
    cumulative = overlap.scatter_(1, mode[:, None], 0.0).cumsum_(dim=1)
    others = cumulative[:, -1]
    target = pick * (others + largest)
    place = torch.searchsorted(cumulative, target[:, None], right=True)[:, 0]
    return torch.where(target < others, place, mode)


def common(laws: torch.Tensor, shared: Shared) -> torch.Tensor:
    """Common random numbers: one uniform per group inverts every member's cumulative law over the ids in ascending order.

    The order is the same for all, so that a token after a dominant one is lost where its probability is below 1e-16.
    """
    groups, members, _ = laws.shape
    pick = shared.uniforms[:, 0].to(laws.device).repeat_interleave(members)
    return chain.invert(laws.flatten(0, 1).cumsum(dim=1), pick).reshape(groups, members)


def gumbel(laws: torch.Tensor, shared: Shared) -> torch.Tensor:
    """Shared Gumbel noise ``g`` per token: each member takes the argmax of ``l / tau + g``.

    Computed as the race that it is: with ``g = -log E`` the argmax of ``log p + g`` is the argmin of ``E / p``.
    """
    race = shared.exponentials(laws.shape[2]).to(laws.device)
    return (race[:, None] / laws).min(dim=2).indices


KINDS: dict[str, Callable[[torch.Tensor, Shared], torch.Tensor]] = {
    "maximal": maximal,
    "common": common,
    "gumbel": gumbel,
}
