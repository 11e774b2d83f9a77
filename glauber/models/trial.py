"""Trial forwards: whether a network gives one law to one context, whatever else it is asked and was asked before."""

import contextlib
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from ..errors import ModelError

LONGEST = 1024  # free positions up to which the trial at the limit is made when a model is loaded: seconds at most
LENGTHS = (12, 1, 30, 62, 126, 254, 510)  # free positions at which a first forward is tried
Logits = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]


def pin(network: Any) -> dict[str, str]:
    """Set the options without which a network's output depends on chance, or on what it was asked before.

    BigBird falls back to dense attention after one short text and stays there: it is made dense at once. Reformer draws new
    hashes at each forward: it gets a seed.

    Returns
    -------
    dict
        Options by name, with the value that holds from now on; for the provenance of results.
    """
    pinned = {}
    if callable(getattr(network.base_model, "set_attention_type", None)):
        network.base_model.set_attention_type("original_full")
        pinned["attention_type"] = "original_full"
    for module in network.modules():
        if hasattr(module, "hash_seed"):
            module.hash_seed = 0 if module.hash_seed is None else module.hash_seed
            pinned["hash_seed"] = str(module.hash_seed)
    return pinned


def positions(network: PreTrainedModel, tokenizer: PreTrainedTokenizerBase) -> int:
    """Positions of a model, special tokens included. RoBERTa counts from ``padding_idx + 1``: its 514 rows hold 512."""
    limits = [int(tokenizer.model_max_length)]
    tables = [m for name, m in network.named_modules() if name.endswith("position_embeddings")]
    # I-BERT's table is no Embedding, and counts as RoBERTa's.
    rows = [(len(m.weight), m.padding_idx) for m in tables if isinstance(getattr(m, "weight", None), torch.Tensor)
            and hasattr(m, "padding_idx")]  # fmt: skip
    if rows:
        limits += [count - (0 if padding is None else padding + 1) for count, padding in rows]
    else:
        limits.append(int(getattr(network.config, "max_position_embeddings", limits[0])))
    return min(limits)


def trial_rows(vocabulary: NDArray[np.int64], n: int, device: torch.device) -> tuple[torch.Tensor, torch.Tensor]:
    """Two rows of ``n`` tokens from all over the vocabulary, its ends among them, masked at the first and last position."""
    spread = np.linspace(0, len(vocabulary) - 1, 2 * n).astype(int)
    ids = vocabulary[np.random.default_rng(0).permutation(spread)].reshape(2, n)
    return torch.from_numpy(ids).to(device), torch.tensor([0, n - 1], device=device)


def differ(first: torch.Tensor, second: torch.Tensor, precision: torch.dtype) -> float:
    """The largest difference of two sets of logits in nats if it is more than rounding, else 0."""
    gap = float((first - second).abs().max())
    rounding = min(100 * torch.finfo(precision).eps, 0.05)
    return gap if gap > rounding * max(1.0, float(first.abs().max())) else 0.0


def check(name: str, rows: tuple[torch.Tensor, torch.Tensor], logits: Logits, precision: torch.dtype) -> torch.Tensor:
    """Ask the same twice, a row of one token and one row by itself in between; the logits, if they agree.

    Raises
    ------
    ModelError
        If they do not, or the network fails at this length.
    """
    states, positions = rows
    n = states.shape[1]
    first = logits(states, positions)
    with contextlib.suppress(ModelError):  # not every network takes one token, and what it gives is not asked for
        logits(states[:, :1], torch.zeros_like(positions))
    for again, what in (
        (logits(states, positions), "equal rows"),
        (torch.cat([logits(states[k : k + 1], positions[k : k + 1]) for k in range(len(states))]), "one row by itself"),
    ):
        gap = differ(first, again, precision)
        if gap:
            raise ModelError(
                f"model {name!r} gives {what} of n = {n} tokens logits that differ by {gap:.2g} nats: its output depends on chance, "
                f"on other rows or on earlier calls, so that it is no set of conditionals; choose another model"
            )
    return first


def longest(limit: int, works: Callable[[int], bool]) -> int:
    """The largest ``n`` up to ``limit`` that works, by bisection; 0 if what works is no stretch of lengths from 1."""
    low, high = 0, limit + 1
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if works(middle) else (low, middle)
    return low if all(works(n) for n in {low - 1, low - 2, low // 2} if n > 0) else 0
