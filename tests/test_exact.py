"""Exact enumeration against closed forms and brute force."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from test_chain import random_table

from glauber import MaskedLM, ParameterError, exact


def random_joint(n: int, k: int, seed: int) -> exact.Table:
    return exact.from_joint(np.random.default_rng(seed).normal(size=(k,) * n))


@pytest.mark.parametrize(("n", "k"), [(1, 3), (2, 4), (3, 3), (4, 2)])
def test_product_law_has_its_closed_forms(n: int, k: int) -> None:
    rng = np.random.default_rng(n)
    factors = rng.normal(size=(n, k))
    log_joint = sum(np.expand_dims(f, tuple(a for a in range(n) if a != i)) for i, f in enumerate(factors))
    table = exact.from_joint(np.broadcast_to(log_joint, (k,) * n))
    matrix = exact.transition_matrix(table.tables, 0.7)
    law = np.exp(np.asarray(log_joint).reshape(-1) / 0.7)
    assert np.allclose(exact.stationary_law(matrix), law / law.sum(), rtol=1e-12)
    # Independent sites: an eigenfunction of one site survives a step with probability 1 - 1/n.
    assert exact.spectral_gap(matrix) == pytest.approx(1 / n, abs=1e-9)
    assert exact.entropy_production(table.tables, 0.7) == pytest.approx(0, abs=1e-12)


def test_two_states_have_their_closed_forms() -> None:
    # One site, two tokens: the first step already draws from the law.
    table = exact.Table(np.array([[[0.3, -0.4], [0.3, -0.4]]]))
    matrix = exact.transition_matrix(table.tables, 1.0)
    p = 1 / (1 + np.exp(-0.7))
    assert np.allclose(matrix, [[p, 1 - p], [p, 1 - p]])
    assert np.allclose(exact.distance_to_equilibrium(matrix, [0, 1]), [p, 0], atol=1e-15)
    assert exact.mixing_time(matrix) == 1


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10_000), st.sampled_from([(2, 3), (3, 3), (2, 5)]), st.floats(0.3, 4))
def test_joint_laws_are_stationary_under_every_scan(seed: int, shape: tuple[int, int], temperature: float) -> None:
    table = random_joint(*shape, seed)
    joint = np.array([table.tables[0, s, x[0]] for s, x in enumerate(exact.enumerate_states(*shape))]) / temperature
    mu = np.exp(joint - joint.max())
    mu /= mu.sum()
    for order in (None, range(shape[0]), range(shape[0] - 1, -1, -1)):
        assert np.allclose(
            exact.stationary_law(exact.transition_matrix(table.tables, temperature, order)), mu, rtol=1e-8
        )
    assert exact.scan_order(table.tables, temperature)[["end_of_sweep", "phase_averaged"]].to_numpy().max() < 1e-10
    assert abs(exact.entropy_production(table.tables, temperature)) < 1e-10


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10_000), st.sampled_from([(2, 3), (3, 3), (2, 5)]), st.floats(0.3, 4))
def test_stationary_law_and_production_of_incompatible_conditionals(
    seed: int, shape: tuple[int, int], temperature: float
) -> None:
    table = random_table(*shape, seed)
    matrix = exact.transition_matrix(table.tables, temperature)
    mu = exact.stationary_law(matrix)
    assert np.allclose(matrix.sum(axis=1), 1)
    assert np.allclose(mu @ matrix, mu, atol=1e-13)
    # Schnakenberg's form: half the sum over edges of net flux times affinity, site by site.
    sites = exact.site_matrices(table.tables, temperature) / shape[0]
    sigma = 0.0
    for site in sites:
        flux = mu[:, None] * site
        moved = (flux > 0) & ~np.eye(len(mu), dtype=bool)
        sigma += 0.5 * ((flux - flux.T)[moved] * np.log(flux[moved] / flux.T[moved])).sum()
    assert exact.entropy_production(table.tables, temperature) == pytest.approx(sigma, rel=1e-6, abs=1e-12)
    assert sigma >= 0


def law_of(matrix: np.ndarray) -> np.ndarray:
    """Stationary law from the left eigenvector, another way than the package's."""
    values, vectors = np.linalg.eig(matrix.T)
    law = np.real(vectors[:, np.argmin(np.abs(values - 1))])
    return np.asarray(law / law.sum())


