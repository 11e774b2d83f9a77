"""The rectangle test and its companions, against closed forms, compatible nulls and exact enumeration."""

from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
import xarray as xr
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from test_chain import random_table
from test_exact import random_joint

from glauber import CausalLM, MaskedLM, ParameterError, engines, exact, figures
from glauber import incompatibility as inc
from glauber.models import random_causal
from glauber.passages import read_passages, starting_states


@pytest.fixture(scope="module")
def begin(tiny: MaskedLM) -> np.ndarray:
    return starting_states(tiny.text.encode, read_passages(), 16, 6).states


@pytest.fixture(scope="module")
def causal(tiny: MaskedLM) -> CausalLM:
    return random_causal(tiny.text.tokenizer, seed=3)


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10_000), st.sampled_from([(2, 4), (3, 3), (4, 2)]), st.floats(0.05, 10))
def test_theorem_rectangle_compatible_means_every_rectangle_vanishes(
    seed: int, shape: tuple[int, int], temperature: float
) -> None:
    """Theorem "Rectangle test", first half, on every rectangle of the space."""
    n, k = shape
    states = exact.enumerate_states(n, k)
    grids = inc.measure(random_joint(n, k, seed), states, pairs=n * (n - 1) // 2, candidates=k, scheme="top")
    assert inc.rectangle_table(grids, temperature)["D"].abs().max() * temperature < 1e-9


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10_000), st.sampled_from([(2, 4), (3, 3)]))
def test_theorem_rectangle_vanishing_rectangles_mean_compatible(seed: int, shape: tuple[int, int]) -> None:
    """Theorem "Rectangle test", second half: perturb a joint's conditionals, and some rectangle sees it."""
    n, k = shape
    table = random_joint(n, k, seed)
    by_site = table.tables[0].reshape(*(k,) * n, k).copy()
    by_site[..., 0, 0] += 0.5  # the logit of token 0 at site 0 while the last site holds 0
    spoiled = exact.Table(np.concatenate([by_site.reshape(1, k**n, k), table.tables[1:]]))
    states = exact.enumerate_states(n, k)
    grids = inc.measure(spoiled, states, pairs=n * (n - 1) // 2, candidates=k, scheme="top")
    assert inc.rectangle_table(grids)["D"].abs().max() == pytest.approx(0.5, abs=1e-9)
    assert exact.entropy_production(spoiled.tables, 1.0) > 1e-5


def test_a_two_by_two_grid_by_hand() -> None:
    # l_i(a; b): rows b, columns a. l_j(b; a): rows a, columns b.
    grids = inc.Grids(
        np.array([0]), np.array([1]), np.array([4]), np.array([[7, 8]]), np.array([[5, 6]]),
        np.array([[[0.0, 1.0], [0.0, 3.0]]]), np.array([[[0.0, 0.5], [0.0, -0.5]]]),
    )  # fmt: skip
    row = inc.rectangle_table(grids, temperature=2.0).iloc[0]
    # path 1: (1 - 0) + (-0.5 - 0); path 2: (0.5 - 0) + (3 - 0); both halved by the temperature.
    assert (row["path1"], row["path2"], row["D"]) == (0.25, 1.75, -1.5)
    assert row["distance"] == 3


def test_rectangles_count_and_discrepancy_has_the_closed_form(tiny64: MaskedLM, begin: np.ndarray) -> None:
    grids = inc.measure(tiny64, begin, pairs=4, candidates=4, seed=2)
    table = inc.rectangle_table(grids)
    assert len(table) == 6 * 4 * 6**2
    # D is the mixed second difference of l_i - l_j over the grid.
    g = grids.logit_i.transpose(0, 2, 1) - grids.logit_j
    t = table
    mixed = g[t.grid, t.a2, t.b] - g[t.grid, t.a, t.b] - g[t.grid, t.a2, t.b2] + g[t.grid, t.a, t.b2]
    assert np.allclose(t["D"], mixed, atol=1e-12)


def test_logits_of_a_grid_are_the_models(tiny64: MaskedLM, begin: np.ndarray) -> None:
    grids = inc.measure(tiny64, begin, pairs=2, candidates=3, scheme="uniform", seed=4)
    for g, b, a in [(0, 0, 0), (3, 1, 2), (11, 2, 1)]:
        text = torch.from_numpy(begin[grids.passage[g]].copy())[None]
        text[0, grids.j[g]] = int(grids.tokens_j[g, b])
        row = tiny64.conditional_logits(text, torch.from_numpy(grids.i[g : g + 1]))[0]
        assert row[np.searchsorted(tiny64.vocabulary, grids.tokens_i[g, a])] == pytest.approx(
            grids.logit_i[g, b, a], abs=1e-9
        )


def test_masked_model_stands_orders_above_control_and_rounding(
    tiny: MaskedLM, tiny64: MaskedLM, causal: CausalLM, begin: np.ndarray
) -> None:
    single = inc.measure(tiny, begin, pairs=6, candidates=4, seed=1)
    double = inc.remeasure(tiny64, begin, single)
    control = inc.measure(causal, begin, pairs=2, candidates=4, seed=1)
    noise = inc.noise_floor(single, double, "float32 against float64")
    assert noise["source"].tolist() == ["float32 against float64"]
    assert noise["rectangles"].iloc[0] == len(inc.rectangle_table(single))
    assert 0 < noise["median"].iloc[0] < noise["max"].iloc[0] < 1e-3
    assert inc.rectangle_table(control)["D"].abs().max() < 1e-4
    assert inc.rectangle_table(single)["D"].abs().mean() > 100 * noise["max"].iloc[0]
    # The control's paths are far from 0, so that its D = 0 says something.
    assert inc.rectangle_table(control)["path1"].abs().mean() > 0.1


def test_the_noise_floor_of_float64_is_that_of_its_batches(tiny64: MaskedLM, begin: np.ndarray) -> None:
    whole = inc.measure(tiny64, begin[:3], pairs=4, candidates=4, seed=1)
    assert inc.noise_floor(whole, inc.remeasure(tiny64, begin[:3], whole), "twice")["max"].iloc[0] == 0
    single = MaskedLM(tiny64.network, tiny64.text.tokenizer, "one row a batch", budget=1)
    floor = inc.noise_floor(whole, inc.remeasure(single, begin[:3], whole), "one row a batch")["max"].iloc[0]
    assert floor < 1e-11


@pytest.mark.parametrize("floor", [0.0, 1e-14, 1e-5])
def test_the_distribution_is_drawn_whatever_the_floor(floor: float) -> None:
    figure = figures.discrepancy_distribution({"ours": pd.Series([0.0, 1e-3, -0.2, 0.5])}, floor)
    (line,) = [line for line in figure.axes[0].lines if line.get_linestyle() == "--"]
    assert np.asarray(line.get_xdata())[0] == pytest.approx(max(np.log10(floor) if floor else -9, -9))
    figure.draw_without_rendering()


def test_the_control_is_an_identity_for_any_function_of_the_text() -> None:
    """Its ``D`` vanishes whatever stands in place of the log-probability: it checks the sums, not the model."""

    class Anything:
        vocabulary, device = np.arange(6), torch.device("cpu")

        def candidate_logits(self, states: torch.Tensor, positions: torch.Tensor, tokens: torch.Tensor) -> torch.Tensor:
            filled = states[:, None].repeat(1, tokens.shape[1], 1)
            filled[torch.arange(len(states))[:, None], torch.arange(tokens.shape[1]), positions[:, None]] = tokens
            return torch.sin(filled.double() ** 2 @ torch.tensor([1.0, 3.0, 7.0, 13.0]).double()) * 100

        def proposal_logits(self, states: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
            return torch.zeros(len(states), 6)

    source: Any = Anything()
    grids = inc.measure(source, np.array([[0, 1, 2, 3], [5, 5, 0, 1]]), pairs=4, candidates=3, seed=2)
    table = inc.rectangle_table(grids)
    assert table["path1"].abs().mean() > 10
    assert table["D"].abs().max() < 1e-10
    swapped = inc.Grids(**{**vars(grids), "logit_j": grids.logit_j.transpose(0, 2, 1)})
    assert inc.rectangle_table(swapped)["D"].abs().max() > 1  # an index that is wrong shows


def test_control_is_zero_though_each_context_is_evaluated_apart(causal: CausalLM, begin: np.ndarray) -> None:
    one_row = CausalLM(causal.network, causal.text.tokenizer, "one row a batch", budget=1)
    grids = inc.measure(one_row, begin[:2], pairs=2, candidates=3, scheme="uniform", seed=5)
    assert inc.rectangle_table(grids)["D"].abs().max() < 1e-4


def test_draws_of_a_passage_depend_on_seed_and_row_alone(tiny: MaskedLM, begin: np.ndarray) -> None:
    together = inc.measure(tiny, begin, pairs=3, candidates=3, seed=8)
    fewer = inc.measure(tiny, begin[:2], pairs=3, candidates=3, seed=8)
    assert np.array_equal(together.tokens_i[:6], fewer.tokens_i)
    assert not np.array_equal(inc.measure(tiny, begin[:2], pairs=3, candidates=3, seed=9).i, fewer.i)


def test_conditional_candidates_follow_the_conditional() -> None:
    table = random_table(2, 5, seed=3)
    states = np.zeros((4000, 2), int)
    grids = inc.measure(table, states, pairs=1, candidates=2, scheme="conditional", temperature=1.3, seed=0)
    law = np.exp(table.tables[0, 0] / 1.3)
    law /= law.sum()
    counts = np.bincount(grids.tokens_i[:, 0], minlength=5)
    assert (np.abs(counts / 4000 - law) < 4.5 * np.sqrt(law * (1 - law) / 4000)).all()


def test_bootstrap_interval_covers_a_known_mean() -> None:
    """Planted mean |D| over passages: about 95 of 100 intervals hold it."""
    rng = np.random.default_rng(0)
    hits = 0
    for trial in range(100):
        level = rng.gamma(4.0, 0.25, size=30)  # mean 1 over passages
        d = np.repeat(level, 5)
        table = pd.DataFrame({"passage": np.repeat(np.arange(30), 5), "D": d, "path1": d, "path2": 0 * d})
        rows = inc.summarise(table, 0.0, resamples=199, seed=trial)
        assert rows["statistic"].iloc[0] == "mean |D|"
        hits += bool(rows["low"].iloc[0] <= 1.0 <= rows["high"].iloc[0])
    assert 85 <= hits <= 99


def test_summaries_by_hand() -> None:
    table = pd.DataFrame(
        {
            "passage": [0, 0, 1, 1],
            "D": [1.0, -1.0, 0.0, 2.0],
            "path1": [1.0, 0.0, 2.0, 2.0],
            "path2": [0.0, 1.0, 2.0, 0.0],
        }
    )
    rows = inc.summarise(table, 0.5).set_index("statistic")["estimate"]
    assert rows["mean |D|"] == 1.0
    assert rows["median |D|"] == 1.0
    assert rows["share above the noise floor"] == 0.75
    assert rows["normalised, mean of ratios"] == 0.75  # 1, 1, 0, 1
    assert rows["normalised, ratio of means"] == 0.5  # 4 / (1 + 1 + 4 + 2)
    alone = inc.summarise(table[table["passage"] == 0], 0.5)
    assert alone["low"].isna().all()


def test_production_along_chains_agrees_with_enumeration() -> None:
    for seed, (n, k) in enumerate([(2, 4), (3, 3), (2, 6), (3, 4), (4, 2)]):
        table = random_table(n, k, seed)
        trace = engines.run(table, np.zeros((400, n), int), temperature=1.2, steps=260, seed=seed, record_every=260)
        row = inc.entropy_production(trace, burn_in=60, level=0.9999).iloc[0]
        assert row["low"] <= exact.entropy_production(table.tables, 1.2) <= row["high"]


def test_windows_tile_the_end_of_a_run_and_show_a_trend() -> None:
    rng = np.random.default_rng(4)
    steps, chains = 605, 12
    falling = np.linspace(2, 0, steps)[:, None] + rng.normal(size=(steps, chains)) * 0.1
    level = 1.0 + rng.normal(size=(steps, chains)) * 0.1
    trace = xr.Dataset(
        {
            "log_ratio": (("step", "chain"), np.concatenate([falling, level], axis=1)),
            "changed": (("step", "chain"), np.ones((steps, 2 * chains), dtype=bool)),
            "temperature": (("chain",), np.repeat([0.5, 1.0], chains)),
        },
        coords={"step": np.arange(1, steps + 1)},
    )
    rows = inc.production_windows(trace, 3)
    assert rows["first"].tolist()[:3] == [3, 204, 405] and rows["last"].tolist()[:3] == [203, 404, 605]
    first = rows.iloc[0]
    assert first["sigma"] == pytest.approx(falling[2:203].mean(), abs=1e-12)
    student = inc.entropy_production(trace.isel(step=slice(0, 203)), burn_in=2).iloc[0]
    assert (first["low"], first["high"]) == pytest.approx((student["low"], student["high"]))
    halves = inc.production_trend(trace, burn_in=5)
    cold = halves.iloc[0]
    per_chain = falling[305:].mean(axis=0) - falling[5:305].mean(axis=0)
    assert cold["change"] == pytest.approx(per_chain.mean())
    assert cold["high"] - cold["change"] == pytest.approx(stats.t.ppf(0.975, chains - 1) * stats.sem(per_chain))
    said = inc.trend(halves)
    assert "it falls by 0.99 nats per step at τ = 0.5, so that the chains are not stationary" in said
    assert "no temperature shows a change" in inc.trend(halves.iloc[1:])
    assert "one chain" in inc.trend(inc.production_trend(trace.isel(chain=[0]), 5))
    with pytest.raises(ParameterError, match="no more windows than steps"):
        inc.production_windows(trace, 700)
    figures.production_curve(inc.entropy_production(trace, 100), rows).draw_without_rendering()


def test_a_trend_is_seldom_seen_where_there_is_none() -> None:
    rng = np.random.default_rng(1)
    told = []
    for _ in range(200):
        trace = xr.Dataset(
            {
                "log_ratio": (("step", "chain"), rng.standard_t(5, size=(40, 32))),
                "temperature": (("chain",), np.repeat([0.5, 1.0, 2.0, 4.0], 8)),
            },
            coords={"step": np.arange(1, 41)},
        )
        told.append("not stationary" in inc.trend(inc.production_trend(trace, 8)))
    assert np.mean(told) <= 0.1  # 5 % is what the rule allows


def test_noise_floor_is_the_largest_difference() -> None:
    rng = np.random.default_rng(2)
    one = inc.Grids(
        np.zeros(3, int), np.zeros(3, int), np.ones(3, int), np.tile(np.arange(4), (3, 1)), np.tile(np.arange(4), (3, 1)),
        rng.normal(size=(3, 4, 4)), rng.normal(size=(3, 4, 4)),
    )  # fmt: skip
    other = inc.Grids(**{**vars(one), "logit_i": one.logit_i.copy()})
    other.logit_i[1, 2, 3] += 0.25  # one logit: it takes part in a few rectangles of one grid alone
    row = inc.noise_floor(one, other, "planted").iloc[0]
    assert row["max"] == pytest.approx(0.25, abs=1e-12)
    assert row["median"] == 0 and row["rectangles"] == 108


def test_remaining_variation_of_both_families() -> None:
    """At the minimum the gradient says that both families miss by the same at every entry, with opposite sign.

    Their mean total variations are therefore one number, while the largest is not.
    """
    rng = np.random.default_rng(3)
    logit_i, logit_j = rng.normal(size=(4, 4)) * 0.2, rng.normal(size=(4, 4)) * 3
    found = inc.nearest_joint(logit_i, logit_j, 1.1)
    a_given_b = found.joint / found.joint.sum(axis=0)
    b_given_a = found.joint / found.joint.sum(axis=1, keepdims=True)
    p_i, p_j = (np.exp(x / 1.1) / np.exp(x / 1.1).sum(axis=1, keepdims=True) for x in (logit_i, logit_j))
    left_i, left_j = 0.5 * np.abs(a_given_b.T - p_i).sum(axis=1), 0.5 * np.abs(b_given_a - p_j).sum(axis=1)
    assert np.allclose(a_given_b - p_i.T, p_j - b_given_a, atol=1e-6)
    assert left_i.mean() == pytest.approx(left_j.mean(), abs=1e-6)
    assert left_i.max() > left_j.max() + 0.1
    assert found.tv_mean == pytest.approx(np.concatenate([left_i, left_j]).mean(), abs=1e-9)
    assert found.tv_max == pytest.approx(max(left_i.max(), left_j.max()), abs=1e-9)


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ((0.02, 0.08), "so that the figures printed are 8 to 40 times as large"),
        ((0.02, 0.7), "0.02 to 0.7, which overlaps the 0.64 to 0.8 that are printed"),
        ((0.9, 0.95), "which is 1.1 to 1.5 times the figures printed"),
        ((0.0, 0.5), "0 to 0.5, where 0.64 to 0.8 are printed"),
    ],
)
def test_our_normalised_figures_are_set_beside_the_papers(values: tuple[float, float], words: str) -> None:
    rows = pd.DataFrame({"statistic": ["normalised, a", "normalised, b", "mean |D|"], "estimate": [*values, 5.0]})
    assert words in inc.normalised_against([rows, rows], 0.64, 0.8)


