"""What the sampler and the estimators ask of a model. Anything with these members will do: a network or a table."""

from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray


class Conditionals(Protocol):
    """One conditional law per position, given the rest of the sequence.

    A state is a row of ``n`` token ids, each from ``vocabulary``. Columns of logits follow ``vocabulary``.
    """

    @property
    def vocabulary(self) -> NDArray[np.int64]:
        """Ids that may be emitted, ascending, shape ``(|V|,)``."""

    @property
    def device(self) -> torch.device:
        """Where the logits are computed."""

    def conditional_logits(self, states: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
        """Logits ``l_i(v; x_-i)`` in nats, shape ``(rows, |V|)``, for states (rows, n) and positions (rows,)."""


class RectangleSource(Protocol):
    """What the rectangle test asks of a model: logits of a few candidates, and a law to draw candidates from."""

    @property
    def vocabulary(self) -> NDArray[np.int64]:
        """Ids that may be emitted, ascending, shape ``(|V|,)``."""

    @property
    def device(self) -> torch.device:
        """Where the logits are computed."""

    def candidate_logits(self, states: torch.Tensor, positions: torch.Tensor, candidates: torch.Tensor) -> torch.Tensor:
        """``l_i(v; x_-i)`` in nats up to a constant per row, for v in candidates (rows, k): shape (rows, k)."""

    def proposal_logits(self, states: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
        """Logits ``(rows, |V|)`` of a law from which plausible tokens for that position can be drawn."""
