"""Influence and the mixing bound: the theorem and the lemma of the section Contraction, against exact enumeration."""

from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
import xarray as xr
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.special import softmax
from test_chain import random_table
from test_exact import random_joint

from glauber import MaskedLM, ParameterError, coupling, exact, survival
from glauber import contraction as con
from glauber.figures import contraction as figures
from glauber.passages import read_passages, starting_states

Array = NDArray[np.float64]


def osc(values: Array) -> Array:
    return np.asarray(values.max(axis=-1) - values.min(axis=-1))


def tv(p: Array, q: Array) -> Array:
    return exact.total_variation(p, q)


# The lemma


@settings(max_examples=200, deadline=None)
@given(st.lists(st.tuples(st.floats(-40, 40), st.floats(-40, 40)), min_size=2, max_size=40))
def test_lemma_oscillation(pairs: list[tuple[float, float]]) -> None:
    u, v = np.array(pairs).T
    assert tv(softmax(u), softmax(v)) <= np.tanh(osc(u - v) / 4) + 1e-12


@settings(max_examples=100, deadline=None)
@given(st.integers(1, 20), st.integers(1, 20), st.floats(0.001, 20), st.floats(-20, 20), st.floats(-5, 5))
def test_lemma_oscillation_on_shifted_blocks(first: int, second: int, delta: float, level: float, odd: float) -> None:
    """Adversarial: all of a block shifted by the whole oscillation. Tight where the shift takes the odds from r to 1/r."""
    block = np.repeat([1.0, 0.0], [first, second])
    u = level * block
    assert tv(softmax(u), softmax(u + delta * block)) <= np.tanh(delta / 4) + 1e-12
    u = (np.log(second / first) - delta / 2) * block
    shifted = u + delta * block + odd
    assert tv(softmax(u), softmax(shifted)) == pytest.approx(np.tanh(delta / 4), abs=1e-12)


# The contraction theorem


def alpha_of(table: exact.Table, temperature: float) -> float:
    return float(con.exact_influence(table.tables, temperature).sum(axis=0).max())


def check_mixing_bound(table: exact.Table, temperature: float, eps: float, factor: float = 1.0) -> float:
    """Theorem "Contraction" on one chain, its bound scaled by ``factor``; returns exact time over bound."""
    n = len(table.tables)
    bound = factor * con.t_mix_bound(n, alpha_of(table, temperature), eps)
    exactly = exact.mixing_time(exact.transition_matrix(table.tables, temperature), eps)
    assert exactly <= np.ceil(bound), f"t_mix = {exactly} steps, bound {bound:.1f}"
    return exactly / bound


def test_theorem_contraction_on_random_tables() -> None:
    applied, nearest = 0, 0.0
    for seed in range(60):
        n, k = [(2, 4), (3, 3), (4, 2), (2, 2), (5, 2)][seed % 5]
        table = (random_table if seed % 2 else random_joint)(n, k, seed)
        for temperature in (1.0, 2.0, 4.0, 8.0):
            if alpha_of(table, temperature) < 1:
                for eps in (0.25, 0.01):
                    nearest = max(nearest, check_mixing_bound(table, temperature, eps))
                    applied += 1
    assert applied > 150
    # Some chain comes near the bound, so that a bound twice as good would be refused here.
    assert nearest > 0.5


@pytest.mark.parametrize("sites", [3, 4])
def test_half_the_bound_is_refused_on_independent_sites(sites: int) -> None:
    """alpha = 0: a chain of independent sites needs more than half of n log(n / eps) steps where eps is small."""
    table = exact.Table(np.zeros((sites, 2**sites, 2)))
    assert alpha_of(table, 1.0) == 0
    assert check_mixing_bound(table, 1.0, 1e-3) > 0.6
    with pytest.raises(AssertionError, match="t_mix"):
        check_mixing_bound(table, 1.0, 1e-3, factor=0.5)


@pytest.mark.parametrize("influence", [0.5, 0.9, 0.99])
def test_half_the_bound_is_refused_on_two_sites_that_copy_each_other(influence: float) -> None:
    """c_12 = c_21 = alpha: the slowest mode decays by exactly 1 - (1 - alpha)/2 per step, so 1 - alpha is the right rate."""
    strength = np.arctanh(influence)
    table = exact.from_joint(strength * np.array([[1.0, -1.0], [-1.0, 1.0]]))
    assert alpha_of(table, 1.0) == pytest.approx(influence)
    assert check_mixing_bound(table, 1.0, 1e-3) > 0.6
    with pytest.raises(AssertionError, match="t_mix"):
        check_mixing_bound(table, 1.0, 1e-3, factor=0.5)


