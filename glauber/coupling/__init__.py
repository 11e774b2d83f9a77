"""Couplings of Glauber dynamics: chains that share their sites and couple their tokens, and the time until they meet.

All members of a group redraw the same site from common randomness, each by the law of Glauber dynamics. Once they are equal
they stay equal. The time until then bounds mixing: ``TV(P^t(x, .), P^t(y, .)) <= P(T_c > t)`` for members started at ``x``
and ``y`` (paper, section 5; chapter 5 of Levin, Peres and Wilmer :cite:`levin2017markov`).
"""

from collections.abc import Iterator, Sequence

import numpy as np
import torch
import xarray as xr
from numpy.typing import ArrayLike, NDArray

from .. import chain
from ..checks import reals
from ..engines.trace import check_steps, temperatures
from ..errors import ParameterError
from ..models import Conditionals
from ..progress import Progress
from ..randomness import Streams, check_keys
from .contexts import Contexts
from .kinds import KINDS, Shared

BATCH = 2**23  # probabilities held at a time
CACHED = 2**17  # the same on a CPU, whose passes over them are several times as quick as long as they stay in its cache
MEMORY = 2**27  # logits remembered, 512 MiB in float32 if a run fills them, and the most in one batch of forwards
CONTEXTS = 2**16  # the same in contexts, for small vocabularies


