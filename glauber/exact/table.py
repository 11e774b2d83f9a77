"""Conditionals given as a table: any small chain, without a network."""

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray

from ..errors import ParameterError
from ..models import Conditionals
from .markov import conditional_tables


class Table:
    """A set of conditionals on ``k**n`` states, looked up.

    Parameters
    ----------
    tables : array of float, shape (n, k**n, k)
        ``l_i(v; x_-i)`` in nats, in the order of `glauber.exact.enumerate_states`; it must not depend on ``x_i``.

    Raises
    ------
    ParameterError
        If the shape does not fit, or a conditional depends on the token that it redraws.
    """

    def __init__(self, tables: ArrayLike) -> None:
        self.tables = np.asarray(tables, dtype=np.float64)
        n, count, k = self.tables.shape
        if k**n != count:
            raise ParameterError(f"tables of shape {self.tables.shape} do not hold n, k**n and k: reshape them")
        for i, table in enumerate(self.tables):
            by_site = np.moveaxis(table.reshape(*(k,) * n, k), i, 0)
            if not np.array_equal(by_site, np.broadcast_to(by_site[:1], by_site.shape)):
                raise ParameterError(f"the conditional of position {i} depends on the token there: give l_i(v; x_-i)")
        self._logits = torch.from_numpy(self.tables)
        self._strides = torch.tensor([k ** (n - 1 - i) for i in range(n)])

    @property
    def vocabulary(self) -> NDArray[np.int64]:
        """Local ids ``0 .. k-1``."""
        return np.arange(self.tables.shape[2])

    @property
    def device(self) -> torch.device:
        """The CPU."""
        return torch.device("cpu")

    def conditional_logits(self, states: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
        """Logits (rows, k) for states (rows, n) and positions (rows,)."""
        return self._logits[positions, (states * self._strides).sum(dim=1)]

    def candidate_logits(self, states: torch.Tensor, positions: torch.Tensor, candidates: torch.Tensor) -> torch.Tensor:
        """Logits of a few local ids, shape (rows, candidates)."""
        return self.conditional_logits(states, positions).gather(1, candidates)

    def proposal_logits(self, states: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
        """The conditional itself."""
        return self.conditional_logits(states, positions)


def tabulate(model: Conditionals, n: int) -> Table:
    """A small model as a table: the same conditionals, without its forwards."""
    tables = conditional_tables(model, n)
    k = tables.shape[2]
    for i in range(n):
        # Rows that differ at i alone come from one masked input; batches can differ in the last digit.
        by_site = np.moveaxis(tables[i].reshape(*(k,) * n, k), i, 0)
        by_site[:] = by_site[:1].copy()
    return Table(tables)


def from_joint(log_joint: ArrayLike) -> Table:
    """The conditionals of one joint law, given as log-probabilities of shape ``(k,) * n`` up to a constant."""
    joint = np.asarray(log_joint, dtype=np.float64)
    n, k = joint.ndim, joint.shape[0]
    tables = [np.repeat(np.moveaxis(joint, i, -1)[..., None, :], k, axis=-2) for i in range(n)]
    # (rest..., x_i, v) -> states in order: x_i goes back to its own axis.
    return Table(np.stack([np.moveaxis(t, n - 1, i).reshape(k**n, k) for i, t in enumerate(tables)]))
