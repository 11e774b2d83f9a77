"""A masked language model as a set of conditionals."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from ..devices import memory_budget
from ..errors import ModelError
from . import trial
from .masked_row import MaskedRow
from .text import Text, special_ends


class MaskedLM:
    """A masked language model: logits at one masked position per row.

    Parameters
    ----------
    network : transformers model with a masked-LM head
    tokenizer : transformers tokenizer with a mask token
    name : str
        How messages and tables call the model.
    budget : int, optional
        Bytes that one batch of forwards may take; by default what the device has free.

    Raises
    ------
    ModelError
        If the tokenizer has no mask token or is not the model's own, where its special tokens stand cannot be told, the vocabulary is
        empty, or a trial shows that the network fails or that its logits depend on more than the context.

    Attributes
    ----------
    usable_length : int
        Free positions that fit the model, special tokens taken off.
    pinned : dict
        Options that were set so that equal questions get equal answers (`glauber.models.trial.pin`).
    row : MaskedRow
        What a forward leaves out, ``LEVELS[row.level]`` of `glauber.models.masked_row`.
    """

    def __init__(
        self, network: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, name: str, budget: int | None = None
    ) -> None:
        if tokenizer.mask_token_id is None:
            raise ModelError(f"model {name!r} has no mask token, so it is no masked language model: choose one that is")
        self.network: Any = network.eval()
        self.name = name
        self.mask = int(tokenizer.mask_token_id)
        ends = special_ends(tokenizer)
        table: Any = getattr(network.get_input_embeddings(), "weight", None)
        if table is None:
            raise ModelError(f"model {name!r} has no table of input embeddings, a row for each id: choose another one")
        highest, rows = max(self.mask, *ends[0], *ends[1]), len(table)
        if highest >= rows:
            raise ModelError(
                f"model {name!r} embeds {rows} ids, but a special token of its tokenizer has id {highest}: "
                f"give it the tokenizer that it was trained with"
            )
        self.budget = budget or memory_budget(self.device)
        self.pinned = trial.pin(network)
        self._tried: set[int] = set()
        self._prefix, self._suffix = (torch.tensor(end, dtype=torch.long, device=self.device) for end in ends)
        self._limit = trial.positions(network, tokenizer) - len(ends[0]) - len(ends[1])
        width, shown = self._width()
        self.text = Text(tokenizer, min(rows, width), ends)
        self._columns = _columns(self.vocabulary, self.device)
        self.row = MaskedRow(network)
        self._try(shown)
        self.usable_length = self._usable_length()

    @property
    def vocabulary(self) -> NDArray[np.int64]:
        """Ids that may be emitted, ascending, shape ``(|V|,)``."""
        return self.text.vocabulary

    @property
    def device(self) -> torch.device:
        """Where the network is."""
        return torch.device(self.network.device)

    def check_length(self, n: int, called: str = "n") -> None:
        """Refuse a number of free positions that the model cannot run; ``called`` is what the message calls it.

        The first time that a length is asked for a trial is made (`glauber.models.trial.check`).

        Raises
        ------
        ModelError
            If ``n`` is over the usable length, the network fails on it, or its logits depend on more than the context.
        """
        if n > self.usable_length:
            raise ModelError(
                f"{called} = {n} tokens do not fit model {self.name!r}: "
                f"its usable length is {self.usable_length}, so give a smaller one"
            )
        self._try(n)

    def conditional_logits(self, states: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
        """Logits of the masked position given the rest of the row.

        Parameters
        ----------
        states : Tensor of int64, shape (rows, n)
            Token ids at the free positions.
        positions : Tensor of int64, shape (rows,)
            The free position that is masked in each row.

        Returns
        -------
        Tensor, shape ``(rows, |V|)``
            Logits in nats, float32 (float64 for a float64 network); columns follow ``vocabulary``.

        Raises
        ------
        ModelError
            If ``n`` is over the usable length, one row does not fit the memory, or a logit is not finite.
        """
        states, positions = states.to(self.device), positions.to(self.device)
        self.check_length(states.shape[1])
        parts, s = [], 0
        while s < len(states):
            size = self.rows_per_batch(states.shape[1])
            try:
                parts.append(self._forward(states[s : s + size], positions[s : s + size]))
            except torch.OutOfMemoryError:
                if size == 1:
                    raise ModelError(
                        f"one row of n = {states.shape[1]} tokens does not fit the memory of {self.device}: give a smaller n"
                    ) from None
                # The estimate was too high, or something else took memory: go on with half the rows.
                self.budget = self.budget * min(size, len(states) - s) // (2 * size)
                torch.cuda.empty_cache()
                continue
            s += size
        return parts[0] if len(parts) == 1 else torch.cat(parts)

    def candidate_logits(self, states: torch.Tensor, positions: torch.Tensor, candidates: torch.Tensor) -> torch.Tensor:
        """Logits of a few candidate ids, shape (rows, k), as float64. Memory holds one batch of full rows at a time."""
        columns = torch.from_numpy(np.searchsorted(self.vocabulary, candidates.cpu().numpy())).to(self.device)
        size = self.rows_per_batch(states.shape[1])
        parts = [
            self.conditional_logits(states[s : s + size], positions[s : s + size]).gather(1, columns[s : s + size])
            for s in range(0, len(states), size)
        ]
        return torch.cat(parts).double()

    def proposal_logits(self, states: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
        """The law to draw candidates from is the conditional itself."""
        return self.conditional_logits(states, positions)

    def rows_per_batch(self, n: int) -> int:
        """Rows of ``n`` free tokens that fit the memory budget."""
        config: Any = self.network.config
        length: int = n + len(self.text.prefix) + len(self.text.suffix)
        hidden, heads = config.hidden_size, getattr(config, "num_attention_heads", 1)  # FNet has none
        wide = getattr(config, "intermediate_size", None) or getattr(config, "hidden_dim", 4 * hidden)
        size = torch.finfo(self.network.dtype).bits // 8
        row = length * (8 * hidden + 2 * wide) * size + heads * length**2 * size + len(self.vocabulary) * (size + 16)
        return max(1, int(self.budget // row))

    def _forward(self, states: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
        return self._masked_row(states, positions, self.row.level)

    def _masked_row(self, states: torch.Tensor, positions: torch.Tensor, level: int) -> torch.Tensor:
        at = positions + len(self._prefix)
        rows = torch.arange(len(states), device=self.device)
        ids = torch.cat([self._prefix.expand(len(states), -1), states, self._suffix.expand(len(states), -1)], dim=1)
        ids[rows, at] = self.mask
        with self.row.only(at, level):
            logits = self._logits(ids)
        if logits.shape[1] > 1:  # a head that no hook reaches, or one that was left alone
            logits = logits[rows, at].unsqueeze(1)
        logits = logits[:, 0, self._columns]
        logits = logits if logits.dtype == torch.float64 else logits.float()
        # A sum is finite unless some term is not (or the sum itself overflows): the cheap test comes first.
        if not torch.isfinite(logits.sum()) and not torch.isfinite(logits).all():
            raise ModelError(f"model {self.name!r} gives logits that are not finite: try dtype float32 or float64")
        return logits

    def _logits(self, ids: torch.Tensor) -> torch.Tensor:
        """Logits of rows of ids; whatever fails inside the network becomes one sentence."""
        devices, seeded = [] if self.device.type == "cpu" else [self.device], "hash_seed" in self.pinned
        try:
            # A seeded network would set the seed of all of torch.
            with torch.inference_mode(), torch.random.fork_rng(devices, enabled=seeded):
                logits: torch.Tensor = self.network(input_ids=ids).logits
        except torch.OutOfMemoryError:
            raise
        except Exception as error:  # each network has its own way to fail on a length that it does not take
            reason = str(error).strip().split("\n")[0][:120]
            n = ids.shape[1] - len(self._prefix) - len(self._suffix)
            raise ModelError(
                f"model {self.name!r} fails on rows of n = {n} tokens ({type(error).__name__}: {reason}): give another n, "
                f"or another model"
            ) from error
        return logits

    def _width(self) -> tuple[int, int]:
        """Columns of the logits, taken from a real forward at the first length that the network runs, and that length."""
        # The longest first, as the trial does: a network that changes for good at a short row has not done so then.
        longest = [self._limit] if self.device.type == "cpu" and self._limit <= trial.LONGEST else []
        reason: ModelError | None = None
        for n in [*longest, *(min(n, self._limit) for n in trial.LENGTHS)]:
            ids = torch.cat([self._prefix, torch.full((n,), self.mask, device=self.device), self._suffix])[None]
            try:
                logits = self._logits(ids)
            except ModelError as error:
                if reason is None or n == trial.LENGTHS[0]:  # the longest may just be too long
                    reason = error
                continue
            if logits.shape[:2] != ids.shape:
                raise ModelError(
                    f"model {self.name!r} gives logits for {logits.shape[1]} positions where {ids.shape[1]} went in: choose another one"
                )
            return int(logits.shape[2]), n
        raise reason or ModelError(f"model {self.name!r} has no room for a token: choose another one")

    def _usable_length(self) -> int:
        """Free positions that fit: what the tables say, and on the CPU what a trial there shows to be true.

        On other devices one position too many could end the process, so there the trial at the length used must do.
        """
        if self.device.type != "cpu" or self._limit > trial.LONGEST:
            return self._limit

        def fits(n: int) -> bool:
            try:
                self._try(n)
            except ModelError as error:
                if error.__cause__ is None:  # no failure of the network, but of what it gives
                    raise
                return False
            return True

        return self._limit if fits(self._limit) else trial.longest(self._limit - 1, fits) or self._limit

    def _try(self, n: int) -> None:
        """Trial at one length, once, and against the network left alone: where that differs it is left alone from then on."""
        if n in self._tried:
            return
        rows = trial.trial_rows(self.vocabulary, n, self.device)
        with _without(self.network.base_model, "forward"):  # as it was before `torch.compile`, for a length seen once
            plain = trial.check(self.name, rows, partial(self._masked_row, level=0), self.network.dtype)
            while self.row.level and not self._agrees(plain, rows):
                self.row.level -= 1
        self._tried.add(n)

    def _agrees(self, plain: torch.Tensor, rows: tuple[torch.Tensor, torch.Tensor]) -> bool:
        try:
            return not trial.differ(plain, self._masked_row(*rows, self.row.level), self.network.dtype)
        except ModelError:
            return False


@contextmanager
def _without(module: torch.nn.Module, name: str) -> Iterator[None]:
    """Take an attribute that was set on an object away for a while, so that its class's is seen."""
    own = module.__dict__.pop(name, None)
    try:
        yield
    finally:
        if own is not None:
            setattr(module, name, own)


def _columns(vocabulary: NDArray[np.int64], device: torch.device) -> slice | torch.Tensor:
    """Columns of the head that are allowed: a slice, hence no copy, where the ids run without a gap."""
    first, last = int(vocabulary[0]), int(vocabulary[-1])
    if last - first + 1 == len(vocabulary):
        return slice(first, last + 1)
    return torch.from_numpy(vocabulary).to(device)
