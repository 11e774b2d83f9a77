"""Margins, traps and escape times, against the theorem, closed forms and exact hitting times; planted errors fail."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_chain import random_table

from glauber import MaskedLM, ParameterError, escape, exact
from glauber.passages import read_passages, starting_states


@pytest.fixture(scope="module")
def begin(tiny64: MaskedLM) -> np.ndarray:
    return starting_states(tiny64.text.encode, read_passages(), 8, 6).states


def wells(n: int, k: int, depth: float, slope: float = 0.0) -> exact.Table:
    """A joint law that prefers equal tokens: ``depth`` nats per neighbour that agrees, ``slope`` nats per id."""
    states = exact.enumerate_states(n, k)
    agree = (states[:, 1:] == states[:, :-1]).sum(axis=1)
    return exact.from_joint((depth * agree + slope * states.sum(axis=1)).reshape((k,) * n))


def tight(n: int, k: int, margin: float) -> exact.Table:
    """Independent sites where token 0 leads all others, which are equal, by ``margin``: the theorem's extreme case."""
    row = np.concatenate([[margin], np.zeros(k - 1)])
    return exact.Table(np.broadcast_to(row, (n, k**n, k)).copy())


def check_escape_theorem(q: np.ndarray, margin: np.ndarray, tau: float, k: int, constant: float = 1.0) -> None:
    """``q <= (k - 1) exp(-m / tau)`` and ``1 / q >= exp(m / tau) / (k - 1)``; ``constant`` < 1 claims more than that."""
    bound = constant * escape.leave_bound(margin, tau, k)
    assert (q <= bound * (1 + 1e-9)).all(), "a state leaves faster than the theorem allows"
    assert (1 / q >= escape.escape_bound(margin, tau, k) / constant * (1 - 1e-9)).all(), (
        "a mean time is under the bound"
    )


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10_000), st.sampled_from([(2, 4), (3, 3), (4, 2), (1, 7)]), st.floats(0.1, 5))
def test_theorem_escape_one_step_on_random_tables(seed: int, shape: tuple[int, int], tau: float) -> None:
    n, k = shape
    table = random_table(n, k, seed)
    states = exact.enumerate_states(n, k)
    margin = escape.local_margins(table, states).min(axis=1)
    check_escape_theorem(escape.leaving_probability(table, states, tau), margin, tau, k)


def test_theorem_escape_one_step_on_a_network(tiny64: MaskedLM, begin: np.ndarray) -> None:
    settled = escape.descend(tiny64, begin, sweeps=6).states
    for states in (begin, settled):
        margin = escape.local_margins(tiny64, states).min(axis=1)
        for tau in (0.1, 0.3, 1.0):
            q = escape.leaving_probability(tiny64, states, tau)
            check_escape_theorem(q, margin, tau, len(tiny64.vocabulary))


@pytest.mark.parametrize("tau", [0.2, 0.5])
def test_theorem_escape_is_nearly_attained_and_twice_the_bound_is_rejected(tau: float) -> None:
    k, margin = 5, 2.5
    table, state = tight(3, k, margin), np.zeros((1, 3), int)
    assert np.allclose(escape.local_margins(table, state), margin)
    q = escape.leaving_probability(table, state, tau)
    odds = (k - 1) * np.exp(-margin / tau)
    assert np.allclose(q, odds / (1 + odds), rtol=1e-12)
    check_escape_theorem(q, np.array([margin]), tau, k)
    with pytest.raises(AssertionError, match="faster than the theorem"):
        check_escape_theorem(q, np.array([margin]), tau, k, constant=0.5)


def check_escape_from_set(table: exact.Table, tau: float, inside: np.ndarray, constant: float = 1.0) -> None:
    """``P(left within T) <= T (k - 1) exp(-m / tau)`` and the bound on the mean, by matrices, for a set of margin ``m``."""
    n, _, k = table.tables.shape
    margin = escape.local_margins(table, exact.enumerate_states(n, k))[inside].min()
    assert margin > 0
    within = exact.transition_matrix(table.tables, tau)[np.ix_(inside, inside)]
    for steps in (1, 2, 5, 20, 100):
        left = 1 - np.linalg.matrix_power(within, steps).sum(axis=1)
        bound = constant * escape.leave_bound(margin, tau, k, steps)
        assert (left <= bound + 1e-12).all(), "more left within T steps than the theorem allows"
    mean = np.linalg.solve(np.eye(len(within)) - within, np.ones(len(within)))
    assert (mean >= escape.escape_bound(margin, tau, k) / constant * (1 - 1e-6)).all()


