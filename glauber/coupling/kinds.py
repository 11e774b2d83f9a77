"""The couplings: how the members of a group draw their tokens at the common site from common randomness.

Each function takes the conditional laws, shape ``(groups, members, |V|)`` and float64, and returns the columns of the new tokens,
shape (groups, members). Members whose laws are the same to the last bit draw the same token.
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

    def exponentials(self, count: int) -> torch.Tensor:
        """Standard exponentials ``E``, shape (groups, count); ``-log E`` is standard Gumbel noise.

        They come from the group's own Philox key at counters that `glauber.randomness.words` never reaches: its highest
        word is 1 here and 0 there. They depend on (seed, group, step) and the column alone.
        """
        counter = np.array([0, self.step, 0, 1], dtype=np.uint64)
        raw = np.empty((len(self.groups), count), dtype=np.uint64)
        for row, group in zip(raw, self.groups, strict=True):
            key = np.array([self.seed, group], dtype=np.uint64)
            row[:] = np.random.Philox(key=key, counter=counter).random_raw(count)
        noise = -np.log1p(-np.maximum(uniform(raw), SMALLEST))
        return torch.from_numpy(noise)


@dataclass(frozen=True)
class Split:
    """Two laws as what they have in common and what each has beyond it.

    Attributes
    ----------
    overlap, first, second : Tensor of float64, shape ``(groups, |V|)``
        ``min(p, q)``, ``p - min(p, q)`` and ``q - min(p, q)``.
    mode : Tensor of int64, shape (groups,)
        Column of the largest overlap.
    distance : Tensor of float64, shape (groups,)
        Total variation, the mass of either residual.
    """

    overlap: torch.Tensor
    first: torch.Tensor
    second: torch.Tensor
    mode: torch.Tensor
    distance: torch.Tensor


def split(p: torch.Tensor, q: torch.Tensor) -> Split:
    """Overlap and residuals of laws ``(groups, |V|)``.

    In a trap both laws have all but a tiny mass on one token, and their difference there is rounding noise. It is not
    used: both laws sum to 1, so that the difference at the mode is what the others leave.
    """
    overlap = torch.minimum(p, q)
    mode = overlap.argmax(dim=1)
    gap = (p - q).scatter_(1, mode[:, None], 0.0)
    first, second = gap.clamp(min=0), gap.neg_().clamp_(min=0)
    more, less = first.sum(dim=1), second.sum(dim=1)
    first.scatter_(1, mode[:, None], (less - more).clamp(min=0)[:, None])
    second.scatter_(1, mode[:, None], (more - less).clamp(min=0)[:, None])
    return Split(overlap, first, second, mode, torch.maximum(more, less))


def maximal(laws: torch.Tensor, shared: Shared) -> torch.Tensor:
    """Maximal coupling of two members: the tokens differ with probability ``TV(p, q)``, the least that any coupling allows.

    With probability ``1 - TV`` both get one draw from the overlap, else each gets an independent draw from its residual.
    """
    parts = split(laws[:, 0], laws[:, 1])
    meet, pick, other = shared.uniforms.to(laws.device).unbind(dim=1)
    apart = torch.nonzero(meet < parts.distance)[:, 0]
    columns = _from_overlap(parts.overlap, parts.mode, pick)[:, None].repeat(1, 2)
    if len(apart):
        columns[apart, 0] = chain.invert(parts.first[apart].cumsum(dim=1), pick[apart])
        columns[apart, 1] = chain.invert(parts.second[apart].cumsum(dim=1), other[apart])
    return columns


def _from_overlap(overlap: torch.Tensor, mode: torch.Tensor, pick: torch.Tensor) -> torch.Tensor:
    """Inverse of the cumulative overlap with the mode put last: uniforms near 0 are fine, so rare tokens keep their rate."""
    cumulative = overlap.scatter(1, mode[:, None], 0.0).cumsum(dim=1)
    others = cumulative[:, -1]
    target = pick * (others + overlap.gather(1, mode[:, None])[:, 0])
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
    return (race[:, None] / laws).argmin(dim=2)


KINDS: dict[str, Callable[[torch.Tensor, Shared], torch.Tensor]] = {
    "maximal": maximal,
    "common": common,
    "gumbel": gumbel,
}
