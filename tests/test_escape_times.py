"""Escape times, the drift theorem and the trap graph, against exact hitting times on enumerated spaces."""

import networkx as nx
import numpy as np
import pytest
from test_chain import random_table
from test_escape import tight, wells

from glauber import MaskedLM, ParameterError, escape, exact
from glauber.figures.escape import trap_graph
from glauber.passages import read_passages, starting_states
from glauber.survival import median


def hitting_time(matrix: np.ndarray, target: np.ndarray) -> np.ndarray:
    """Exact mean number of steps to reach ``target`` (bool) from every state."""
    outside = np.flatnonzero(~target)
    mean = np.zeros(len(matrix))
    mean[outside] = np.linalg.solve(np.eye(len(outside)) - matrix[np.ix_(outside, outside)], np.ones(len(outside)))
    return mean


def spaces(tiny64: MaskedLM) -> list[tuple[exact.Table, float]]:
    """Six small spaces and a temperature cold enough that their best state is metastable."""
    begin = starting_states(tiny64.text.encode, read_passages(), 10, 3).states
    networks = [exact.tabulate(exact.restrict(tiny64, text, [3, 4, 5], k=3), 3) for text in begin]
    return [(t, 0.25) for t in networks] + [(wells(3, 3, 2.0), 0.6), (wells(4, 2, 2.0), 0.5), (tight(3, 3, 2.0), 0.4)]


def test_escape_times_agree_with_exact_hitting_times(tiny64: MaskedLM) -> None:
    for seed, (table, tau) in enumerate(spaces(tiny64)):
        n, _, k = table.tables.shape
        states, matrix = exact.enumerate_states(n, k), exact.transition_matrix(table.tables, tau)
        trap = states[[int(np.argmax(np.diag(matrix)))]]
        raw = escape.escape_times(
            table, trap, temperatures=[tau], replicas=300, steps=10**9, moves=5000, distance=2, seed=seed
        )
        rows = escape.summarise(table, trap, raw, level=0.999).set_index("what")
        far = (states != trap).sum(axis=1) >= 2
        start = int((states == trap).all(axis=1).argmax())
        wanted = {"state": 1 / (1 - matrix[start, start]), "basin": hitting_time(matrix, far)[start]}
        for what, mean in wanted.items():
            row = rows.loc[what]
            assert row["exits"] == 300
            assert row["low"] <= mean <= row["high"], (seed, what, mean, row["mean"])
            assert row["mean"] / mean == pytest.approx(1, abs=0.25)
        assert rows.loc["state", "exact"] == pytest.approx(wanted["state"])
        assert rows.loc["state", "bound"] <= wanted["state"]


def test_censored_runs_agree_with_the_same_exact_time() -> None:
    """Stopped long before most chains leave, and stopped by their moves, the estimate still holds the exact mean."""
    table, tau = wells(4, 2, 2.0), 0.4
    states, matrix = exact.enumerate_states(4, 2), exact.transition_matrix(table.tables, tau)
    trap, far = states[:1], states.sum(axis=1) >= 2
    mean = hitting_time(matrix, far)[0]
    for steps, moves in ((int(mean / 3), 5000), (10**9, 2)):
        raw = escape.escape_times(
            table, trap, temperatures=[tau], replicas=500, steps=steps, moves=moves, distance=2, seed=3
        )
        row = escape.summarise(table, trap, raw, level=0.999).set_index("what").loc["basin"]
        assert 20 < row["exits"] < 450
        assert row["low"] <= mean <= row["high"]
        assert (raw["time"] <= steps).all()


def test_a_censored_mean_is_recovered_and_naive_ones_are_not() -> None:
    rng = np.random.default_rng(0)
    true, hits = 1000.0, 0
    for _ in range(200):
        time = rng.geometric(1 / true, size=60)
        seen = time <= 300  # three in four are censored
        mean, low, high = escape.mean_time(np.minimum(time, 300), seen)
        hits += low <= true <= high
        assert np.minimum(time, 300)[seen].mean() < 300 < mean
    assert 183 <= hits <= 200
    assert escape.mean_time([10, 10], [False, False])[2] == np.inf


def test_the_medians_of_escapes_are_those_of_the_one_estimate() -> None:
    """A finite interval where every chain left, one that is open above where few did."""
    table, state = tight(3, 4, 3.0), np.zeros((1, 3), int)
    raw = escape.escape_times(table, state, temperatures=[0.5], replicas=6, steps=10**9, moves=1, seed=2)
    assert raw["moved"].all() and not raw["left"].any()
    rows = escape.summarise(table, state, raw).set_index("what")
    ends = ["median", "median low", "median high"]
    assert rows.loc["state", ends].tolist() == list(median(raw["first"], np.zeros(6, bool))[:3])
    assert rows.loc["state", "median high"] == raw["first"].max()
    assert rows.loc["basin", ["median", "median high"]].tolist() == [np.inf, np.inf]
    assert rows.loc["basin", "median low"] == raw["time"].min()


def test_arrhenius_recovers_a_planted_barrier() -> None:
    """Independent sites with margin m: the mean holding time is ``exp(m / tau) / (k - 1)`` at low temperature."""
    table, state = tight(3, 4, 3.0), np.zeros((1, 3), int)
    raw = escape.escape_times(
        table, state, temperatures=[0.12, 0.15, 0.2, 0.25], replicas=200, steps=10**15, moves=1, seed=2
    )
    summary = escape.summarise(table, state, raw)
    fit = escape.arrhenius(summary).set_index("what").loc["state"]
    assert fit["low"] <= 3.0 <= fit["high"]
    assert fit["high"] - fit["low"] < 0.5
    alone = escape.arrhenius(summary[summary["temperature"] == 0.2])
    assert alone["barrier"].isna().all()


