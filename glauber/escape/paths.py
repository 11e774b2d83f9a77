"""First passage times by the rejection-free engine: from move to move until a condition holds."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from .. import chain
from ..engines import rejection_free
from ..engines.trace import check_steps, temperatures
from ..models import Conditionals
from ..progress import Progress

Left = Callable[[NDArray[np.int64], int], NDArray[np.bool_]]
LARGEST = 256  # moves of one round


@dataclass(frozen=True)
class FirstPassage:
    """When each chain first satisfied a condition.

    Attributes
    ----------
    table : DataFrame
        One row per chain: ``chain``, ``temperature``, ``first`` (steps to the first move), ``moved`` (false: no move within
        the run, ``first`` is censored), ``time`` (steps to the passage), ``left`` (false: ``time`` is censored), ``moves``.
    states : array of int64, shape (chains, n)
        At the passage, or the last one known.
    forwards : int
        Masked forwards spent.
    """

    table: pd.DataFrame
    states: NDArray[np.int64]
    forwards: int


def first_passage(
    model: Conditionals,
    states: ArrayLike,
    left: Left,
    *,
    temperature: ArrayLike,
    steps: int,
    seed: int,
    moves: int = 10_000,
    label: str = "",
) -> FirstPassage:
    """Run each chain until ``left`` holds, at most ``steps`` steps and ``moves`` moves; what is not seen is censored.

    The chains go on in rounds of doubling length, so that one that has left costs nothing further. A round begins with a
    fresh holding time, which changes no law: a round ends at a move, and holding times have no memory.

    Parameters
    ----------
    model : Conditionals
    states : array of int, shape (chains, n)
    left : callable
        From the states after successive moves (moves, n) and the row of the chain to whether the condition holds in each.
    temperature : float or array of float, shape (chains,)
    steps, seed, label
        As for `glauber.engines.rejection_free`.
    moves : int
        Most moves per chain.

    Raises
    ------
    ParameterError
        If a parameter is outside its range.
    """
    steps, _, moves = check_steps(steps, moves=moves)
    current = chain.init(model, states).tokens.cpu().numpy()
    count = len(current)
    tau = temperatures(temperature, count).numpy()
    first, moved = np.full(count, steps, dtype=np.int64), np.zeros(count, dtype=bool)
    clock, used = np.zeros(count, dtype=np.int64), np.zeros(count, dtype=np.int64)
    gone = np.zeros(count, dtype=bool)
    active, spent, size, forwards, number = np.arange(count), 0, 2, 0, 0
    with Progress(moves, label, "move") as report:
        while len(active) and spent < moves:
            size = min(size, moves - spent)
            streams = (active + number * count).tolist()
            run = rejection_free(
                model, current[active], temperature=tau[active], steps=steps, seed=seed, moves=size, chains=streams
            )
            forwards += run.forwards
            grouped = dict(iter(run.table.groupby("chain")))
            going = []
            for c, stream, unfinished in zip(active.tolist(), streams, run.stopped, strict=True):
                rows = grouped.get(stream, run.table.iloc[:0])
                path, times = replay(current[c], rows), clock[c] + rows["step"].to_numpy(np.int64)
                path, times = path[times <= steps], times[times <= steps]
                if number == 0 and len(times):
                    first[c], moved[c] = times[0], True
                passed = np.flatnonzero(left(path, c)) if len(path) else np.empty(0, dtype=np.int64)
                last = int(passed[0]) if len(passed) else len(times) - 1
                if last >= 0:
                    current[c] = path[last]
                used[c] += last + 1
                if len(passed):
                    gone[c], clock[c] = True, times[last]
                elif unfinished and len(times) == size:
                    clock[c] = times[-1]
                    going.append(c)
                else:
                    clock[c] = steps
            active = np.array(going, dtype=np.int64)
            spent, size, number = spent + size, min(2 * size, LARGEST), number + 1
            report.reach(spent)
    table = pd.DataFrame(
        {
            "chain": np.arange(count), "temperature": tau, "first": first, "moved": moved, "time": clock, "left": gone,
            "moves": used,
        }
    )  # fmt: skip
    return FirstPassage(table, current, forwards)


def replay(start: NDArray[np.int64], moves: pd.DataFrame) -> NDArray[np.int64]:
    """States after each move of one chain, shape (moves, n), from its starting state and its rows of a table of moves."""
    path = np.repeat(start[None], len(moves), axis=0)
    for m, (site, after) in enumerate(zip(moves["site"], moves["after"], strict=True)):
        path[m:, site] = after
    return path
