"""The textbook loop, as a baseline: what one writes first with transformers and torch.multinomial.

Each step masks one position, the same in all chains, takes the logits at every position, and draws the new tokens.
"""

import torch

from glauber import MaskedLM


def prepare(lm: MaskedLM, states: torch.Tensor) -> torch.Tensor:
    """Input ids with the special tokens around, shape (chains, length)."""
    rows = len(states)
    prefix, suffix = (torch.tensor(ids).expand(rows, -1) for ids in (lm.text.prefix, lm.text.suffix))
    return torch.cat([prefix, states, suffix], dim=1)


def step(lm: MaskedLM, ids: torch.Tensor, banned: torch.Tensor, temperature: float, generator: torch.Generator) -> None:
    """One step of every chain, in place."""
    first, n = len(lm.text.prefix), ids.shape[1] - len(lm.text.prefix) - len(lm.text.suffix)
    at = first + int(torch.randint(n, (1,), generator=generator))
    masked = ids.clone()
    masked[:, at] = lm.mask
    with torch.inference_mode():
        logits = lm.network(input_ids=masked).logits[:, at]
        logits[:, banned] = -torch.inf
        ids[:, at] = torch.multinomial((logits / temperature).softmax(dim=1), 1, generator=generator)[:, 0]


def step_one_by_one(
    lm: MaskedLM, ids: torch.Tensor, banned: torch.Tensor, temperature: float, generator: torch.Generator
) -> None:
    """The same, one chain at a time."""
    for row in ids:
        step(lm, row[None], banned, temperature, generator)


def peer_step(
    lm: MaskedLM, ids: torch.Tensor, banned: torch.Tensor, temperature: float, generator: torch.Generator
) -> None:
    """One step of every chain in the manner of public Gibbs samplers for BERT: log-probabilities at every position, then a draw."""
    first, n = len(lm.text.prefix), ids.shape[1] - len(lm.text.prefix) - len(lm.text.suffix)
    at = first + int(torch.randint(n, (1,), generator=generator))
    ids[:, at] = lm.mask
    with torch.inference_mode():
        law = (lm.network(input_ids=ids).logits / temperature).log_softmax(dim=2)[:, at].exp()
        law[:, banned] = 0.0
        ids[:, at] = torch.multinomial(law, 1, generator=generator)[:, 0]


def banned_ids(lm: MaskedLM) -> torch.Tensor:
    """Columns of the full head that may not be drawn."""
    width = lm.network.get_output_embeddings().weight.shape[0]
    return torch.tensor(sorted(set(range(width)) - set(lm.vocabulary.tolist())))
