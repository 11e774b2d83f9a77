"""The kernel of Glauber dynamics: mask one random position of every chain and redraw it from the model.

One *step* is one site update of every chain; ``n`` steps are a *sweep*. The kernel holds no randomness: it is handed in,
one `Draws` per step, so that every chain has its own sites and uniforms (see `glauber.randomness`).
"""

from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import torch
from numpy.typing import ArrayLike

from .checks import reals
from .errors import ParameterError
from .models import Conditionals
from .randomness import Draws

Weight = TypeVar("Weight", float, torch.Tensor)
ROUNDING = 1e-4  # more than float32 weights can be off by, relative
BLOCK = 128  # columns summed at a time: a draw looks at one block of them
SMALLEST = -87.0  # its exponential is the least that float32 holds at full precision
UNDERFLOW = 1e-25  # below it, sums of float32 weights are not trusted at all


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
        If the shape is wrong, or an id is no whole number or not in the vocabulary.
    """
    given = reals("states", states)
    if given.ndim != 2 or 0 in given.shape:
        raise ParameterError(f"states have shape {given.shape}: give one row of n tokens per chain")
    outside = np.setdiff1d(given, model.vocabulary)
    if len(outside):
        whole = float(outside[0]).is_integer()
        fault = "special or outside the vocabulary" if whole else "no whole number"
        token = int(outside[0]) if whole else float(outside[0])
        raise ParameterError(f"token id {token} is {fault}: give ids the chain may emit")
    # A copy: the caller's array stays the caller's.
    return State(torch.from_numpy(given.astype(np.int64)).to(model.device), 0)


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
    logits, before = masked_logits(model, state.tokens, site)
    work = logits.device
    after = redraw(logits, before, temperature.to(work), draws)
    changed = after != before
    gain = logits.gather(1, after[:, None]).double() - logits.gather(1, before[:, None]).double()
    tokens = state.tokens.clone()
    tokens[rows, site] = torch.from_numpy(model.vocabulary).to(work)[after].to(tokens.device)
    return State(tokens, state.step + 1), Info(site, changed, gain[:, 0] / temperature.to(work))


def masked_logits(model: Conditionals, states: torch.Tensor, sites: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Logits of one masked position per row, and the column of the token that stands there."""
    logits = logits_at(model, states, sites)
    own = states[torch.arange(len(states), device=states.device), sites].to(logits.device)
    return logits, torch.searchsorted(torch.from_numpy(model.vocabulary).to(logits.device), own)


def logits_at(model: Conditionals, states: torch.Tensor, sites: torch.Tensor) -> torch.Tensor:
    """Logits of one masked position per row, where draws are made of them."""
    logits = model.conditional_logits(states, sites)
    # float64 lives on the CPU where the device (MPS) lacks it.
    return logits.cpu() if logits.device.type == "mps" else logits


def redraw(logits: torch.Tensor, current: torch.Tensor, temperature: torch.Tensor, draws: Draws) -> torch.Tensor:
    """Columns of the new tokens, shape (rows,).

    The token stays if ``stay >= m``, where ``m`` is the probability of all other tokens; else ``pick`` inverts the
    cumulative law of the others, taken by id. The order is part of the definition of a trajectory.

    The weights are computed in the precision of the logits, and those of a block of ids are summed in it. Where that could decide
    otherwise than `excluded_mass`, that is asked.
    """
    stay = torch.from_numpy(draws.stay).to(logits.device)
    weights = relative_weights(logits, temperature)
    kept = weights.gather(1, current[:, None])[:, 0].double()
    weights.scatter_(1, current[:, None], 0.0)
    sums = block_sums(weights)
    rest = sums.sum(dim=1)
    mass = odds(rest, kept)
    if logits.dtype != torch.float64:
        close = torch.nonzero((stay - mass).abs() <= ROUNDING * mass + UNDERFLOW)[:, 0]
        if len(close):
            mass[close] = excluded_mass(logits[close], current[close], temperature[close])
    moving = torch.nonzero(stay < mass)[:, 0]
    after = current.clone()
    if len(moving):
        pick = torch.from_numpy(draws.pick).to(logits.device)[moving]
        lost = moving[rest[moving] <= UNDERFLOW]
        if len(lost):  # the others underflowed beside the current token: scale them to the best of themselves
            without = logits[lost].double().scatter(1, current[lost][:, None], -torch.inf)
            weights[lost] = relative_weights(without, temperature[lost]).to(weights.dtype)
            sums[lost] = block_sums(weights[lost])
        after[moving] = _invert_blocks(weights, moving, sums[moving], pick)
    return after


