"""Engines: ways to run the same dynamics, from starting states to a trace."""

from collections.abc import Sequence

import numpy as np
import torch
import xarray as xr
from numpy.typing import ArrayLike

from . import chain
from .errors import ParameterError
from .models import Conditionals
from .progress import progress
from .randomness import Streams


def direct(
    model: Conditionals,
    states: ArrayLike | torch.Tensor,
    *,
    temperature: ArrayLike,
    steps: int,
    seed: int,
    record_every: int = 1,
    chains: Sequence[int] | None = None,
    label: str = "",
) -> xr.Dataset:
    """Run Glauber dynamics with one masked forward per step and chain.

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
    label : str
        Name of the progress report; none if empty.

    Returns
    -------
    xarray.Dataset
        ``states`` (record, chain, n) int32, with ``record`` in steps; ``site`` int16, ``changed`` bool and ``log_ratio``
        float64 in nats (step, chain); ``temperature`` (chain).

    Raises
    ------
    ParameterError
        If a parameter is outside its range.
    """
    start = chain.init(model, states)
    count, n = start.tokens.shape
    tau = temperatures(temperature, count)
    index = tuple(range(count)) if chains is None else tuple(chains)
    if len(index) != count:
        raise ParameterError(f"{len(index)} chain indices for {count} starting states: give one each")
    if steps < 1 or record_every < 1:
        raise ParameterError(f"steps = {steps} and record_every = {record_every} must both be 1 or more")
    streams = Streams(seed, index, n, block=min(256, steps))
    records = np.empty((steps // record_every + 1, count, n), dtype=np.int32)
    records[0] = start.tokens.cpu().numpy()
    site = np.empty((steps, count), dtype=np.int16)
    changed = np.empty((steps, count), dtype=bool)
    log_ratio = np.empty((steps, count))
    state = start
    for t in progress(range(steps), steps, label):
        state, info = chain.step(model, state, tau, streams.at(t))
        site[t], changed[t], log_ratio[t] = info.site.cpu(), info.changed.cpu(), info.log_ratio.cpu()
        if state.step % record_every == 0:
            records[state.step // record_every] = state.tokens.cpu().numpy()
    return xr.Dataset(
        {
            "states": (("record", "chain", "position"), records),
            "site": (("step", "chain"), site),
            "changed": (("step", "chain"), changed),
            "log_ratio": (("step", "chain"), log_ratio, {"units": "nats"}),
            "temperature": (("chain",), tau.numpy()),
        },
        coords={
            "record": ("record", np.arange(len(records)) * record_every, {"units": "steps"}),
            "step": ("step", np.arange(1, steps + 1)),
            "chain": ("chain", np.array(index, dtype=np.uint64)),
        },
        attrs={"seed": seed, "engine": "direct", "forwards": steps * count},
    )


def temperatures(temperature: ArrayLike, count: int) -> torch.Tensor:
    """One float64 temperature per chain.

    Raises
    ------
    ParameterError
        If one is not a positive number, or there are neither one nor ``count`` of them.
    """
    tau = np.asarray(temperature, dtype=np.float64)
    if tau.shape not in ((), (1,), (count,)):
        raise ParameterError(f"{tau.size} temperatures for {count} chains: give one, or one per chain")
    bad = tau[~(np.isfinite(tau) & (tau > 0))]
    if bad.size:
        raise ParameterError(f"temperature {bad.flat[0]} is not a positive number: give one above 0")
    return torch.from_numpy(np.broadcast_to(tau, (count,)).copy())
