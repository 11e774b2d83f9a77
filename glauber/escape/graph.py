"""What comes after an escape: a graph of traps."""

import networkx as nx
import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from scipy import stats

from ..errors import ParameterError
from ..margins import leaving_probability, local_margins
from ..models import Conditionals
from .paths import first_passage
from .traps import descend


def follow(
    model: Conditionals,
    traps: ArrayLike,
    *,
    temperature: float,
    replicas: int,
    legs: int,
    steps: int,
    moves: int = 1000,
    distance: int = 2,
    sweeps: int = 50,
    seed: int = 0,
    label: str = "",
) -> nx.DiGraph:
    """Let chains escape from traps, and count to which trap each escape leads.

    A leg begins in a trap and ends at the first state at Hamming distance ``distance`` or more; sequential greedy descent
    from that state names the next trap, where the chain's next leg begins. Legs from one trap are thus independent draws.
    A leg that is censored ends its chain.

    Parameters
    ----------
    model : Conditionals
    traps : array of int, shape (traps, n)
        Where the chains start; numbered from 0, traps met later go on from there.
    temperature : float
    replicas : int
        Chains per starting trap.
    legs : int
        Escapes of each chain.
    steps, moves, distance
        Of one leg (see `glauber.escape.escape_times`).
    sweeps : int
        Of the descent.
    seed, label
        As for `glauber.engines.rejection_free`.

    Returns
    -------
    networkx.DiGraph
        Nodes are traps: ``state`` (tuple of ids), ``start`` (whether chains began there), ``outcome`` of the descent that
        named it (``start``, ``fixed``, ``cycle``, ``unsettled``), ``margin`` (smallest, nats), ``depth`` (``1/q``, steps),
        ``censored`` (legs that did not end). Edges have ``count`` and ``time`` (mean steps of those legs); a loop is a return.
        The graph has ``escapes``, ``returns``, ``censored`` and ``temperature``.

    Raises
    ------
    ParameterError
        If there are no legs or replicas.
    """
    if legs < 1 or replicas < 1:
        raise ParameterError(f"legs = {legs} and replicas = {replicas} must both be at least 1")
    graph = nx.DiGraph(temperature=temperature)
    numbers: dict[tuple[int, ...], int] = {}
    for row in np.asarray(traps).tolist():
        _number(graph, numbers, tuple(row), "start")
    where = np.repeat(np.arange(len(numbers)), replicas)
    for leg in range(legs):
        origin = np.array([graph.nodes[v]["state"] for v in where.tolist()])

        def left(path: NDArray[np.int64], c: int, origin: NDArray[np.int64] = origin) -> NDArray[np.bool_]:
            return np.asarray((path != origin[c]).sum(axis=1) >= distance)

        # A seed of its own for each leg: the streams of a chain begin anew.
        fresh = int(np.random.SeedSequence([seed, leg]).generate_state(1, np.uint64)[0])
        run = first_passage(
            model, origin, left, temperature=temperature, steps=steps, seed=fresh, moves=moves,
            label=f"{label}, leg {leg + 1}" if label else "",
        )  # fmt: skip
        gone = run.table["left"].to_numpy(bool)
        for v in where[~gone].tolist():
            graph.nodes[v]["censored"] += 1
        if not gone.any():
            break
        end = descend(model, run.states[gone], sweeps=sweeps)
        times, going = run.table["time"].to_numpy()[gone], []
        for v, state, outcome, time in zip(where[gone].tolist(), end.states.tolist(), end.outcome, times, strict=True):
            to = _number(graph, numbers, tuple(state), str(outcome))
            edge = graph.get_edge_data(v, to, {"count": 0, "time": 0.0})
            mean = edge["time"] + (float(time) - edge["time"]) / (edge["count"] + 1)
            graph.add_edge(v, to, count=edge["count"] + 1, time=mean)
            going.append(to)
        where = np.array(going)
    states = np.array([graph.nodes[v]["state"] for v in graph])
    q, margin = leaving_probability(model, states, temperature), local_margins(model, states).min(axis=1)
    for v in graph:
        graph.nodes[v]["depth"] = float(1 / q[v]) if q[v] > 0 else np.inf
        graph.nodes[v]["margin"] = float(margin[v])
    counts = nx.get_edge_attributes(graph, "count")
    graph.graph["escapes"] = sum(counts.values())
    graph.graph["returns"] = sum(count for (v, w), count in counts.items() if v == w)
    graph.graph["censored"] = sum(nx.get_node_attributes(graph, "censored").values())
    return graph


def _number(graph: nx.DiGraph, numbers: dict[tuple[int, ...], int], state: tuple[int, ...], outcome: str) -> int:
    if state not in numbers:
        numbers[state] = len(numbers)
        graph.add_node(numbers[state], state=state, start=outcome == "start", outcome=outcome, censored=0)
    return numbers[state]


def transitions(graph: nx.DiGraph, level: float = 0.95) -> pd.DataFrame:
    """Edges of the graph, most travelled first.

    Returns
    -------
    DataFrame
        ``from``, ``to``, ``count``, ``of`` (escapes from there), ``share``, ``low``, ``high`` (of those escapes, with
        Wilson's interval), ``mean time`` (steps, of the escapes counted: censored legs are left out, so it is biased short),
        ``next depth`` (``1/q`` of the next trap, steps).
    """
    out = dict(graph.out_degree(weight="count"))
    rows = []
    for v, w, edge in graph.edges(data=True):
        count, of = int(edge["count"]), int(out[v])
        limits = stats.binomtest(count, of).proportion_ci(level, method="wilson")
        rows.append((v, w, count, of, count / of, limits.low, limits.high, edge["time"], graph.nodes[w]["depth"]))
    columns = ["from", "to", "count", "of", "share", "low", "high", "mean time", "next depth"]
    table = pd.DataFrame(rows, columns=columns)
    return table.sort_values("count", ascending=False, kind="stable", ignore_index=True)
