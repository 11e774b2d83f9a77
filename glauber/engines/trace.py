"""What an engine returns: a chunk of steps, and the trace that chunks add up to."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
import xarray as xr
from numpy.typing import ArrayLike, NDArray

from .. import chain
from ..checks import reals, whole
from ..errors import ParameterError
from ..models import Conditionals
from ..randomness import check_keys

COLDEST, HOTTEST = 1e-4, 1e6  # beyond, logits over temperature lose their digits, or all differences between them
LONGEST = 10**18  # steps


@dataclass(frozen=True)
class Setup:
    """Everything that fixes a run: who moves, from where, how hot, and on which streams.

    Attributes
    ----------
    model : Conditionals
    start : State
        Starting states, checked.
    temperature : Tensor of float64, shape (chains,)
    seed : int
    chains : tuple of int
        Stream index of each chain.
    """

    model: Conditionals
    start: chain.State
    temperature: torch.Tensor
    seed: int
    chains: tuple[int, ...]


@dataclass(frozen=True)
class Chunk:
    """Some consecutive steps of every chain.

    Attributes
    ----------
    state : State
        After the last of them.
    records : array of int32, shape (records, chains, n)
        States after every step whose number is a multiple of ``record_every``.
    site : array of int16, shape (steps, chains)
    changed : array of bool, shape (steps, chains)
    log_ratio : array of float64, shape (steps, chains)
        In nats; 0 where nothing changed.
    forwards : array of int64, shape (chains,)
        Masked forwards spent on each chain.
    """

    state: chain.State
    records: NDArray[np.int32]
    site: NDArray[np.int16]
    changed: NDArray[np.bool_]
    log_ratio: NDArray[np.float64]
    forwards: NDArray[np.int64]


def setup(
    model: Conditionals,
    states: ArrayLike | torch.Tensor,
    temperature: ArrayLike,
    seed: int,
    chains: Sequence[int] | None,
) -> Setup:
    """Check what a run is given.

    Raises
    ------
    ParameterError
        If a parameter is outside its range.
    """
    start = chain.init(model, states)
    count = len(start.tokens)
    seed, index = check_keys(seed, range(count) if chains is None else chains)
    if len(index) != count:
        raise ParameterError(f"{len(index)} chain indices for {count} starting states: give one each")
    return Setup(model, start, temperatures(temperature, count), seed, index)


def temperatures(temperature: ArrayLike, count: int, of: str = "chain") -> torch.Tensor:
    """One float64 temperature per chain, or what else ``of`` calls it.

    Raises
    ------
    ParameterError
        If one is no number or outside the range in which float32 logits can be divided by it, or there are neither one
        nor ``count`` of them.
    """
    tau = reals("temperatures", temperature).astype(np.float64)
    if tau.shape not in ((), (1,), (count,)):
        raise ParameterError(f"{tau.size} temperatures for {count} {of}s: give one, or one per {of}")
    bad = tau[~((tau >= COLDEST) & (tau <= HOTTEST))]
    if bad.size:
        raise ParameterError(f"temperature {bad.flat[0]} is refused: give one from {COLDEST:g} to {HOTTEST:,.0f}")
    return torch.from_numpy(np.broadcast_to(tau, (count,)).copy())


def check_steps(steps: int, record_every: int = 1, moves: int = 1) -> tuple[int, int, int]:
    """Length of a run, recording interval and most moves, as plain integers.

    Raises
    ------
    ParameterError
        If one is no whole number or below 1, or the run is longer than 10**18 steps.
    """
    return whole("steps", steps, 1, LONGEST), whole("record_every", record_every), whole("moves", moves)


def dataset(run: Setup, chunk: Chunk, record_every: int, engine: str) -> xr.Dataset:
    """One chunk as a trace, the starting states in front.

    Returns
    -------
    xarray.Dataset
        ``states`` (record, chain, position) int32, with ``record`` in steps; ``site``, ``changed`` and ``log_ratio`` (step,
        chain); ``temperature`` and ``forwards`` (chain).
    """
    records = np.concatenate([run.start.tokens.cpu().numpy()[None].astype(np.int32), chunk.records])
    first = run.start.step
    return xr.Dataset(
        {
            "states": (("record", "chain", "position"), records),
            "site": (("step", "chain"), chunk.site),
            "changed": (("step", "chain"), chunk.changed),
            "log_ratio": (("step", "chain"), chunk.log_ratio, {"units": "nats"}),
            "temperature": (("chain",), run.temperature.numpy()),
            "forwards": (("chain",), chunk.forwards),
        },
        coords={
            "record": ("record", first + np.arange(len(records)) * record_every, {"units": "steps"}),
            "step": ("step", first + np.arange(1, len(chunk.site) + 1)),
            "chain": ("chain", np.array(run.chains, dtype=np.uint64)),
        },
        attrs={"seed": run.seed, "engine": engine},
    )