def test_rows_are_swayed_and_columns_sway() -> None:
    """One site sways two that ignore each other: each row sum is c, the column sum 2c."""
    c = 0.8
    logits = np.zeros((3, 8, 2))
    first = exact.enumerate_states(3, 2)[:, 0]
    logits[1:, :, 0] = np.where(first == 0, 2.0, -2.0) * np.arctanh(c)
    matrix = con.exact_influence(logits, 1.0)
    assert np.allclose(matrix, np.array([0, c, c])[:, None] * np.array([1, 0, 0]))
    found = con.lower_bounds(measure_all(exact.Table(logits), 3, [1.0], ["uniform"])).iloc[0]
    assert (found["column_sum"], found["row_sum"]) == (pytest.approx(2 * c), pytest.approx(c))


# The estimator


def measure_all(table: exact.Table, n: int, taus: list[float], schemes: list[str] | None = None) -> xr.Dataset:
    """Every context and every substitution."""
    k = len(table.vocabulary)
    states = exact.enumerate_states(n, k)
    return con.measure(table, states, temperatures=taus, substitutions=k - 1, schemes=schemes or con.SCHEMES)


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 10_000), st.sampled_from([(2, 4), (3, 3), (4, 2)]))
def test_all_contexts_give_the_influence_matrix_and_its_mean(seed: int, shape: tuple[int, int]) -> None:
    n, k = shape
    table, states, taus = random_table(n, k, seed), exact.enumerate_states(n, k), [0.3, 1.0, 5.0]
    found = measure_all(table, n, taus)
    for tau in taus:
        matrix = con.exact_influence(table.tables, tau)
        assert np.allclose(found["max"].sel(temperature=tau), matrix, atol=1e-12)
        law = softmax(table.tables / tau, axis=2)
        for i, j in [(0, 1), (n - 1, 0)]:
            stride = k ** (n - 1 - j)
            shifts = [
                tv(law[i, s], law[i, s + (v - x[j]) * stride])
                for s, x in enumerate(states)
                for v in range(k)
                if v != x[j]
            ]
            assert float(found["mean"].sel(scheme="greedy", temperature=tau, i=i, j=j)) == pytest.approx(
                np.mean(shifts)
            )
            assert int(found["count"][i, j]) == len(shifts)


def test_a_network_on_a_restricted_space(tiny64: MaskedLM) -> None:
    begin = starting_states(tiny64.text.encode, read_passages(), 12, 1)
    table = exact.tabulate(exact.restrict(tiny64, begin.states[0], [4, 5, 6], k=4), 3)
    found = measure_all(table, 3, [0.5, 2.0])
    for tau in (0.5, 2.0):
        assert np.allclose(found["max"].sel(temperature=tau), con.exact_influence(table.tables, tau), atol=1e-12)
    assert con.exact_influence(table.tables, 0.5).max() > 0.05


def loud_table(seed: int) -> exact.Table:
    """Weak influence, except that one token in 12 at each site sways the next site."""
    tables = random_table(3, 12, seed, spread=0.3).tables.copy()
    states = exact.enumerate_states(3, 12)
    for i in range(3):
        tables[i, states[:, (i + 1) % 3] == 7, :4] += 4.0
    return exact.Table(tables)


def test_a_search_finds_more_than_chance_and_never_more_than_there_is() -> None:
    better = 0
    for seed in range(20):
        table = loud_table(seed)
        states = np.random.default_rng(seed).integers(0, 12, (6, 3))
        found = con.measure(table, states, temperatures=[1.0, 3.0], substitutions=4, seed=seed)
        for t, tau in enumerate((1.0, 3.0)):
            assert (found["max"][:, t].to_numpy() <= con.exact_influence(table.tables, tau) + 1e-12).all()
        rows = con.lower_bounds(found)
        hot = rows[rows["temperature"] == 1.0].set_index("scheme")
        sums = {str(scheme): float(value) for scheme, value in hot["column_sum"].items()}
        better += sums["greedy"] >= sums["uniform"]
        assert sums["all"] >= max(sums.values()) - 1e-12
        assert float(hot["gain"].loc["greedy"]) == pytest.approx(sums["greedy"] / sums["uniform"] - 1)
    assert better >= 15


def test_subsampled_positions_are_entries_of_the_whole_and_chunks_do_not_matter(
    tiny: MaskedLM, monkeypatch: pytest.MonkeyPatch
) -> None:
    states = starting_states(tiny.text.encode, read_passages(), 8, 2).states
    arguments: dict[str, Any] = {"temperatures": [0.5, 2.0], "substitutions": 3, "schemes": ["top"], "seed": 3}
    whole = con.measure(tiny, states, **arguments)
    part = con.measure(tiny, states, columns=3, rows=4, **arguments)
    known = ~np.isnan(part["max"])
    assert int(known[0, 0].sum()) == 12
    assert np.allclose(part["max"].where(known, 0), whole["max"].where(known, 0), atol=1e-5)
    assert (con.lower_bounds(part)["column_sum"] <= con.lower_bounds(whole)["column_sum"] + 1e-5).all()
    monkeypatch.setattr("glauber.contraction.influence.ELEMENTS", 1)
    assert np.allclose(con.measure(tiny, states, **arguments)["max"], whole["max"], atol=1e-5)


