"""The kernel of Glauber dynamics: mask one random position of every chain and redraw it from the model.

One *step* is one site update of every chain; ``n`` steps are a *sweep*. The kernel holds no randomness: it is handed in,
one `Draws` per step, so that every chain has its own sites and uniforms (see `glauber.randomness`).
"""

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import ArrayLike

from .errors import ParameterError
from .models import Conditionals
from .randomness import Draws

TOP = 64  # tokens that are drawn by rank before the rest are drawn by id


@dataclass(frozen=True)
class State:
    """Tokens of every chain at one step.

    Attributes
    ----------
    tokens : Tensor of int64, shape (chains, n)
        Ids at the free positions.
    step : int
        Steps taken so far.
    """

    tokens: torch.Tensor
    step: int


@dataclass(frozen=True)
class Info:
    """What happened in one step of every chain.

    Attributes
    ----------
    site : Tensor of int64, shape (chains,)
        The redrawn position.
    changed : Tensor of bool, shape (chains,)
        Whether its token changed.
    log_ratio : Tensor of float64, shape (chains,)
        ``log p(new | rest) - log p(old | rest)`` in nats; 0 where nothing changed. Its mean along a stationary chain is
        the entropy production per step.
    """

    site: torch.Tensor
    changed: torch.Tensor
    log_ratio: torch.Tensor


def init(model: Conditionals, states: ArrayLike | torch.Tensor) -> State:
    """Check starting states and put them where the model is.

    Parameters
    ----------
    model : Conditionals
    states : array of int, shape (chains, n)
        Token ids at the free positions, all from ``model.vocabulary``.

    Raises
    ------
    ParameterError
        If the shape is wrong or an id is not in the vocabulary.
    """
    tokens = torch.as_tensor(np.asarray(states) if not isinstance(states, torch.Tensor) else states)
    if tokens.ndim != 2 or 0 in tokens.shape:
        raise ParameterError(f"states have shape {tuple(tokens.shape)}: give one row of n tokens per chain")
    outside = np.setdiff1d(tokens.cpu().numpy(), model.vocabulary)
    if len(outside):
        raise ParameterError(
            f"token id {int(outside[0])} is special or outside the vocabulary: give ids the chain may emit"
        )
    return State(tokens.to(device=model.device, dtype=torch.long), 0)


def step(model: Conditionals, state: State, temperature: torch.Tensor, draws: Draws) -> tuple[State, Info]:
    """Redraw one position of every chain.

    Parameters
    ----------
    model : Conditionals
    state : State
    temperature : Tensor of float64, shape (chains,)
        Temperature of each chain; the logits are divided by it.
    draws : Draws
        Sites and uniforms of this step.
    """
    rows = torch.arange(len(state.tokens), device=state.tokens.device)
    site = torch.from_numpy(draws.site).to(state.tokens.device)
    logits = model.conditional_logits(state.tokens, site)
    vocabulary = torch.from_numpy(model.vocabulary)
    # float64 lives on the CPU where the device (MPS) lacks it.
    work = torch.device("cpu") if logits.device.type == "mps" else logits.device
    logits, vocabulary = logits.to(work), vocabulary.to(work)
    before = torch.searchsorted(vocabulary, state.tokens[rows, site].to(work))
    after = redraw(logits, before, temperature.to(work), draws)
    changed = after != before
    gain = logits.gather(1, after[:, None]).double() - logits.gather(1, before[:, None]).double()
    tokens = state.tokens.clone()
    tokens[rows, site] = vocabulary[after].to(tokens.device)
    return State(tokens, state.step + 1), Info(site, changed, gain[:, 0] / temperature.to(work))


def redraw(logits: torch.Tensor, current: torch.Tensor, temperature: torch.Tensor, draws: Draws) -> torch.Tensor:
    """Columns of the new tokens, shape (rows,).

    The token stays if ``stay >= m``, where ``m`` is the probability of all other tokens; else ``pick`` chooses among the
    others, in an order that is part of the definition of a trajectory: the `TOP` likeliest by rank, then the rest by id.
    """
    excluded = excluded_mass(logits, current, temperature)
    stay = torch.from_numpy(draws.stay).to(logits.device)
    moving = torch.nonzero(stay < excluded)[:, 0]
    after = current.clone()
    if len(moving):
        pick = torch.from_numpy(draws.pick).to(logits.device)[moving]
        after[moving] = choose(logits[moving], current[moving], temperature[moving], pick)
    return after


def excluded_mass(logits: torch.Tensor, current: torch.Tensor, temperature: torch.Tensor) -> torch.Tensor:
    """``P(v != current)`` in float64, shape (rows,).

    It is summed over the other tokens and never computed as ``1 - p``, which is 0 or noise in a trap.
    """
    weights = _weights(logits, temperature)
    kept = weights.gather(1, current[:, None])[:, 0]
    rest = weights.scatter(1, current[:, None], 0.0).sum(dim=1)
    return rest / (rest + kept)


def choose(logits: torch.Tensor, current: torch.Tensor, temperature: torch.Tensor, pick: torch.Tensor) -> torch.Tensor:
    """Columns other than ``current``, drawn by inverting the cumulative law of the others in draw order, shape (rows,)."""
    top = logits.topk(min(TOP, logits.shape[1]), dim=1).indices
    # Scaled to the best of the others, so that they never underflow together.
    weights = _weights(logits.double().scatter(1, current[:, None], -torch.inf), temperature)
    head = weights.gather(1, top).cumsum(dim=1)
    tail = weights.scatter(1, top, 0.0).cumsum(dim=1)
    target = pick * (head[:, -1] + tail[:, -1])
    ranked = top.gather(1, invert(head, target)[:, None])[:, 0]
    rest = invert(tail, target - head[:, -1])
    return torch.where((target < head[:, -1]) | (tail[:, -1] == 0), ranked, rest)


def invert(cumulative: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    """Index of the first entry whose cumulative sum exceeds the target, shape (rows,): an entry of weight 0 is never it."""
    place = torch.searchsorted(cumulative, target[:, None], right=True)
    last = torch.searchsorted(cumulative, cumulative[:, -1:].contiguous())
    return torch.minimum(place, last)[:, 0]


def _weights(logits: torch.Tensor, temperature: torch.Tensor) -> torch.Tensor:
    shifted = logits.double()
    shifted = shifted - shifted.amax(dim=1, keepdim=True)
    return (shifted / temperature[:, None]).exp_()
