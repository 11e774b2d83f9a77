"""Engines: ways to run the same dynamics, from starting states to a trace."""

from collections.abc import Callable, Sequence

import torch
import xarray as xr
from numpy.typing import ArrayLike

from ..errors import ParameterError
from ..models import Conditionals
from . import direct, lazy
from .nfold import Moves, rejection_free
from .trace import Chunk, Setup, check_steps, dataset, setup

Advance = Callable[..., Chunk]
ENGINES: dict[str, Advance] = {"lazy": lazy.advance, "direct": direct.advance}


def run(
    model: Conditionals,
    states: ArrayLike | torch.Tensor,
    *,
    temperature: ArrayLike,
    steps: int,
    seed: int,
    record_every: int = 1,
    chains: Sequence[int] | None = None,
    engine: str = "lazy",
    label: str = "",
) -> xr.Dataset:
    """Run Glauber dynamics and return its trace.

    Parameters
    ----------
    model : Conditionals
    states : array of int, shape (chains, n)
        Starting tokens.
    temperature : float or array of float, shape (chains,)
        Temperatures, one for all or one per chain.
    steps : int
        Steps to take.
    seed : int
        Seed of the streams.
    record_every : int
        States are recorded at step 0 and every ``record_every`` steps.
    chains : sequence of int, optional
        Stream index of each chain; ``0, 1, ...`` by default. Chains of equal index share their randomness.
    engine : str
        ``lazy`` asks the model only for conditionals that it does not know yet; ``direct`` asks at every step. The
        trajectories are the same, up to the rounding of logits in batches of different shape.
    label : str
        Name of the progress report; none if empty.

    Returns
    -------
    xarray.Dataset
        ``states`` (record, chain, position) int32, with ``record`` in steps; ``site`` int16, ``changed`` bool and
        ``log_ratio`` float64 in nats (step, chain); ``temperature`` and ``forwards`` (chain).

    Raises
    ------
    ParameterError
        If a parameter is outside its range.
    """
    given = setup(model, states, temperature, seed, chains)
    steps, record_every, _ = check_steps(steps, record_every)
    return dataset(given, advance(engine)(given, given.start, steps, record_every, label), record_every, engine)


def advance(engine: str) -> Advance:
    """The function that takes an engine's steps.

    Raises
    ------
    ParameterError
        If there is no such engine.
    """
    if not isinstance(engine, str) or engine not in ENGINES:
        raise ParameterError(f"engine {engine!r} is unknown: give one of {', '.join(ENGINES)}")
    return ENGINES[engine]


__all__ = ["ENGINES", "Chunk", "Moves", "Setup", "advance", "check_steps", "rejection_free", "run", "setup"]