def test_influence_of_a_network_is_the_distance_of_its_laws(tiny64: MaskedLM) -> None:
    text = starting_states(tiny64.text.encode, read_passages(), 8, 1).states
    found = con.measure(tiny64, text, temperatures=[0.7], substitutions=1, schemes=["top"])
    i, j = 2, 5
    at_i, at_j = torch.tensor([i]), torch.tensor([j])
    own, ranked = text[0, j], tiny64.conditional_logits(torch.from_numpy(text), at_j)[0].argsort(descending=True)
    top = next(v for v in tiny64.vocabulary[ranked.numpy()] if v != own)
    other = text.copy()
    other[0, j] = top
    laws = [softmax(tiny64.conditional_logits(torch.from_numpy(t), at_i).numpy() / 0.7) for t in (text, other)]
    assert float(found["max"][0, 0, i, j]) == pytest.approx(float(tv(*laws)[0]), abs=1e-10)
    assert float(found["mean"][0, 0, i, j]) == pytest.approx(float(tv(*laws)[0]), abs=1e-10)


def test_by_distance_averages_every_pair() -> None:
    found = measure_all(random_table(4, 2, 1), 4, [1.0], ["uniform"])
    table = con.by_distance(found).set_index("distance")
    matrix = found["max"][0, 0].to_numpy()
    assert table["pairs"].tolist() == [6, 4, 2]
    assert table.loc[3, "typical"] == pytest.approx((matrix[0, 3] + matrix[3, 0]) / 2)
    assert table.loc[2, "largest"] == pytest.approx(max(matrix[0, 2], matrix[2, 0], matrix[1, 3], matrix[3, 1]))


def test_crossing_is_the_last_one_or_says_why_there_is_none() -> None:
    assert con.crossing([1, 2, 4, 8], [0.5, 3.0, 1.5, 0.5]).temperature == pytest.approx(4 * 2**0.5)
    assert con.crossing([8, 1], [0.5, 2.0]).temperature == pytest.approx(8 ** (2 / 3))
    for values, words in (([3.0, 2.0], "still 2"), ([0.3, 0.2], "below 1")):
        found = con.crossing([1, 2], values)
        assert np.isnan(found.temperature)
        assert words in found.reason
    with pytest.raises(ParameterError, match="do not match"):
        con.crossing([1, 2], [1.0])
    # What was found, whatever lies between: here 1 is below the level, 2 and 8 are not, 4 is.
    found = con.crossing([4, 1, 16, 2, 8], [0.9, 0.5, 0.1, 3.0, 1.0])
    assert (found.last, found.count) == (8, 2)
    none, hottest = con.crossing([1, 2], [0.3, 0.2]), con.crossing([1, 2], [3.0, 2.0])
    assert np.isnan(none.last) and none.count == 0
    assert (hottest.last, hottest.count) == (2, 2)
    assert hottest.words == "2 of the 2 temperatures of the grid, the largest of them τ = 2"
    assert none.words == "none of the 2 temperatures of the grid"


def test_means_by_context_average_to_the_mean() -> None:
    table = random_table(4, 3, 3)
    states = np.array([[0, 1, 2, 0], [2, 2, 1, 0], [1, 0, 0, 1]])
    found = con.measure(table, states, temperatures=[0.5, 2.0], substitutions=2, columns=3, seed=1)
    keys = ["scheme", "temperature"]
    each = con.by_context(found)
    assert each.groupby(keys).size().eq(3).all()
    wanted = con.lower_bounds(found).query("scheme != 'all'").set_index(keys)["mean"]
    assert np.allclose(each.groupby(keys, sort=False)["mean"].mean(), wanted)
    near = con.by_context(found, distance=1).groupby(keys, sort=False)["mean"].mean()
    binned = con.by_distance(found)
    assert np.allclose(near, binned[binned["distance"] == 1].set_index(keys)["mean"].reindex(near.index))
    # A context alone is the one of a measurement of it alone, where nothing is drawn.
    alone = con.measure(table, states[:1], temperatures=[0.5, 2.0], substitutions=2, schemes=["top"])
    whole = con.measure(table, states, temperatures=[0.5, 2.0], substitutions=2, schemes=["top"])
    first = con.by_context(whole).query("context == 0")["mean"]
    assert np.allclose(first, con.lower_bounds(alone)["mean"])


# Meeting times and figures


