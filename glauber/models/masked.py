"""A masked language model as a set of conditionals."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from ..devices import memory_budget
from ..errors import ModelError
from .text import Text


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
        If the tokenizer has no mask token or is not the model's own, the model has no output embedding, or the
        vocabulary is empty.
    """

    def __init__(
        self, network: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, name: str, budget: int | None = None
    ) -> None:
        if tokenizer.mask_token_id is None:
            raise ModelError(f"model {name!r} has no mask token, so it is no masked language model: choose one that is")
        decoder = network.get_output_embeddings()
        if decoder is None:
            raise ModelError(f"model {name!r} exposes no output embedding to read logits from: choose another model")
        self.network: Any = network.eval()
        self.name = name
        self.mask = int(tokenizer.mask_token_id)
        self.text = Text(tokenizer, int(decoder.weight.shape[0]))
        table: Any = network.get_input_embeddings().weight
        highest, rows = max(self.mask, *self.text.prefix, *self.text.suffix), len(table)
        if highest >= rows:
            raise ModelError(
                f"model {name!r} embeds {rows} ids, but a special token of its tokenizer has id {highest}: "
                f"give it the tokenizer that it was trained with"
            )
        self.budget = budget or memory_budget(self.device)
        self._masked: torch.Tensor | None = None
        decoder.register_forward_pre_hook(self._before_decoder)
        if network.base_model is not network:
            network.base_model.register_forward_hook(self._after_encoder)
        self._prefix = torch.tensor(self.text.prefix, dtype=torch.long, device=self.device)
        self._suffix = torch.tensor(self.text.suffix, dtype=torch.long, device=self.device)
        self._columns = _columns(self.vocabulary, self.device)

    @property
    def vocabulary(self) -> NDArray[np.int64]:
        """Ids that may be emitted, ascending, shape ``(|V|,)``."""
        return self.text.vocabulary

    @property
    def device(self) -> torch.device:
        """Where the network is."""
        return torch.device(self.network.device)

    @cached_property
    def usable_length(self) -> int:
        """Free positions that fit the model, special tokens taken off."""
        return _positions(self.network, self.text.tokenizer) - len(self.text.prefix) - len(self.text.suffix)

    def check_length(self, n: int, called: str = "n") -> None:
        """Refuse more free positions than fit; ``called`` is what the message calls them.

        Raises
        ------
        ModelError
            If ``n`` is over the usable length.
        """
        if n > self.usable_length:
            raise ModelError(
                f"{called} = {n} tokens do not fit model {self.name!r}: "
                f"its usable length is {self.usable_length}, so give a smaller one"
            )

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
        rows = len(states)
        ids = torch.cat([self._prefix.expand(rows, -1), states, self._suffix.expand(rows, -1)], dim=1)
        at = positions + len(self._prefix)
        ids[torch.arange(rows, device=self.device), at] = self.mask
        with torch.inference_mode(), self._only_row(at):
            logits: torch.Tensor = self.network(input_ids=ids).logits
        if logits.shape[1] > 1:  # MobileBERT's head multiplies by the weights itself: the hook never ran
            logits = logits[torch.arange(rows, device=self.device), at].unsqueeze(1)
        logits = logits[:, 0, self._columns]
        logits = logits if logits.dtype == torch.float64 else logits.float()
        # A sum is finite unless some term is not (or the sum itself overflows): the cheap test comes first.
        if not torch.isfinite(logits.sum()) and not torch.isfinite(logits).all():
            raise ModelError(f"model {self.name!r} gives logits that are not finite: try dtype float32 or float64")
        return logits

    @contextmanager
    def _only_row(self, at: torch.Tensor) -> Iterator[None]:
        self._masked = at
        try:
            yield
        finally:
            self._masked = None

    def _after_encoder(self, module: torch.nn.Module, args: Any, output: Any) -> Any:
        """Hook of the encoder: the head's dense layer, too, sees the masked row alone."""
        if self._masked is not None and "last_hidden_state" in output:
            output["last_hidden_state"] = self._row(output["last_hidden_state"])
        return output

    def _before_decoder(self, module: torch.nn.Module, args: tuple[torch.Tensor, ...]) -> tuple[torch.Tensor] | None:
        """Pre-hook of the output embedding: the vocabulary projection is taken at the masked row, whatever the head."""
        if self._masked is None or args[0].shape[1] == 1:
            return None
        return (self._row(args[0]),)

    def _row(self, hidden: torch.Tensor) -> torch.Tensor:
        return hidden[torch.arange(len(hidden), device=hidden.device), self._masked].unsqueeze(1)


def _columns(vocabulary: NDArray[np.int64], device: torch.device) -> slice | torch.Tensor:
    """Columns of the head that are allowed: a slice, hence no copy, where the ids run without a gap."""
    first, last = int(vocabulary[0]), int(vocabulary[-1])
    if last - first + 1 == len(vocabulary):
        return slice(first, last + 1)
    return torch.from_numpy(vocabulary).to(device)


def _positions(network: PreTrainedModel, tokenizer: PreTrainedTokenizerBase) -> int:
    """Positions of a model, special tokens included. RoBERTa counts from ``padding_idx + 1``: its 514 rows hold 512."""
    limits = [int(tokenizer.model_max_length)]
    tables = [m for name, m in network.named_modules() if name.endswith("position_embeddings")]
    embeddings = [m for m in tables if isinstance(m, torch.nn.Embedding)]
    if embeddings:
        limits += [m.num_embeddings - (0 if m.padding_idx is None else m.padding_idx + 1) for m in embeddings]
    else:
        limits.append(int(getattr(network.config, "max_position_embeddings", limits[0])))
    return min(limits)