def test_production_of_compatible_conditionals_telescopes() -> None:
    table = random_joint(3, 4, 2)
    trace = engines.run(table, np.zeros((50, 3), int), temperature=1.0, steps=300, seed=1, record_every=300)
    first, last = trace["states"].values[0], trace["states"].values[-1]
    joint = table.tables[0].reshape(4, 4, 4, 4)[0]  # log mu(v, x_2, x_3) up to a constant, as (x_2, x_3, v)
    log_mu = joint[last[:, 1], last[:, 2], last[:, 0]] - joint[first[:, 1], first[:, 2], first[:, 0]]
    assert np.allclose(trace["log_ratio"].sum("step"), log_mu, atol=1e-9)


def test_nearest_joint_recovers_a_joint_and_beats_others() -> None:
    table = random_joint(2, 5, 6)
    grids = inc.measure(table, np.zeros((1, 2), int), pairs=1, candidates=5, scheme="top")
    found = inc.nearest_joint(grids.logit_i[0], grids.logit_j[0], 0.7)
    assert found.tv_max < 1e-4
    log_joint = table.tables[1].reshape(5, 5, 5)[:, 0] / 0.7  # (a, b)
    mu = np.exp(log_joint[grids.tokens_i[0]][:, grids.tokens_j[0]])
    assert np.allclose(found.joint, mu / mu.sum(), atol=1e-4)


