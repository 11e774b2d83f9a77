"""Local margins, the exact one-step leaving probability, and the theorem's bounds (paper, section 4).

The local margin of position ``i`` in the state ``x`` is ``m_i(x) = l_i(x_i) - max_{v != x_i} l_i(v)``, in nats. With
``m = min_i m_i(x)``, one step leaves ``x`` with probability ``q(x) <= (|V| - 1) exp(-m / tau)``.
"""

from collections.abc import Callable

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray

from . import chain
from .engines.nfold import Masses
from .engines.trace import temperatures
from .models import Conditionals

ROWS = 256  # rows of logits held at a time
Measure = Callable[[torch.Tensor, torch.Tensor, torch.Tensor], torch.Tensor]


def at_every_position(model: Conditionals, states: ArrayLike | torch.Tensor, of: Measure) -> NDArray[np.float64]:
    """A number (or a row of numbers) from the conditional of every position of every state.

    Parameters
    ----------
    model : Conditionals
    states : array of int, shape (rows, n)
    of : callable
        From logits ``(chunk, |V|)``, the columns of the tokens that stand there (chunk,) and the states' indices (chunk,), to
        values (chunk,) or (chunk, values).

    Returns
    -------
    array of float64, shape (rows, n) or (rows, n, values)
    """
    tokens = chain.init(model, states).tokens
    rows, n = tokens.shape
    row, site = torch.arange(rows).repeat_interleave(n), torch.arange(n).repeat(rows)
    parts = []
    for s in range(0, rows * n, ROWS):
        here = row[s : s + ROWS]
        logits, current = chain.masked_logits(
            model, tokens[here.to(tokens.device)], site[s : s + ROWS].to(tokens.device)
        )
        parts.append(of(logits, current, here).double().cpu())
    values = torch.cat(parts)
    return np.asarray(values.reshape(rows, n, *values.shape[1:]).numpy())


def log_probabilities(
    model: Conditionals, states: ArrayLike | torch.Tensor
) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """Log-probability of every token given all others, at temperature 1; and whether it is its position's argmax.

    Parameters
    ----------
    model : Conditionals
    states : array of int, shape (rows, n)

    Returns
    -------
    array of float64, array of bool, shape (rows, n)
        In nats, with the law restricted to the vocabulary. A token that ties with another for the largest counts as the argmax.
    """

    def own_and_best(logits: torch.Tensor, current: torch.Tensor, row: torch.Tensor) -> torch.Tensor:
        law = torch.log_softmax(logits.double(), dim=1)
        own = law.gather(1, current[:, None])[:, 0]
        return torch.stack([own, (own >= law.amax(dim=1)).double()], dim=1)

    found = at_every_position(model, states, own_and_best)
    return found[:, :, 0], found[:, :, 1] == 1


def local_margins(model: Conditionals, states: ArrayLike | torch.Tensor) -> NDArray[np.float64]:
    """``m_i(x)`` of every position, nats, shape (rows, n): negative where another token is likelier than the present one."""

    def margin(logits: torch.Tensor, current: torch.Tensor, row: torch.Tensor) -> torch.Tensor:
        own = logits.gather(1, current[:, None])[:, 0].double()
        return own - logits.scatter(1, current[:, None], -torch.inf).amax(dim=1).double()

    return at_every_position(model, states, margin)


def excluded_masses(
    model: Conditionals, states: ArrayLike | torch.Tensor, temperature: ArrayLike
) -> NDArray[np.float64]:
    """``P(v != x_i)`` of every position, shape (rows, n): summed in float64, never computed as ``1 - p``.

    Parameters
    ----------
    model : Conditionals
    states : array of int, shape (rows, n)
    temperature : float or array of float, shape (rows,)
    """
    tokens = chain.init(model, states).tokens
    return Masses(model).of(tokens, temperatures(temperature, len(tokens)))


def leaving_probability(
    model: Conditionals, states: ArrayLike | torch.Tensor, temperature: ArrayLike
) -> NDArray[np.float64]:
    """Exact one-step leaving probability ``q(x) = mean_i P(v != x_i)``, shape (rows,).

    The holding time of ``x`` is geometric with mean ``1 / q(x)`` steps.

    Parameters
    ----------
    model : Conditionals
    states : array of int, shape (rows, n)
    temperature : float or array of float, shape (rows,)
    """
    return np.asarray(excluded_masses(model, states, temperature).mean(axis=1))


def leave_bound(
    margin: ArrayLike, temperature: ArrayLike, vocabulary: int, steps: ArrayLike = 1
) -> NDArray[np.float64]:
    """The theorem's bound ``T (|V| - 1) exp(-m / tau)`` on the probability to leave within ``T`` steps; can exceed 1.

    Parameters
    ----------
    margin : float or array
        Uniform margin ``m`` in nats.
    temperature : float or array
    vocabulary : int
        ``|V|``, tokens that may be emitted.
    steps : int or array
        ``T``.
    """
    exponent = np.asarray(margin, dtype=np.float64) / np.asarray(temperature, dtype=np.float64)
    return np.asarray(np.asarray(steps) * (vocabulary - 1) * np.exp(-exponent))


def escape_bound(margin: ArrayLike, temperature: ArrayLike, vocabulary: int) -> NDArray[np.float64]:
    """The theorem's lower bound ``exp(m / tau) / (|V| - 1)`` on the mean escape time, in steps; infinite past floating point.

    Parameters
    ----------
    margin, temperature, vocabulary
        As for `leave_bound`.
    """
    with np.errstate(divide="ignore", over="ignore"):
        return np.asarray(1.0 / leave_bound(margin, temperature, vocabulary))