@pytest.mark.parametrize(("n", "k", "seed"), [(2, 3, 1), (3, 3, 2), (4, 2, 3)])
def test_scans_are_compared_at_the_end_of_a_sweep_and_over_their_phases(n: int, k: int, seed: int) -> None:
    table = random_table(n, k, seed)
    found = exact.scan_order(table.tables, 0.9)
    names = list(zip(found["first"], found["second"], strict=True))
    sites = exact.site_matrices(table.tables, 0.9)
    phases = {"random": [law_of(sites.mean(axis=0))]}
    for name, order in (("forward", list(range(n))), ("backward", list(range(n))[::-1])):
        # The law after the k-th update is that of the scan which starts behind it.
        turned = [order[j + 1 :] + order[: j + 1] for j in range(n)]
        phases[name] = [law_of(np.linalg.multi_dot([np.eye(k**n), *(sites[i] for i in turn)])) for turn in turned]
    ends, means = (dict(zip(names, found[name].tolist(), strict=True)) for name in ("end_of_sweep", "phase_averaged"))
    for first, second in names:
        end = 0.5 * np.abs(phases[first][-1] - phases[second][-1]).sum()
        mean = 0.5 * np.abs(np.mean(phases[first], axis=0) - np.mean(phases[second], axis=0)).sum()
        assert ends[first, second] == pytest.approx(end, abs=1e-10)
        assert means[first, second] == pytest.approx(mean, abs=1e-10)
    assert ends["forward", "backward"] > 0.05
    if n == 2:  # the same two laws in turn
        assert means["forward", "backward"] == pytest.approx(0, abs=1e-12)
    assert np.allclose(exact.phase_laws(table.tables, 0.9, range(n)), phases["forward"])


def test_gap_is_that_of_the_modulus() -> None:
    """A ring that turns: its second eigenvalues are complex, or negative on two states, and no real part tells how fast it mixes."""
    for size in (2, 3, 5):
        ring = 0.9 * np.roll(np.eye(size), 1, axis=1) + 0.1 / size
        assert exact.spectral_gap(ring) == pytest.approx(0.1, abs=1e-12)
        assert exact.mixing_time(ring, 0.01) > 30


def test_no_total_variation_leaves_its_range() -> None:
    p = np.full(10, 0.1)
    p[0] = 1 - p[1:].sum()
    spread = np.concatenate([p * (1 + 4e-16), np.zeros(10)])
    assert 0.5 * np.abs(spread - spread[::-1]).sum() > 1
    assert exact.total_variation(spread, spread[::-1]) == 1.0


def test_theorem_reversible_on_small_spaces() -> None:
    """Theorem "Reversible if and only if compatible": production vanishes with the rectangles and only with them."""
    assert exact.entropy_production(random_joint(3, 3, 5).tables, 1.0) < 1e-12
    assert exact.entropy_production(random_table(3, 3, 5).tables, 1.0) > 1e-3


def test_mixing_time_is_the_first_time() -> None:
    matrix = exact.transition_matrix(random_table(3, 3, 8).tables, 0.8)
    for eps in (0.4, 0.25, 0.01):
        t = exact.mixing_time(matrix, eps)
        d = exact.distance_to_equilibrium(matrix, [t - 1, t])
        assert d[1] <= eps < d[0]
    with pytest.raises(ParameterError, match="over 4 steps"):
        exact.mixing_time(matrix, 1e-9, limit=4)


def test_stationary_law_keeps_small_probabilities() -> None:
    log_joint = np.array([[0.0, -200.0], [-300.0, -450.0]])
    mu = exact.stationary_law(exact.transition_matrix(exact.from_joint(log_joint).tables, 1.0))
    assert np.allclose(np.log(mu), log_joint.ravel(), atol=1e-6)


def test_restricted_space_is_the_model_there(tiny64: MaskedLM) -> None:
    ids = np.array(tiny64.text.encode("the river runs through the old town and into the sea")[0])
    small = exact.restrict(tiny64, ids, [2, 6], k=3)
    table = exact.tabulate(small, 2)
    states = exact.enumerate_states(2, 3)
    for s, x in enumerate(states):
        full = ids.copy()
        full[[2, 6]] = [int(small.tokens[0, x[0]]), int(small.tokens[1, x[1]])]
        row = tiny64.conditional_logits(torch.from_numpy(full)[None], torch.tensor([6]))[0].numpy()
        wanted = row[np.searchsorted(tiny64.vocabulary, small.tokens[1].numpy())]
        assert np.allclose(table.tables[1, s], wanted, atol=1e-9)


def test_bad_spaces_are_refused(tiny64: MaskedLM) -> None:
    with pytest.raises(ParameterError, match="distinct"):
        exact.restrict(tiny64, [100, 200], [0, 0])
    with pytest.raises(ParameterError, match="more than 4096"):
        exact.restrict(tiny64, [100, 200, 300], [0, 1, 2], k=17)
    with pytest.raises(ParameterError, match="depends on the token"):
        exact.Table(np.arange(8.0).reshape(2, 4, 1).repeat(2, axis=2) * np.arange(2))