def test_theorem_escape_from_sets_of_uniform_margin() -> None:
    checked = 0
    for seed in range(40):
        n, k = [(2, 4), (3, 3), (4, 2)][seed % 3]
        table = random_table(n, k, seed, spread=3.0)
        margin = escape.local_margins(table, exact.enumerate_states(n, k)).min(axis=1)
        if (margin > 0).any():
            for level in (0.0, np.median(margin[margin > 0])):
                check_escape_from_set(table, 0.4, np.flatnonzero(margin > level if level == 0 else margin >= level))
                checked += 1
    assert checked >= 40
    single = np.array([0])
    check_escape_from_set(tight(2, 4, 3.0), 0.5, single)
    with pytest.raises(AssertionError, match="within T steps"):
        check_escape_from_set(tight(2, 4, 3.0), 0.5, single, constant=0.5)


def test_margins_by_hand() -> None:
    row = np.array([1.0, 3.0, 2.5])
    table = exact.Table(np.broadcast_to(row, (2, 9, 3)).copy())
    assert np.allclose(escape.local_margins(table, [[0, 1], [2, 1]]), [[-2.0, 0.5], [-0.5, 0.5]])


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10_000), st.sampled_from([(2, 4), (3, 3)]), st.floats(0.3, 4))
def test_leaving_probability_is_the_diagonal(seed: int, shape: tuple[int, int], tau: float) -> None:
    table = random_table(*shape, seed)
    q = escape.leaving_probability(table, exact.enumerate_states(*shape), tau)
    assert np.allclose(1 - q, np.diag(exact.transition_matrix(table.tables, tau)), atol=1e-12)


def test_leaving_probability_far_below_rounding() -> None:
    q = escape.leaving_probability(tight(2, 3, 10.0), [[0, 0]], 0.05)
    assert np.log(q[0]) == pytest.approx(np.log(2) - 200, rel=1e-9)


@pytest.mark.parametrize("scan", ["sequential", "random"])
def test_descent_finds_the_argmax_fixed_point(scan: str) -> None:
    table = exact.from_joint(np.add.outer(np.array([0.0, 2.0, 1.0]), np.array([3.0, 0.0, 1.0])))
    end = escape.descend(table, exact.enumerate_states(2, 3), scan=scan)
    assert (end.states == [1, 0]).all()
    assert (end.outcome == "fixed").all()
    for seed in range(10):
        table = random_table(3, 4, seed)
        end = escape.descend(table, exact.enumerate_states(3, 4), scan=scan, seed=seed)
        margin = escape.local_margins(table, end.states).min(axis=1)
        assert (margin[end.outcome == "fixed"] >= 0).all()
        assert (margin[end.outcome != "fixed"] < 0).all()


@pytest.mark.filterwarnings("error")
def test_the_bound_is_infinite_where_floating_point_ends() -> None:
    assert escape.escape_bound([1.0, 0.0], 1e-4, 5).tolist() == [np.inf, 0.25]


def test_descent_names_a_cycle_once_and_keeps_ties() -> None:
    # Site 0 wants to differ from site 1, site 1 to agree with site 0: no fixed point.
    chase = np.zeros((2, 4, 2))
    for s, (a, b) in enumerate(exact.enumerate_states(2, 2)):
        chase[0, s, 1 - b] = chase[1, s, a] = 1.0
    end = escape.descend(exact.Table(chase), exact.enumerate_states(2, 2))
    assert (end.outcome == "cycle").all()
    assert (end.states == end.states[0]).all()
    assert (escape.descend(exact.Table(chase), [[0, 0]], scan="random", sweeps=7).outcome == "unsettled").all()
    flat = exact.Table(np.zeros((2, 9, 3)))
    assert np.array_equal(escape.descend(flat, [[2, 1]]).states, [[2, 1]])


def test_kinds_of_traps_on_constructed_tables() -> None:
    flat = np.array([[4.0, 0.0, 0.0], [3.9, 4.0, 0.0], [4.0, 0.0, 0.0], [0.0, 4.0, 0.0]])
    table = exact.Table(np.repeat(flat[:, None], 81, axis=1))
    states = [[0, 1, 0, 1], [0, 0, 0, 1], [0, 0, 2, 1], [0, 1, 2, 1]]
    kinds = escape.classify(table, states, temperature=1.0, threshold=20.0, share=0.75)
    assert kinds["kind"].tolist() == ["perfect trap", "drift basin", "none", "none"]
    assert kinds["perfect"].tolist() == [True, False, False, False]
    assert kinds["min margin"].tolist() == pytest.approx([0.1, -0.1, -4.0, -4.0])
    near = escape.classify(table, states, temperature=1.0, threshold=20.0, share=0.8)
    assert near["kind"].tolist()[1] == "near trap"
    assert (kinds["token"].tolist()[1], kinds["share"].tolist()[1]) == (0, 0.75)
    assert kinds["flickering"].tolist() == [0, 1, 2, 1]
    assert kinds["core time"].iloc[1] == pytest.approx(4 / (3 * 2 / (np.exp(4) + 2)))
    # A state that is not perfect cannot be held for 2n steps, whatever the temperature.
    for tau in (0.01, 1.0):
        assert (1 / escape.leaving_probability(table, states[1:], tau) < 8).all()
    assert np.allclose(kinds["holding time"], 1 / escape.leaving_probability(table, states, 1.0))