def test_nearest_joint_of_opposite_preferences_has_its_closed_form() -> None:
    # Given b, i prefers a = b with log odds 2c; given a, j prefers b != a as strongly: by symmetry the best joint is flat.
    c = 0.8
    agree = np.array([[c, -c], [-c, c]])
    found = inc.nearest_joint(agree, -agree)
    p = 1 / (1 + np.exp(-2 * c))
    assert np.allclose(found.joint, 0.25, atol=1e-6)
    assert found.tv_mean == pytest.approx(p - 0.5, abs=1e-6)
    assert found.kl == pytest.approx(np.log(2) + p * np.log(p) + (1 - p) * np.log(1 - p), abs=1e-9)


def test_by_distance_bins_every_rectangle(tiny: MaskedLM, begin: np.ndarray) -> None:
    table = inc.rectangle_table(inc.measure(tiny, begin, pairs=10, candidates=3, seed=1))
    binned = inc.by_distance(table)
    assert binned["rectangles"].sum() == len(table)
    weighted = (binned["mean |D|"] * binned["rectangles"]).sum() / len(table)
    assert weighted == pytest.approx(table["D"].abs().mean())


def test_worked_rectangle_adds_up_and_shows_the_text(tiny: MaskedLM, begin: np.ndarray) -> None:
    grids = inc.measure(tiny, begin, pairs=2, candidates=3, seed=1)
    row = inc.rectangle_table(grids, 0.5).iloc[17]
    steps = inc.worked_rectangle(grids, row, tiny.text, 0.5)
    for path in (1, 2):
        nats = steps[steps["path"] == path].set_index("step")["nats"]
        assert nats["first"] + nats["then"] == pytest.approx(nats["sum"])
    assert inc.worked_text(grids, row, begin, tiny.text).count("→") == 2


@pytest.mark.parametrize(
    ("change", "words"), [({"pairs": 0}, "pairs"), ({"candidates": 1}, "candidates"), ({"scheme": "best"}, "scheme")]
)
def test_bad_input_is_refused(change: dict[str, object], words: str) -> None:
    arguments: dict[str, object] = {"pairs": 1, "candidates": 2} | change
    with pytest.raises(ParameterError, match=words):
        inc.measure(random_table(2, 3, 0), np.zeros((1, 2), int), **arguments)  # type: ignore[arg-type]