def test_the_longest_times_are_counted_in_moves_not_steps() -> None:
    raw = escape.escape_times(
        tight(3, 4, 3.0), [[0, 0, 0]], temperatures=[0.1, 0.05], replicas=20, steps=10**15, moves=1, seed=0
    )
    assert raw[raw["temperature"] == 0.1]["moved"].all()
    assert not raw[raw["temperature"] == 0.05]["moved"].any()  # exp(60) steps
    assert (raw["time"] <= 10**15).all()


def test_paths_end_where_the_condition_first_holds() -> None:
    table = random_table(3, 4, 5)
    run = escape.first_passage(
        table, np.zeros((200, 3), int), lambda path, c: path[:, 0] == 3, temperature=1.0, steps=10**6, seed=1
    )
    assert run.table["left"].all()
    assert (run.states[:, 0] == 3).all()
    target = exact.enumerate_states(3, 4)[:, 0] == 3
    mean = hitting_time(exact.transition_matrix(table.tables, 1.0), target)[0]
    error = run.table["time"].std() / np.sqrt(200)
    assert abs(run.table["time"].mean() - mean) < 4.5 * error


def test_graph_counts_are_the_escapes() -> None:
    table = wells(3, 3, 2.0)
    graph = escape.follow(
        table, [[0, 0, 0], [1, 1, 1]], temperature=0.8, replicas=40, legs=3, steps=10**9, moves=5000, seed=4
    )
    counts = escape.transitions(graph)
    assert counts["count"].sum() == graph.graph["escapes"] == 2 * 40 * 3 - graph.graph["censored"]
    assert graph.graph["returns"] == counts.loc[counts["from"] == counts["to"], "count"].sum()
    assert counts.groupby("from")["share"].sum().to_numpy() == pytest.approx(1)
    q = escape.leaving_probability(table, [graph.nodes[v]["state"] for v in graph], 0.8)
    assert [graph.nodes[v]["depth"] for v in graph] == pytest.approx(list(1 / q))
    # By symmetry of the three wells: the two given ones lead to the third, which is met on the way.
    assert (2, 2, 2) in {graph.nodes[v]["state"] for v in graph}
    cut = escape.follow(table, [[0, 0, 0]], temperature=0.05, replicas=5, legs=3, steps=10, moves=5, seed=4)
    assert (cut.graph["escapes"], cut.graph["censored"], len(escape.transitions(cut))) == (0, 5, 0)


def test_graph_shares_follow_the_exact_law_of_the_next_trap() -> None:
    table, tau = wells(3, 2, 1.5, slope=0.4), 0.9
    states, matrix = exact.enumerate_states(3, 2), exact.transition_matrix(table.tables, tau)
    far = states.sum(axis=1) >= 2
    near = np.flatnonzero(~far)
    reach = np.linalg.solve(np.eye(len(near)) - matrix[np.ix_(near, near)], matrix[np.ix_(near, np.flatnonzero(far))])
    ends = escape.descend(table, states[far]).states
    wanted = reach[0][(ends == 1).all(axis=1)].sum()
    graph = escape.follow(table, [[0, 0, 0]], temperature=tau, replicas=2000, legs=1, steps=10**9, seed=7)
    counts = escape.transitions(graph)
    share = counts.loc[[graph.nodes[w]["state"] == (1, 1, 1) for w in counts["to"]], "share"].sum()
    assert abs(share - wanted) < 4.5 * np.sqrt(max(wanted * (1 - wanted), 1e-3) / 2000)


def test_legs_take_any_seed_and_have_streams_of_their_own() -> None:
    table = wells(3, 2, 1.5, slope=0.4)
    given = {"temperature": 0.9, "replicas": 30, "legs": 3, "steps": 10**9}
    graphs = [escape.follow(table, [[0, 0, 0]], seed=seed, **given) for seed in (2**63 - 1, 0, 1)]  # type: ignore[arg-type]
    assert [g.graph["escapes"] for g in graphs] == [90] * 3
    times = [escape.transitions(g)["mean time"].tolist() for g in graphs]
    assert times[0] != times[1] != times[2]
    for layout in (2**63 - 1, 2**32):
        assert trap_graph(graphs[0], {}, seed=layout).axes


def test_shares_carry_their_interval() -> None:
    graph = nx.DiGraph()
    for v, depth in enumerate((5.0, 6.0, 7.0)):
        graph.add_node(v, depth=depth)
    graph.add_edge(0, 1, count=1, time=4.0)
    graph.add_edge(0, 2, count=3, time=9.0)
    rows = escape.transitions(graph).set_index("to")
    assert rows["of"].tolist() == [4, 4]
    wilson = rows.loc[[1], ["share", "low", "high"]].to_numpy(float)[0]
    assert wilson == pytest.approx([0.25, 0.0456, 0.6994], abs=1e-3)
    assert rows.loc[2, "share"] == 0.75


def test_empty_graphs_are_refused() -> None:
    with pytest.raises(ParameterError, match="legs = 0"):
        escape.follow(wells(2, 2, 1.0), [[0, 0]], temperature=1.0, replicas=1, legs=0, steps=10)