def test_search_finds_the_wells_ranked_and_once(tiny64: MaskedLM, begin: np.ndarray) -> None:
    table = wells(3, 3, 4.0, slope=0.5)
    found = escape.find_traps(
        table, exact.enumerate_states(3, 3), temperature=0.7, cold=0.3, threshold=100, moves=20, seed=1
    )
    assert found.states[0].tolist() == [2, 2, 2]
    assert {tuple(s) for s in found.states.tolist()} >= {(0, 0, 0), (1, 1, 1), (2, 2, 2)}
    assert len(np.unique(found.states, axis=0)) == len(found.states)
    assert found.table["holding time"].is_monotonic_decreasing
    again = escape.find_traps(tiny64, begin, temperature=0.3, cold=0.2, threshold=50, moves=15, sweeps=8)
    counts = again.outcomes.groupby("method")["count"].sum().drop("repeated token")
    assert counts.eq(len(begin)).all()
    q = escape.leaving_probability(tiny64, again.states, 0.3)
    assert np.allclose(again.table["holding time"], 1 / q)


def test_a_repeated_token_that_no_search_comes_to_is_in_the_list() -> None:
    """Descent from the wells of tokens 1 and 2 stays there; the deepest is that of token 0."""
    table = wells(3, 3, 4.0, slope=-0.5)
    arguments: dict[str, Any] = {"temperature": 0.7, "cold": 0.05, "threshold": 100, "moves": 0}
    starts = [[2, 2, 1], [1, 1, 2]]
    assert [0, 0, 0] not in escape.find_traps(table, starts, **arguments).states.tolist()
    found = escape.find_traps(table, starts, tokens=[0], **arguments)
    assert found.states[0].tolist() == [0, 0, 0]
    assert (found.table["kind"].iloc[0], found.table["method"].iloc[0]) == ("drift basin", "repeated token")
    assert found.table["start"].isna().tolist() == [True] + [False] * (len(found.table) - 1)


def test_nothing_in_the_drift_table_lasts_longer_than_the_longest_trap(tiny64: MaskedLM, begin: np.ndarray) -> None:
    """The drift table holds repeated tokens alone; each that is a trap is in the list, so that the headline is the longest of all."""
    tokens = escape.candidate_tokens(tiny64.text, begin, frequent=10)
    found = escape.find_traps(tiny64, begin, temperature=0.2, cold=0.2, moves=5, sweeps=5, tokens=tokens)
    asked = np.union1d(tokens, found.table.loc[found.table["share"] * 8 > 1.5, "token"])
    ranked = escape.search_tokens(tiny64, asked, begin, temperature=0.2, samples=1, keep=5)
    assert ranked["holding time"].max() > 1000
    assert ranked["holding time"].max() <= found.table["holding time"].max() * (1 + 1e-9)


def test_shaded_text_holds_every_number_and_is_escaped(tiny64: MaskedLM, begin: np.ndarray) -> None:
    margins = escape.local_margins(tiny64, begin[:1])[0]
    state = begin[0].copy()
    state[0] = tiny64.text.encode("<")[0][0]
    shown = escape.shade(tiny64.text, state, margins)
    for margin in margins:
        assert f"margin {margin:+.2f} nats" in shown
    assert "&lt;</span>" in shown
    assert shown.count("underline") - 2 == (margins < 0).sum()  # the legend has one of its own, and says the word


@pytest.mark.parametrize(
    ("change", "words"), [({"distance": 0}, "distance"), ({"replicas": 0}, "replicas"), ({"steps": 0}, "steps")]
)
def test_bad_input_is_refused(change: dict[str, int], words: str) -> None:
    arguments: dict[str, Any] = {"replicas": 2, "steps": 10, "distance": 1} | change
    with pytest.raises(ParameterError, match=words):
        escape.escape_times(random_table(2, 3, 0), [[0, 0]], temperatures=[1.0], **arguments)
    with pytest.raises(ParameterError, match="temperatures are empty"):
        escape.escape_times(random_table(2, 3, 0), [[0, 0]], temperatures=[], replicas=1, steps=1)
    with pytest.raises(ParameterError, match="scan"):
        escape.descend(random_table(2, 3, 0), [[0, 0]], scan="upwards")


