"""Conditionals remembered by their context: whole at first, in small records once they come back.

A conditional depends on its context alone: the position and the tokens at all others. Most contexts never come back, so that at
first nothing is done but to hold on to the batch of logits for a while. A record keeps the `TOP` likeliest tokens and, of all others, the
summed weight in each gap between them; tokens stand by id, as in `glauber.chain.redraw`. A draw that lands on a kept token costs
no forward; one that lands in a gap has to ask the model.
"""

import hashlib
from collections import OrderedDict, deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np
import torch
from numpy.typing import NDArray

from .. import chain

TOP = 64
HELD = 2**25  # bytes of whole logits that are held: most contexts that come back do so soon
VISITS = 3  # from which on a context has a record: to make one takes about half a forward of a small network


@lru_cache(maxsize=2**20)
def zobrist(kind: str, position: int, value: float) -> int:
    """A fixed 128-bit word for a token at a position, or for a masked position at a temperature.

    A context's key is the exclusive-or of the words of its parts, so that a change of one token updates it in two
    operations. Two of a billion contexts share a key with probability below 1e-20.
    """
    return int.from_bytes(hashlib.blake2b(f"{kind} {position} {value!r}".encode(), digest_size=16).digest())


@dataclass
class Record:
    """One conditional.

    Attributes
    ----------
    columns : array of int64, shape (k,)
        The likeliest tokens, ascending.
    logits : array of float64, shape (k,)
        Theirs, in nats.
    weights : array of float64, shape (2k + 1,)
        Relative weights at this temperature: gap, token, gap, token, ..., gap.
    rare : dict
        Weight and logit of further tokens that were current when the model was asked.
    """

    columns: NDArray[np.int64]
    logits: NDArray[np.float64]
    weights: NDArray[np.float64]
    rare: dict[int, tuple[float, float]] = field(default_factory=dict)
    _given: dict[int, tuple[float, float, NDArray[np.float64]]] = field(default_factory=dict)

    def given(self, current: int) -> tuple[float, float, NDArray[np.float64]] | None:
        """Excluded mass, logit, and cumulative weights of the others, beside a current token; None if it is not known."""
        known = self._given.get(current)
        if known is None:
            place = int(np.searchsorted(self.columns, current))
            others = self.weights.copy()
            if place < len(self.columns) and self.columns[place] == current:
                kept, logit = float(others[2 * place + 1]), float(self.logits[place])
                others[2 * place + 1] = 0.0
            elif current in self.rare:
                kept, logit = self.rare[current]
                others[2 * place] = max(0.0, others[2 * place] - kept)
            else:
                return None
            rest = float(others.sum())
            known = self._given[current] = (
                chain.odds(rest, kept),  # in Python's floats: as a tensor of float32 a mass below 1e-45 would be 0
                logit,
                others.cumsum(),
            )
        return known

    def draw(self, current: int, stay: float, pick: float) -> tuple[int, float] | None:
        """New token and its logit gain over the current one; None if the model has to be asked."""
        known = self.given(current)
        if known is None:
            return None
        mass, logit, cumulative = known
        if stay >= mass:
            return current, 0.0
        total = cumulative[-1]
        place = min(int(np.searchsorted(cumulative, pick * total, "right")), int(np.searchsorted(cumulative, total)))
        if place % 2 == 0:
            return None
        return int(self.columns[place // 2]), float(self.logits[place // 2]) - logit


def records(logits: torch.Tensor, current: torch.Tensor, temperature: torch.Tensor) -> list[Record]:
    """Records of rows of logits, each with its row's current token."""
    weights = chain.relative_weights(logits.double(), temperature)
    top = logits.topk(min(TOP, logits.shape[1]), dim=1).indices.sort(dim=1).values
    kept = weights.gather(1, top)
    # Summed with the kept weights at 0, not as differences of the whole: in a trap the rest is far below rounding.
    beyond = weights.scatter(1, top, 0.0).cumsum(dim=1)
    edges = torch.cat([torch.zeros_like(beyond[:, :1]), beyond.gather(1, top), beyond[:, -1:]], dim=1)
    mixed = (
        torch.stack([edges.diff(dim=1), torch.nn.functional.pad(kept, (0, 1))], dim=2).flatten(1)[:, :-1].cpu().numpy()
    )
    columns, values = top.cpu().numpy(), logits.gather(1, top).double().cpu().numpy()
    own = weights.gather(1, current[:, None])[:, 0].tolist(), logits.gather(1, current[:, None])[:, 0].double().tolist()
    made = []
    for row, column in enumerate(current.tolist()):
        rare = {} if column in columns[row] else {column: (own[0][row], own[1][row])}
        made.append(Record(columns[row], values[row], mixed[row], rare))
    return made


class Memo:
    """The most recently used contexts, by key: a `Record`, or how often the context was asked for.

    Parameters
    ----------
    capacity : int
        Contexts kept; a record takes about 3 kB.
    """

    def __init__(self, capacity: int = 100_000) -> None:
        self.capacity = capacity
        self._known: OrderedDict[int, Record | int] = OrderedDict()
        self._whole: dict[int, torch.Tensor] = {}
        self._batches: deque[tuple[int, list[int]]] = deque()
        self._held = 0

    def get(self, key: int) -> Record | None:
        """The record of a context, if there is one."""
        known = self._known.get(key)
        if not isinstance(known, Record):
            return None
        self._known.move_to_end(key)
        return known

    def visits(self, key: int) -> int:
        """How often a context was asked for; `VISITS` if it has a record."""
        known = self._known.get(key, 0)
        return known if isinstance(known, int) else VISITS

    def whole(self, key: int) -> torch.Tensor | None:
        """Logits ``(|V|,)`` of a context that was asked for not long ago."""
        return self._whole.get(key)

    def hold(self, keys: list[int], logits: Sequence[torch.Tensor], size: int) -> None:
        """Count a visit of each context, hold on to its logits ``(|V|,)``, and let go of the oldest.

        ``size`` is the memory in bytes that they keep.
        """
        for key, row in zip(keys, logits, strict=True):
            self._whole[key] = row
            self._note(key, self.visits(key) + 1)
        self._batches.append((size, keys))
        self._held += size
        while self._held > HELD:
            size, keys = self._batches.popleft()
            self._held -= size
            for key in keys:
                self._whole.pop(key, None)

    def put(self, key: int, record: Record) -> None:
        """Remember a record, which takes the place of the whole logits."""
        old = self.get(key)
        if old is not None:
            record.rare |= old.rare
        self._whole.pop(key, None)
        self._note(key, record)

    def _note(self, key: int, known: Record | int) -> None:
        self._known[key] = known
        self._known.move_to_end(key)
        if len(self._known) > self.capacity:
            self._whole.pop(self._known.popitem(last=False)[0], None)
