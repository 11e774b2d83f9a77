"""Logits remembered by their context, so that two chains with one context, or one that stays where it is, ask once."""

from collections import OrderedDict

import numpy as np
import torch
from numpy.typing import NDArray

from .. import chain
from ..models import Conditionals


class Contexts:
    """The conditionals last used, whole rows of logits.

    A context is the site and the tokens at all others; the logits do not depend on the temperature. A coupling of two laws
    needs all of both, so the small records of the lazy engine do not serve here.

    Parameters
    ----------
    model : Conditionals
    capacity : int
        Rows held, at least as many as are looked up at a time.

    Attributes
    ----------
    rows : Tensor, shape ``(capacity, |V|)``
        Logits in nats; there once `find` has been called.
    """

    rows: torch.Tensor

    def __init__(self, model: Conditionals, capacity: int) -> None:
        self.model, self.capacity = model, capacity
        self._slots: OrderedDict[bytes, int] = OrderedDict()

    def find(self, states: NDArray[np.int64], sites: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        """Place in `rows` of each context, and whether a forward was made for it.

        Parameters
        ----------
        states : array of int64, shape (k, n)
        sites : array of int64, shape (k,)

        Returns
        -------
        array of int64, array of bool, shape (k,)
        """
        masked = states.copy()
        masked[np.arange(len(states)), sites] = -1
        keys = [row.tobytes() for row in masked]
        new: dict[bytes, int] = {}
        for r, key in enumerate(keys):
            if key in self._slots:
                self._slots.move_to_end(key)
            else:
                new.setdefault(key, r)
        asked = list(new.values())
        if asked:
            self._ask(list(new), states[asked], sites[asked])
        return np.array([self._slots[key] for key in keys]), np.isin(np.arange(len(keys)), asked)

    def _ask(self, keys: list[bytes], states: NDArray[np.int64], sites: NDArray[np.int64]) -> None:
        device = self.model.device
        logits, _ = chain.masked_logits(
            self.model, torch.from_numpy(states).to(device), torch.from_numpy(sites).to(device)
        )
        if not self._slots:
            self.rows = torch.empty((self.capacity, logits.shape[1]), dtype=logits.dtype, device=logits.device)
        for key in keys:  # the longest unused gives way; what this call looks up is at the other end
            full = len(self._slots) == self.capacity
            self._slots[key] = self._slots.popitem(last=False)[1] if full else len(self._slots)
        self.rows[torch.tensor([self._slots[key] for key in keys], device=logits.device)] = logits
