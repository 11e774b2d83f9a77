"""Small spaces cut out of a large one: a few free positions of a text, a few tokens at each.

The result is itself a set of conditionals, so the samplers run on it unchanged, while its chain has only ``k**n`` states
and is known exactly.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray

from ..errors import ParameterError
from ..models import RectangleSource

LIMIT = 4096  # states; a dense matrix of this size takes 128 MB


@dataclass(frozen=True)
class Restricted:
    """A model with all but a few positions clamped and a few tokens allowed at each.

    States hold local ids ``0 .. k-1``; local id ``v`` at free position ``i`` stands for the token ``tokens[i, v]``.

    Attributes
    ----------
    model : RectangleSource
        A masked or causal model.
    context : Tensor of int64, shape (length,)
        The text, with any token at the free positions.
    positions : Tensor of int64, shape (n,)
        Free positions.
    tokens : Tensor of int64, shape (n, k)
        Allowed tokens of each free position.
    """

    model: RectangleSource
    context: torch.Tensor
    positions: torch.Tensor
    tokens: torch.Tensor

    @property
    def vocabulary(self) -> NDArray[np.int64]:
        """Local ids, shape (k,)."""
        return np.arange(self.tokens.shape[1])

    @property
    def device(self) -> torch.device:
        """Where the model is."""
        return self.model.device

    def embed(self, states: torch.Tensor) -> torch.Tensor:
        """Full texts (rows, length) of local states (rows, n)."""
        full = self.context.repeat(len(states), 1)
        full[:, self.positions] = self.tokens[torch.arange(len(self.positions), device=self.device), states]
        return full

    def conditional_logits(self, states: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
        """Logits of the allowed tokens, shape (rows, k), for local states and free positions."""
        states, positions = states.to(self.device), positions.to(self.device)
        return self.model.candidate_logits(self.embed(states), self.positions[positions], self.tokens[positions])


def restrict(
    model: RectangleSource, context: ArrayLike, positions: Sequence[int], tokens: ArrayLike | None = None, k: int = 8
) -> Restricted:
    """Clamp all of a text but ``positions``.

    Parameters
    ----------
    model : RectangleSource
    context : array of int, shape (length,)
    positions : sequence of int
        Free positions, 2 or 3 as a rule.
    tokens : array of int, shape (positions, k), optional
        Allowed tokens; by default the model's ``k`` most likely ones at each position of the given text.
    k : int
        How many, where ``tokens`` is not given.

    Raises
    ------
    ParameterError
        If a position is outside the text or repeated, or the space would have more than 4,096 states.
    """
    text = torch.as_tensor(np.asarray(context), dtype=torch.long, device=model.device)
    free = torch.as_tensor(list(positions), dtype=torch.long, device=model.device)
    if len(set(positions)) < len(positions) or not all(0 <= p < len(text) for p in positions):
        raise ParameterError(f"positions {list(positions)} must be distinct and from 0 to {len(text) - 1}")
    if tokens is None:
        logits = model.proposal_logits(text.repeat(len(free), 1), free)
        allowed = torch.from_numpy(model.vocabulary).to(model.device)[logits.topk(k, dim=1).indices]
    else:
        allowed = torch.as_tensor(np.asarray(tokens), dtype=torch.long, device=model.device)
    if allowed.shape[1] ** len(free) > LIMIT:
        raise ParameterError(
            f"{allowed.shape[1]}^{len(free)} states are more than {LIMIT}: allow fewer tokens or positions"
        )
    return Restricted(model, text, free, allowed)