def couple(
    model: Conditionals,
    states: ArrayLike | torch.Tensor,
    *,
    temperature: ArrayLike,
    steps: int,
    seed: int,
    kind: str = "maximal",
    groups: Sequence[int] | None = None,
    record_every: int | None = None,
    stop: bool = True,
    label: str = "",
) -> xr.Dataset:
    """Run groups of coupled chains until each has coalesced.

    Parameters
    ----------
    model : Conditionals
    states : array of int, shape (groups, members, n)
        Starting tokens. All texts of a call have one length ``n``: lengths need a call each.
    temperature : float or array of float, shape (groups,)
        Temperatures, one for all or one per group.
    steps : int
        Longest run: groups still apart after it are censored.
    seed : int
        Seed of the streams.
    kind : str
        Coupling of the tokens drawn at the common site: ``maximal`` (pairs only; they differ with probability ``TV(p, q)``),
        ``common`` (one uniform inverts every member's cumulative law) or ``gumbel`` (shared Gumbel noise per token).
    groups : sequence of int, optional
        Stream index of each group; ``0, 1, ...`` by default. The sites are those of the chain with that index. A group's
        course depends on (seed, index) and its own start and temperature, not on the others, up to the rounding of logits in
        batches of different shape. Groups of equal index share their randomness, so that a grid of temperatures is one call.
    record_every : int, optional
        The distance is recorded at step 0 and every ``record_every`` steps; never if not given.
    stop : bool
        Leave a group as it is once it has coalesced. Its distance stays 0 either way, and no more forwards are made for it.
    label : str
        Name of the progress report; none if empty.

    Returns
    -------
    xarray.Dataset
        By ``group``: ``time``, the first step after which all members are equal, in steps (``steps`` where censored);
        ``censored``, whether they never were; ``temperature``; ``forwards``, the masked forwards made for the group. A
        context known from before, from whichever group, costs none. ``states`` (group, member, position), the last ones:
        at ``time``, or at ``steps`` without ``stop``. With ``record_every``, ``distance`` (record, group), the number of
        positions at which not all members agree, Hamming distance for a pair, with ``record`` in steps.

    Raises
    ------
    ParameterError
        If a parameter is outside its range or does not fit the others.
    """
    tokens = _check(model, states, kind)
    count, members, n = tokens.shape
    tau = temperatures(temperature, count, "group")
    steps, every, _ = check_steps(steps, 1 if record_every is None else record_every)
    record_every = None if record_every is None else every
    seed, given = check_keys(seed, range(count) if groups is None else groups)
    if len(given) != count:
        raise ParameterError(f"{len(given)} group indices for {count} groups: give one each")
    index = np.array(given, dtype=np.uint64)
    once, of_group = np.unique(index, return_inverse=True)  # the temperatures of a grid share their streams
    streams = Streams(seed, once.tolist(), n, block=min(256, steps))
    contexts = Contexts(model, max(members, min(MEMORY // len(model.vocabulary), CONTEXTS)))

    distance = _distance(tokens)
    apart, time, forwards = distance > 0, np.where(distance > 0, steps, 0), np.zeros(count, dtype=np.int64)
    recorded = np.zeros((1 if record_every is None else steps // record_every + 1, count), dtype=np.int32)
    recorded[0] = distance
    with Progress(steps, label) as report:
        for t in range(steps):
            active = np.flatnonzero(apart) if stop else np.arange(count)
            if not len(active):
                break
            sites, uniforms = streams.at(t).site[of_group], streams.uniforms(t)[of_group, 1:]
            for part in _parts(active, contexts.capacity // members):
                shared = Shared(seed, index[part], t, torch.from_numpy(uniforms[part]))
                forwards[part] += _advance(contexts, tokens, part, sites[part], tau[part], shared, kind)
            distance = np.zeros(count, dtype=np.int64)
            distance[active] = _distance(tokens[active])
            met = apart & (distance == 0)
            time[met], apart[met] = t + 1, False
            if record_every is not None and (t + 1) % record_every == 0:
                recorded[(t + 1) // record_every] = distance
            report.reach(t + 1)

    result = xr.Dataset(
        {
            "time": (("group",), time, {"units": "steps"}),
            "censored": (("group",), apart),
            "temperature": (("group",), tau.numpy()),
            "forwards": (("group",), forwards),
            "states": (("group", "member", "position"), tokens.astype(np.int32)),
        },
        coords={"group": ("group", index)},
        attrs={"seed": seed, "kind": kind, "steps": steps},
    )
    if record_every is not None:
        result = result.assign_coords(record=("record", np.arange(len(recorded)) * record_every, {"units": "steps"}))
        result["distance"] = (("record", "group"), recorded, {"units": "positions"})
    return result


def _check(model: Conditionals, states: ArrayLike | torch.Tensor, kind: str) -> NDArray[np.int64]:
    """Starting tokens, shape (groups, members, n), if they and the coupling fit."""
    if kind not in KINDS:
        raise ParameterError(f"coupling {kind!r} is unknown: give one of {', '.join(KINDS)}")
    given = reals("states", states, remedy="couple each length in a call of its own")
    if given.ndim != 3 or 0 in given.shape or given.shape[1] < 2:
        raise ParameterError(f"states have shape {given.shape}: give (groups, members, n) with 2 members or more")
    if kind == "maximal" and given.shape[1] > 2:
        raise ParameterError(
            f"a maximal coupling takes pairs, not {given.shape[1]} members: give 2, or use common or gumbel"
        )
    start = chain.init(model, given.reshape(-1, given.shape[2]))
    # A copy, since the tokens are changed in place and may still be the caller's.
    return np.array(start.tokens.cpu().numpy()).reshape(given.shape)


def _distance(tokens: NDArray[np.int64]) -> NDArray[np.int64]:
    """Positions at which not all members agree, shape (groups,)."""
    return np.asarray((tokens != tokens[:, :1]).any(axis=1).sum(axis=1))


def _parts(active: NDArray[np.int64], size: int) -> Iterator[NDArray[np.int64]]:
    for s in range(0, len(active), size):
        yield active[s : s + size]


def _advance(
    contexts: Contexts,
    tokens: NDArray[np.int64],
    part: NDArray[np.int64],
    site: NDArray[np.int64],
    tau: torch.Tensor,
    shared: Shared,
    kind: str,
) -> NDArray[np.int64]:
    """One step of the groups ``part``, in place; the forwards made for each."""
    _, members, n = tokens.shape
    slots, asked = contexts.find(tokens[part].reshape(-1, n), np.repeat(site, members))
    slots = slots.reshape(-1, members)
    columns = np.empty_like(slots)
    alike = (slots == slots[:, :1]).all(axis=1)
    limit = CACHED if contexts.rows.device.type == "cpu" else BATCH
    # The forwards of all groups are one batch; their laws are not held all at a time. Members that have one context are one
    # member, drawn once.
    for rows, width in ((np.flatnonzero(alike), 1), (np.flatnonzero(~alike), members)):
        for some in _parts(rows, max(1, min(limit, BATCH) // (width * len(contexts.model.vocabulary)))):
            laws = _laws(contexts, slots[some, :width], tau[some])
            columns[some] = KINDS[kind](laws, shared.of(some)).cpu().numpy()
    tokens[part, :, site] = contexts.model.vocabulary[columns]
    return np.asarray(asked.reshape(-1, members).sum(axis=1))


def _laws(contexts: Contexts, slots: NDArray[np.int64], tau: torch.Tensor) -> torch.Tensor:
    """Laws at the contexts in ``slots`` (groups, members), shape ``(groups, members, |V|)``.

    Members with one context share one law, to the last bit: only so is it certain that they draw the same token.
    """
    device = contexts.rows.device
    group = np.repeat(np.arange(len(slots)), slots.shape[1])
    distinct, which = np.unique(group * contexts.capacity + slots.ravel(), return_inverse=True)
    shared = len(distinct) < slots.size
    owner, slot = np.divmod(distinct, contexts.capacity) if shared else (group, slots.ravel())
    logits = contexts.rows.index_select(0, torch.from_numpy(slot).to(device)).to(torch.float64)
    # In place, and with products for quotients: this is most of what a step costs beside its forwards.
    laws = logits.sub_(logits.amax(dim=1, keepdim=True)).mul_(tau[owner].to(device).reciprocal_()[:, None]).exp_()
    laws.mul_(laws.sum(dim=1, keepdim=True).reciprocal_())
    laws = laws.index_select(0, torch.from_numpy(which).to(device)) if shared else laws
    return laws.reshape(*slots.shape, -1)


__all__ = ["KINDS", "couple"]
