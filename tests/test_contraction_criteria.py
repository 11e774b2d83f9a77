"""Four criteria of rapid mixing: what each bound says, against exact mixing times, and what a sampled matrix rules out."""

from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from test_chain import random_table
from test_contraction import Array, measure_all
from test_exact import random_joint

from glauber import ParameterError, exact
from glauber import contraction as con
from glauber.contraction.criteria import values_of


def by_criterion(table: exact.Table, temperature: float, eps: float) -> Any:
    return con.criteria(con.exact_influence(table.tables, temperature), eps).set_index("criterion")


def exactly(table: exact.Table, temperature: float, eps: float) -> int:
    return exact.mixing_time(exact.transition_matrix(table.tables, temperature), eps)


def swayed(n: int, pairs: list[tuple[int, int]], c: float) -> exact.Table:
    """Binary sites; site ``i`` leans to the token of ``j`` by the same log odds for each of the pairs ``(i, j)``: alone, c_ij = c."""
    states, logits = exact.enumerate_states(n, 2), np.zeros((n, 2**n, 2))
    for i, j in pairs:
        logits[i, :, 0] += np.where(states[:, j] == 0, 2.0, -2.0) * np.arctanh(c)
    return exact.Table(logits)


def copies(n: int, c: float) -> exact.Table:
    """A directed chain of copies: every site draws, as a rule, the token of the one before."""
    return swayed(n, [(i, i - 1) for i in range(1, n)], c)


def test_theorem_criteria_on_random_tables() -> None:
    applied, nearest = dict.fromkeys(con.CRITERIA, 0), dict.fromkeys(con.CRITERIA, 0.0)
    for seed in range(60):
        n, k = [(2, 4), (3, 3), (4, 2), (2, 2), (5, 2)][seed % 5]
        table = (random_table if seed % 2 else random_joint)(n, k, seed)
        for temperature in (0.5, 1.0, 2.0, 4.0):
            for eps in (0.25, 0.01):
                time, found = exactly(table, temperature, eps), by_criterion(table, temperature, eps)
                for name, steps in found["steps"].items():
                    assert time <= np.ceil(steps), f"{name}: t_mix = {time} steps, bound {steps:.1f}"
                    applied[str(name)] += np.isfinite(steps)
                    nearest[str(name)] = max(nearest[str(name)], time / steps)
    assert min(applied.values()) > 120
    assert min(nearest.values()) > 0.5  # a bound twice as good would be refused here


@pytest.mark.parametrize("c", [0.6, 0.95, 0.999])
@pytest.mark.parametrize("n", [4, 6, 8])
def test_the_radius_of_a_chain_of_copies_is_0_and_its_bound_needs_the_weights(n: int, c: float) -> None:
    table = copies(n, c)
    for eps in (0.25, 0.01):
        time, found = exactly(table, 1.0, eps), by_criterion(table, 1.0, eps)
        assert np.allclose(found.loc[["row_sum", "column_sum", "norm"], "value"], c)
        assert found.loc["radius", "value"] == 0
        assert (found["steps"] >= time).all()
        if c > 0.99:
            # The other three are next to useless, while the weights know that all is forgotten after about n**2 steps.
            assert found["steps"].drop("radius").min() > 10 * found.loc["radius", "steps"]
            assert found.loc["radius", "steps"] < 3 * n**2 + 3 * n * np.log(1 / eps)


def test_the_radius_with_the_constant_of_a_norm_is_refused() -> None:
    """Planted: n / (1 - radius) log(n / eps) is below the time that a chain of copies takes."""
    n, eps = 8, 0.25
    found = by_criterion(copies(n, 0.999), 1.0, eps)
    plain = con.t_mix_bound(n, float(found.loc["radius", "value"]), eps)
    assert plain < exactly(copies(n, 0.999), 1.0, eps) <= found.loc["radius", "steps"]
    # The rate of the weights with the constant of a norm is as wrong.
    w = con.weights(con.exact_influence(copies(n, 0.999).tables, 1.0), eps)
    assert found.loc["radius", "constant"] == pytest.approx(w.sum() / w.min()) and w.max() / w.min() > 10


def test_rows_columns_and_norm_can_disagree() -> None:
    """One site sways three, and three sway one: the sum that is small is that of rows, then that of columns."""
    out, into = [(i, 0) for i in range(1, 4)], [(0, j) for j in range(1, 4)]
    for pairs, small, large in ((out, "row_sum", "column_sum"), (into, "column_sum", "row_sum")):
        table = swayed(4, pairs, 0.4)
        found = by_criterion(table, 1.0, 0.01)
        assert found.loc[small, "value"] == pytest.approx(0.4)
        assert found.loc[large, "value"] == pytest.approx(1.2) and np.isinf(found.loc[large, "steps"])
        assert found.loc["radius", "value"] == 0
        assert exactly(table, 1.0, 0.01) <= found["steps"].min() < np.inf
        assert found.loc["norm", "value"] == pytest.approx(0.4 * 3**0.5)  # below 1, all the same