def test_coupled_chains_meet_within_the_bound_of_the_theorem() -> None:
    """P(T_c > t) <= n exp(-(1 - alpha) t / n) for pairs under the maximal coupling, at a start that differs everywhere."""
    table = random_table(4, 3, 2)
    tau = 12.0
    alpha = alpha_of(table, tau)
    assert 0.1 < alpha < 1
    starts = np.tile([[0, 0, 0, 0], [1, 1, 1, 1]], (2000, 1, 1))
    coupled = coupling.couple(table, starts, temperature=tau, steps=200, seed=1)
    for t in (10, 15, 20, 30):
        late = float((coupled["time"] > t).mean())
        assert late <= 4 * np.exp(-(1 - alpha) * t / 4) + 3 * (late / 2000) ** 0.5


def test_figures_draw_also_where_little_is_known() -> None:
    found = measure_all(random_table(3, 3, 0), 3, [0.5, 5.0])
    rows = con.lower_bounds(found)
    table = random_table(3, 3, 0)
    starts = np.tile([[0, 0, 0], [1, 1, 1]], (4, 1, 1))
    coupled = coupling.couple(table, starts, temperature=[0.02, 0.02, 3.0, 3.0], steps=12, seed=0)
    points = survival.medians(coupled[["temperature", "time", "censored"]].to_dataframe(), ["temperature"])
    bounds = rows.assign(steps=1.0)[["temperature", "steps"]]
    drawn = [
        figures.influence_map(found, con.by_distance(found), 0.5),
        figures.criteria_curves(rows, float("nan")),
        figures.criteria_by_length(rows[rows["scheme"] == "uniform"].assign(n=3), 0.5),
        figures.two_sided(points, bounds, 2.0, 1.0),
        figures.two_sided(
            points.assign(low=np.inf, median=np.inf, high=np.inf, censored=1.0), bounds, 0.0, float("nan")
        ),
        # One pair has a median and no interval; a bound can be infinite.
        figures.two_sided(points.assign(low=np.inf, median=3.0, high=np.inf), bounds.assign(steps=np.inf), 2.0, 1.0),
    ]
    for figure in drawn:
        figure.draw_without_rendering()


def test_a_limit_that_is_unknown_is_drawn_open() -> None:
    points = pd.DataFrame(
        {"temperature": [1.0, 2.0], "median": [30.0, 20.0], "low": [10.0, 8.0], "high": [np.inf, 40.0], "censored": 0.0, "count": 6,
         "budget": [90, 60]}
    )  # fmt: skip
    figure = figures.two_sided(points, pd.DataFrame({"temperature": [9.0], "steps": [5.0]}), 8.0, float("nan"))
    drawn: dict[Any, set[float]] = {"_": set(), "^": set()}
    for line in figure.axes[0].lines:
        marker: Any = line.get_marker()
        drawn.get(marker, set()).update(np.ravel(line.get_ydata()).tolist())
    assert drawn == {"_": {10.0, 8.0, 40.0}, "^": {90.0}}


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"substitutions": 0}, "substitutions"),
        ({"substitutions": 3}, "substitutions"),
        ({"substitutions": 1.5}, "substitutions = 1.5 is refused: give a whole number"),
        ({"seed": -1}, "seed = -1 is refused"),
        ({"columns": 4}, "columns"),
        ({"rows": 0}, "rows"),
        ({"schemes": ["best"]}, "schemes"),
        ({"schemes": []}, "schemes"),
        ({"temperatures": [1.0, -1.0]}, "temperature -1.0 is refused: give one from 0.0001 to 1,000,000"),
        ({"temperatures": [1e-5]}, "temperature 1e-05 is refused"),
        ({"temperatures": 1e7}, "temperature 10000000.0 is refused"),
        ({"temperatures": []}, "temperatures have shape"),
        ({"states": np.zeros((0, 3), int)}, "states"),
        ({"states": np.full((1, 3), 9)}, "token id 9"),
        ({"states": [[0, 1, 2], [0, 1]]}, "rows of states have different lengths"),
        ({"states": [[0.5, 1, 2]]}, "token id 0.5 is no whole number"),
        ({"states": [[0]]}, "rows of 2 tokens or more"),
        ({"temperatures": ["hot"]}, "'hot' in temperatures is no real number"),
    ],
)
def test_bad_input_is_refused(change: dict[str, Any], words: str) -> None:
    arguments: dict[str, Any] = {"states": np.zeros((1, 3), int), "temperatures": 1.0, "substitutions": 1} | change
    with pytest.raises(ParameterError, match=words) as caught:
        con.measure(random_table(3, 3, 0), arguments.pop("states"), **arguments)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("temperature", [0.0, -1.0, 1e-5, np.inf, np.nan, "hot", [1.0, 2.0]])
def test_exact_influence_takes_the_temperatures_of_a_run(temperature: Any) -> None:
    with pytest.raises(ParameterError, match="temperature"):
        con.exact_influence(random_table(2, 2, 0).tables, temperature)