def block_sums(weights: torch.Tensor) -> torch.Tensor:
    """Weights (rows, k) summed over every `BLOCK` columns, shape (rows, ceil(k / BLOCK)), as float64."""
    whole = weights.shape[1] // BLOCK * BLOCK
    parts = [weights[:, :whole].unflatten(1, (-1, BLOCK)).sum(dim=2)] if whole else []
    if whole < weights.shape[1]:
        parts.append(weights[:, whole:].sum(dim=1, keepdim=True))
    return torch.cat(parts, dim=1).double()


def _invert_blocks(weights: torch.Tensor, rows: torch.Tensor, sums: torch.Tensor, pick: torch.Tensor) -> torch.Tensor:
    """Columns drawn as by `invert`, for some ``rows`` of weights: first the block by its sum, then the column within it."""
    cumulative = sums.cumsum(dim=1)
    chosen = invert(cumulative, pick)[:, None]
    mass = sums.gather(1, chosen)
    left = pick[:, None] * cumulative[:, -1:] - (cumulative.gather(1, chosen) - mass)
    columns = chosen * BLOCK + torch.arange(min(BLOCK, weights.shape[1]), device=weights.device)
    inside = columns < weights.shape[1]  # the last block may be short
    part = weights[rows[:, None], columns.clamp(max=weights.shape[1] - 1)].double() * inside
    within = invert(part.cumsum(dim=1), (left / mass)[:, 0].clamp(0.0, 1.0))
    return chosen[:, 0] * BLOCK + within


def odds(rest: Weight, kept: Weight) -> Weight:
    """Probability of the others from their summed weight and the current token's: no subtraction, so no cancellation."""
    return rest / (rest + kept)


def relative_weights(logits: torch.Tensor, temperature: torch.Tensor) -> torch.Tensor:
    """``exp(l / tau)`` relative to the largest of the row, in the precision of the logits, shape of ``logits``."""
    shifted = logits - logits.amax(dim=1, keepdim=True)
    shifted.div_(temperature[:, None].to(logits.dtype))
    if logits.dtype == torch.float32:  # numbers below the smallest normal one are 0 here: the processor is slow at them
        torch.nn.functional.threshold(shifted, SMALLEST, -torch.inf, inplace=True)
    return shifted.exp_()


def excluded_mass(logits: torch.Tensor, current: torch.Tensor, temperature: torch.Tensor) -> torch.Tensor:
    """``P(v != current)`` in float64, shape (rows,).

    It is summed over the other tokens and never computed as ``1 - p``, which is 0 or noise in a trap.
    """
    weights = relative_weights(logits.double(), temperature)
    kept = weights.gather(1, current[:, None])[:, 0]
    rest = weights.scatter_(1, current[:, None], 0.0).sum(dim=1)
    return odds(rest, kept)


def invert(cumulative: torch.Tensor, pick: torch.Tensor) -> torch.Tensor:
    """Columns drawn by inverting cumulative weights (rows, k) at uniforms (rows,): a column of weight 0 is never drawn."""
    target = pick * cumulative[:, -1]
    place = torch.searchsorted(cumulative, target[:, None], right=True)
    last = torch.searchsorted(cumulative, cumulative[:, -1:].contiguous())
    return torch.minimum(place, last)[:, 0]