matrices = st.integers(1, 6).flatmap(
    lambda n: st.lists(st.sampled_from([0.0, 0.0, 1e-6, 0.1, 0.3, 0.9, 1.0]), min_size=n * n, max_size=n * n).map(
        lambda values: np.array(values).reshape(n, n) * ~np.eye(n, dtype=bool)
    )
)


@settings(max_examples=150, deadline=None)
@example(0.3 * (1 - np.eye(3)), 0.25)  # the column sums are the radius: rounding puts a level on it
@given(matrices, st.sampled_from([0.25, 0.01]))
def test_weights_are_positive_and_give_their_own_rate(c: Array, eps: float) -> None:
    found: Any = con.criteria(c, eps).set_index("criterion")
    w, rate = con.weights(c, eps), float(found.loc["radius", "rate"])
    assert (w > 0).all() and w.min() == 1
    assert (w @ c <= rate * w * (1 + 1e-12)).all()
    assert rate >= float(found.loc["radius", "value"]) * (1 - 1e-6) - 1e-6
    # Weights of 1 are among those tried, so that the bound is never above that of the column sum.
    assert found.loc["radius", "steps"] <= found.loc["column_sum", "steps"]
    assert (found.loc["radius", "value"] <= found["value"] * (1 + 1e-6) + 1e-6).all()
    # In w the disagreements shrink: 1 M^t 1 <= K (1 - (1 - s)/n)^t, the inequality of the proof.
    n = len(c)
    step = (1 - 1 / n) * np.eye(n) + c / n
    for t in (1, 5, 20):
        left = np.linalg.matrix_power(step, t).sum()
        for _, row in found.iterrows():
            if row["rate"] < 1:
                assert left <= row["constant"] * (1 - (1 - row["rate"]) / n) ** t * (1 + 1e-9)


@settings(max_examples=60, deadline=None)
@given(matrices, st.integers(0, 1000))
def test_a_part_of_the_entries_gives_a_lower_bound_on_each(c: Array, seed: int) -> None:
    part = c * np.random.default_rng(seed).uniform(size=c.shape)
    for (name, whole), less in zip(values_of(c).items(), values_of(part).values(), strict=True):
        assert less <= whole * (1 + 1e-6) + 1e-2 * (name == "radius"), (
            name
        )  # an eigenvalue of a defective matrix is inexact


def test_a_search_of_everything_finds_the_criteria_and_less_finds_no_more() -> None:
    table, taus = random_table(4, 3, 5), [0.3, 1.0, 5.0]
    whole = con.lower_bounds(measure_all(table, 4, taus))
    assert whole.groupby("scheme")["temperature"].apply(list).map(lambda t: t == taus).all()
    for tau in taus:
        wanted = values_of(con.exact_influence(table.tables, tau))
        for _, row in whole[whole["temperature"] == tau].iterrows():
            assert [row[name] for name in con.CRITERIA] == pytest.approx([float(v) for v in wanted.values()])
    states = exact.enumerate_states(4, 3)[::7]
    part = con.measure(table, states, temperatures=taus, substitutions=1, columns=2, schemes=["top"], seed=1)
    less = con.lower_bounds(part).set_index("temperature")
    most = whole[whole["scheme"] == "all"].set_index("temperature")
    assert (less[list(con.CRITERIA)] <= most[list(con.CRITERIA)] + 1e-12).all(axis=None)
    assert "gain" in less and less["gain"].isna().all()


def test_a_value_of_1_rules_out_its_criterion_alone() -> None:
    """One site sways four with c = 0.4: the column sum is 1.6, and the chain is fast by three other criteria."""
    table = swayed(5, [(i, 0) for i in range(1, 5)], 0.4)
    found = con.lower_bounds(measure_all(table, 5, [1.0, 5.0], ["uniform"]))
    out = con.ruled_out(found)
    assert list(out) == list(con.CRITERIA)
    assert (out["column_sum"].count, out["column_sum"].last) == (1, 1.0)
    assert [out[name].count for name in ("row_sum", "norm", "radius")] == [0, 0, 0]
    assert out["column_sum"].words == "1 of the 2 temperatures of the grid, the largest of them τ = 1"


@pytest.mark.parametrize(
    ("matrix", "eps", "words"),
    [
        ([[0.0, 0.1]], 0.25, "give a square one"),
        ([[0.0, 0.1], [0.1]], 0.25, "different lengths"),
        ([[0.0, np.nan], [0.1, 0.0]], 0.25, "holds nan: give all entries"),
        ([[0.0, -0.1], [0.1, 0.0]], 0.25, "holds -0.1"),
        ([["a", 0.1], [0.1, 0.0]], 0.25, "no real number"),
        ([[0.0, 0.1], [0.1, 0.0]], 1.0, "eps between 0 and 1"),
        (np.zeros((0, 0)), 0.25, "give a square one"),
    ],
)
def test_bad_matrices_are_refused(matrix: Any, eps: float, words: str) -> None:
    with pytest.raises(ParameterError, match=words):
        con.criteria(matrix, eps)


def test_a_constant_below_n_is_refused() -> None:
    with pytest.raises(ParameterError, match="K from n = 4"):
        con.t_mix_bound(4, 0.5, 0.25, constant=1.0)