@pytest.mark.parametrize(("states", "words"), [([[0, 0], [0]], "different lengths"), ([[0, 0.5]], "token id 0.5")])
def test_odd_states_are_refused(states: list[list[float]], words: str) -> None:
    table = random_table(2, 3, 0)
    with pytest.raises(ParameterError, match=words):
        escape.descend(table, states)
    with pytest.raises(ParameterError, match=words):
        escape.classify(table, states, temperature=1.0, threshold=1.0)
    with pytest.raises(ParameterError, match=words):
        escape.find_traps(table, states, temperature=1.0, cold=1.0)
    good: Any = [[0, 1]]
    rest: dict[str, Any] = {"temperature": 1.0, "samples": 1}
    raw = escape.escape_times(table, good, temperatures=[1.0], replicas=1, steps=5)
    calls: list[Any] = [
        lambda: escape.up_down(table, states, 1, 1.0),
        lambda: escape.summarise(table, states, raw),
        lambda: escape.fill(table, 1, [1], kind="passage", samples=1, texts=states),
        lambda: escape.visited(table, states, temperature=1.0, moves=1),
        lambda: escape.adversarial(table, states, 1, temperature=1.0, rounds=1, tries=1, texts=good),
        lambda: escape.adversarial(table, good, 1, temperature=1.0, rounds=1, tries=1, texts=states),
        lambda: escape.profile(table, 1, states, **rest),
        lambda: escape.search_tokens(table, [1], states, **rest),
        lambda: escape.fall_times(table, 1, states, 0, temperature=1.0, steps=5),
    ]
    for call in calls:
        with pytest.raises(ParameterError, match=words):
            call()


LOOSE: Any = escape  # what a caller without a type checker can do


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda t: LOOSE.up_down(t, [[0, 0]], 1, 0.0), "temperature 0"),
        (lambda t: LOOSE.up_down(t, [[0, 0]], 0.5, 1.0), "token id 0.5"),
        (lambda t: LOOSE.up_down(t, [[0, 0]], [0, 1, 2], 1.0), "3 tokens for 1 states"),
        (lambda t: LOOSE.profile(t, 1, [[0, 0]], temperature=np.nan, samples=1), "temperature nan"),
        (lambda t: LOOSE.profile(t, 1, [[0, 0]], temperature=1.0, samples=1.5), "samples = 1.5"),
        (lambda t: LOOSE.search_tokens(t, [1], [[0, 0]], temperature="cold", samples=1), "cold"),
        (lambda t: LOOSE.search_tokens(t, [1.5], [[0, 0]], temperature=1.0, samples=1), "token id 1.5"),
        (lambda t: LOOSE.classify(t, [[0, 0]], temperature=-1.0, threshold=1.0), "temperature -1"),
        (lambda t: LOOSE.classify(t, [[0, 0]], temperature=1.0, threshold=np.nan), "threshold = nan"),
        (lambda t: LOOSE.classify(t, [[0, 0]], temperature=1.0, threshold=1.0, share=1.5), "share = 1.5"),
        (lambda t: LOOSE.find_traps(t, [[0, 0]], temperature=1.0, cold=0.0, moves=0), "temperature 0"),
        (lambda t: LOOSE.find_traps(t, [[0, 0]], temperature=1.0, cold=1.0, moves=2.5), "moves = 2.5"),
        (lambda t: LOOSE.find_traps(t, [[0, 0]], temperature=1.0, cold=1.0, tokens=[9]), "token id 9"),
        (lambda t: LOOSE.descend(t, [[0, 0]], sweeps=1.5), "sweeps = 1.5"),
        (lambda t: LOOSE.descend(t, [[0, 0]], seed=-1), "seed = -1"),
        (lambda t: LOOSE.escape_times(t, [[0, 0]], temperatures=["x"], replicas=1, steps=1), "x"),
        (lambda t: LOOSE.escape_times(t, [[0, 0]], temperatures=[0.0], replicas=1, steps=1), "temperature 0"),
        (lambda t: LOOSE.escape_times(t, [[0, 0]], temperatures=[1.0], replicas=1.5, steps=1), "replicas = 1.5"),
    ],
)
def test_odd_numbers_are_refused(call: Any, words: str) -> None:
    with pytest.raises(ParameterError, match=words):
        call(random_table(2, 3, 0))
