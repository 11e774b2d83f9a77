"""Causal language models: the control whose conditionals come from one joint law."""

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn.functional import cross_entropy
from transformers import GPT2Config, GPT2LMHeadModel, PreTrainedModel, PreTrainedTokenizerBase

from ..devices import memory_budget
from ..errors import ModelError
from .text import Text


class CausalLM:
    """A causal language model: exact log-probability of whole sequences.

    Parameters
    ----------
    network : transformers model with a causal-LM head
    tokenizer : transformers tokenizer
    name : str
    budget : int, optional
        Bytes that one batch of forwards may take.

    Raises
    ------
    ModelError
        If the tokenizer has no token to start a sequence with, or the network looks at tokens that follow.
    """

    def __init__(
        self, network: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, name: str, budget: int | None = None
    ) -> None:
        starts = (tokenizer.bos_token_id, tokenizer.cls_token_id, tokenizer.eos_token_id)
        start = next((i for i in starts if i is not None), None)
        if start is None:
            raise ModelError(f"model {name!r} has no token to start a sequence with: choose another control")
        self.network: Any = network.eval()
        self.name, self.start = name, int(start)
        first = torch.tensor([[self.start]], device=network.device)
        with torch.inference_mode():  # the width of a real forward: a head can hide its layers
            self.text = Text(tokenizer, int(self.network(input_ids=first).logits.shape[2]))
        self.budget = budget or memory_budget(self.device)
        if self._looks_ahead():
            raise ModelError(f"model {name!r} looks at tokens that follow, so it has no joint law: choose a causal one")

    @property
    def vocabulary(self) -> NDArray[np.int64]:
        """Ids that may stand in a sequence, ascending, shape ``(|V|,)``."""
        return self.text.vocabulary

    @property
    def device(self) -> torch.device:
        """Where the network is."""
        return torch.device(self.network.device)

    def check_length(self, n: int) -> None:
        """Refuse longer sequences than fit.

        Raises
        ------
        ModelError
            If ``n`` is over the model's number of positions.
        """
        limit = getattr(self.network.config, "max_position_embeddings", None) or n
        if n > limit:
            raise ModelError(f"n = {n} tokens do not fit model {self.name!r}: give n of at most {limit}")

    def log_prob(self, states: torch.Tensor) -> torch.Tensor:
        """Log-probability of whole sequences.

        Parameters
        ----------
        states : Tensor of int64, shape (rows, n)

        Returns
        -------
        Tensor of float64, shape (rows,)
            ``sum_t log p(x_t | start, x_1 .. x_{t-1})`` in nats.
        """
        states = states.to(self.device)
        parts = []
        for rows in torch.split(states, self._rows_per_batch(states.shape[1])):
            logits = self._next_token_logits(rows)
            loss = cross_entropy(logits.flatten(0, 1), rows.flatten(), reduction="none")
            parts.append(-loss.reshape(rows.shape).double().sum(dim=1))
        return torch.cat(parts)

    def candidate_logits(self, states: torch.Tensor, positions: torch.Tensor, candidates: torch.Tensor) -> torch.Tensor:
        """``log p(x with v at i)``: the conditional of the joint law up to a constant per row, shape (rows, k)."""
        rows, k = candidates.shape
        filled = states.to(self.device).repeat_interleave(k, dim=0)
        filled[torch.arange(rows * k, device=self.device), positions.to(self.device).repeat_interleave(k)] = (
            candidates.to(self.device).reshape(-1)
        )
        return self.log_prob(filled).reshape(rows, k)

    def proposal_logits(self, states: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
        """The next-token law given what stands before the position: plausible tokens, at one forward a row."""
        logits = self._next_token_logits(states.to(self.device))
        rows = torch.arange(len(states), device=self.device)
        allowed = torch.from_numpy(self.vocabulary).to(self.device)
        return logits[rows, positions.to(self.device)][:, allowed].float()

    def _looks_ahead(self) -> bool:
        # transformers loads BERT and its kin as causal models too, with attention in both directions.
        first, last = int(self.vocabulary[0]), int(self.vocabulary[-1])
        logits = self._next_token_logits(torch.tensor([[first, first, 0], [first, last, 0]], device=self.device))[:, :2]
        return bool((logits[0] - logits[1]).abs().max() > 1e-3 * logits.abs().max())

    def _next_token_logits(self, states: torch.Tensor) -> torch.Tensor:
        self.check_length(states.shape[1])
        first = torch.full((len(states), 1), self.start, dtype=torch.long, device=self.device)
        with torch.inference_mode():
            logits = self.network(input_ids=torch.cat([first, states[:, :-1]], dim=1)).logits
        if not torch.isfinite(logits).all():
            raise ModelError(f"model {self.name!r} gives logits that are not finite: try dtype float32 or float64")
        return torch.as_tensor(logits)

    def _rows_per_batch(self, n: int) -> int:
        # Logits at every position dominate: once as they are, twice in their log-sum-exp.
        return max(1, self.budget // (n * int(self.network.config.vocab_size) * 12))


def random_causal(
    tokenizer: PreTrainedTokenizerBase,
    seed: int = 0,
    dtype: torch.dtype = torch.float32,
    device: str | torch.device = "cpu",
) -> CausalLM:
    """An untrained GPT-2-shaped model over a tokenizer: its conditionals come from one joint law whatever its weights.

    Weights are drawn with a standard deviation of 0.2, ten times GPT-2's, so that its conditionals are far from flat
    and a test of compatibility has something to see.
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        config = GPT2Config(
            vocab_size=len(tokenizer), n_positions=512, n_embd=64, n_layer=2, n_head=2, initializer_range=0.2,
            resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0, bos_token_id=None, eos_token_id=None,
        )  # fmt: skip
        network: Any = GPT2LMHeadModel(config)
    return CausalLM(network.to(device=torch.device(device), dtype=dtype), tokenizer, "untrained causal")
