"""Couplings: exact marginals, closed forms of what they promise, and a planted error that the same checks must reject."""

from math import comb

import numpy as np
import pytest
import torch
import xarray as xr
from hypothesis import given, settings
from hypothesis import strategies as st
from laws import LEVEL, chi_square, state_index
from numpy.typing import ArrayLike, NDArray
from scipy import stats
from test_chain import random_table

from glauber import MaskedLM, ParameterError, coupling, exact, randomness
from glauber.coupling import couple, kinds
from glauber.models import Conditionals
from glauber.passages import read_passages, starting_states

SHAPES = [(2, 5), (3, 3), (4, 3)]  # (n, k)
KINDS = ["maximal", "common", "gumbel"]


def far_starts(n: int, k: int, members: int) -> NDArray[np.int64]:
    """Members that differ at every position, shape (members, n)."""
    return (np.arange(members)[:, None] + np.arange(n)) % k


def check_marginals(
    model: Conditionals, table: exact.Table, starts: NDArray[np.int64], kind: str, temperature: float, steps: int
) -> None:
    """Each member's law after some steps is the exact row of the matrix power, whatever the others do."""
    states = np.tile(starts, (20_000, 1, 1))
    run = couple(model, states, temperature=temperature, steps=steps, seed=3, kind=kind, stop=False)
    power = np.linalg.matrix_power(exact.transition_matrix(table.tables, temperature), steps)
    k = len(table.vocabulary)
    for member, start in enumerate(state_index(starts, k)):
        reached = state_index(run["states"].values[:, member].astype(np.int64), k)
        counts = np.bincount(reached, minlength=len(power))
        assert counts[power[start] == 0].sum() == 0, f"member {member} reached a state of probability 0"
        p = chi_square(counts, power[start])
        assert p > LEVEL, f"law of member {member} rejected, p = {p:.1e}"


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("n", "k"), SHAPES)
def test_every_member_moves_by_the_law_of_the_chain(n: int, k: int, kind: str) -> None:
    members = 2 if kind == "maximal" else 3
    table = random_table(n, k, seed=n * k)
    check_marginals(table, table, far_starts(n, k, members), kind, 1.0, n + 1)


@pytest.mark.parametrize("kind", KINDS)
def test_marginals_on_a_restricted_network(tiny64: MaskedLM, kind: str) -> None:
    begin = starting_states(tiny64.text.encode, read_passages(), 12, 1)
    small = exact.restrict(tiny64, begin.states[0], [4, 5, 6], k=4)
    check_marginals(small, exact.tabulate(small, 3), far_starts(3, 4, 2), kind, 1.0, 4)


def test_a_residual_drawn_from_the_law_itself_is_rejected(monkeypatch: pytest.MonkeyPatch) -> None:
    original = kinds.Split.beyond

    def faulty(parts: kinds.Split, rows: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        first, second = original(parts, rows)
        return parts.overlap[rows] + first, second

    monkeypatch.setattr(kinds.Split, "beyond", faulty)
    table = random_table(3, 3, seed=9)
    with pytest.raises(AssertionError, match="law of member 0"):
        check_marginals(table, table, far_starts(3, 3, 2), "maximal", 1.0, 4)


def disagreement(p: NDArray[np.float64], q: NDArray[np.float64], kind: str) -> float:
    """Closed form of the probability that two coupled draws differ."""
    if kind == "maximal":
        return float(exact.total_variation(p, q))
    if kind == "common":
        low, high = (np.concatenate([[0], law.cumsum()]) for law in (p, q))
        same = np.minimum(low[1:], high[1:]) - np.maximum(low[:-1], high[:-1])
        return 1 - float(same.clip(min=0).sum())
    # Both races are won by v if E_v / max(p_v, q_v, ...) is: P = 1 / sum_u max(p_u / p_v, q_u / q_v).
    return 1 - float((1 / np.maximum(p / p[:, None], q / q[:, None]).sum(axis=1)).sum())


@pytest.mark.parametrize("temperature", [0.5, 1.0, 3.0])
def test_tokens_differ_as_often_as_the_coupling_promises(temperature: float) -> None:
    """One step of a pair that differs at site 1: at site 0 the two laws meet, at site 1 they are one law."""
    table, groups = random_table(2, 6, seed=2, spread=1.0), 20_000
    laws = np.exp(table.tables[0] / temperature)
    p, q = (laws / laws.sum(axis=1, keepdims=True))[[0, 1]]  # states (0, 0) and (0, 1)
    states = np.tile([[0, 0], [0, 1]], (groups, 1, 1))
    at_first = np.array([randomness.block(5, g, 0, 1, 2).site[0] for g in range(groups)]) == 0
    share = {}
    for kind in KINDS:
        run = couple(table, states, temperature=temperature, steps=1, seed=5, kind=kind)
        assert (run["censored"].values == at_first).all()
        tokens = run["states"].values[at_first, :, 0]
        differ = int((tokens[:, 0] != tokens[:, 1]).sum())
        wanted = disagreement(p, q, kind)
        assert stats.binomtest(differ, int(at_first.sum()), wanted).pvalue > LEVEL, (kind, differ, wanted)
        share[kind] = differ / at_first.sum()
    error = np.sqrt(0.5 / at_first.sum())  # of a difference of shares, at most
    assert share["maximal"] <= min(share["common"], share["gumbel"]) + 4 * error


@settings(max_examples=100, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(2, 40), st.floats(0.02, 10))
def test_split_is_overlap_and_residuals(seed: int, k: int, temperature: float) -> None:
    logits = np.random.default_rng(seed).normal(size=(2, 1, k)) * 3 / temperature
    p, q = (torch.softmax(torch.from_numpy(row), dim=1) for row in logits)
    parts = kinds.split(p, q)
    first, second = parts.beyond(torch.arange(1))
    assert min(first.min(), second.min()) >= 0
    assert torch.minimum(first, second).max() == 0
    assert torch.allclose(parts.overlap + first, p, atol=1e-15)
    assert torch.allclose(parts.overlap + second, q, atol=1e-15)
    assert parts.distance.item() == pytest.approx(0.5 * (p - q).abs().sum().item(), abs=1e-15)
    assert parts.gap.sum().item() == pytest.approx(0, abs=1e-15)


def test_rare_tokens_of_a_trap_keep_their_rates() -> None:
    """Two laws with all but 1e-20 or so on one token: what they differ by, and what they share, is far below rounding."""
    p = torch.tensor([[1e-20, 1.0, 3e-20, 2e-22]], dtype=torch.float64)
    q = torch.tensor([[4e-20, 1.0, 1e-20, 2e-22]], dtype=torch.float64)
    parts = kinds.split(p, q)
    assert parts.distance.item() == pytest.approx(3e-20, rel=1e-12)
    assert torch.allclose(parts.gap, torch.tensor([[-3e-20, 1e-20, 2e-20, 0]], dtype=torch.float64), rtol=1e-9, atol=0)
    # Uniforms squeezed into the stretch of the rare common tokens: 1e-20, 1e-20 and 2e-22, then the mode.
    u = (torch.arange(1000, dtype=torch.float64) + 0.5) / 1000 * 4.04e-20
    high = torch.full((1000,), 0.5, dtype=torch.float64)  # above the distance: coupled
    shared = kinds.Shared(0, np.arange(1000, dtype=np.uint64), 0, torch.stack([high, u, high], dim=1))
    columns = kinds.maximal(torch.stack([p, q], dim=1).repeat(1000, 1, 1), shared)
    assert (columns[:, 0] == columns[:, 1]).all()
    counts = torch.bincount(columns[:, 0], minlength=4).double()
    assert (counts - torch.tensor([247.5, 500.0, 247.5, 5.0])).abs().max() <= 1.0


@pytest.mark.parametrize("kind", KINDS)
def test_equal_laws_give_equal_tokens(kind: str) -> None:
    laws = torch.softmax(torch.from_numpy(np.random.default_rng(0).normal(size=(5000, 1, 50)) * 4), dim=2)
    shared = kinds.Shared(1, np.arange(5000, dtype=np.uint64), 7, torch.rand(5000, 3, dtype=torch.float64))
    columns = kinds.KINDS[kind](laws.repeat(1, 2, 1), shared)
    assert (columns[:, 0] == columns[:, 1]).all()
    # A law that is given once is drawn from as one that is given for each member.
    assert (kinds.KINDS[kind](laws, shared) == columns[:, :1]).all()


@pytest.mark.parametrize("kind", KINDS)
def test_coalesced_members_stay_together(kind: str) -> None:
    table = random_table(3, 4, seed=6)
    starts = np.tile(far_starts(3, 4, 2), (300, 1, 1))
    run = couple(table, starts, temperature=1.0, steps=150, seed=2, kind=kind, record_every=1, stop=False)
    together = run["distance"].values == 0
    assert not run["censored"].any()
    assert (together.argmax(axis=0) == run["time"].values).all()
    assert (np.diff(together.astype(int), axis=0) >= 0).all()
    stopped = couple(table, starts, temperature=1.0, steps=150, seed=2, kind=kind, record_every=1)
    for name in ("time", "censored", "distance"):
        assert np.array_equal(run[name], stopped[name])


@pytest.mark.parametrize("kind", KINDS)
def test_equal_texts_of_a_network_stay_together_at_one_forward_a_step(tiny: MaskedLM, kind: str) -> None:
    begin = starting_states(tiny.text.encode, read_passages(), 10, 3).states
    starts, steps = np.repeat(begin[:, None], 2, axis=1), 40
    run = couple(tiny, starts, temperature=3.0, steps=steps, seed=4, kind=kind, record_every=1, stop=False)
    assert (run["distance"].values == 0).all() and (run["time"].values == 0).all()
    assert (run["states"].values[:, 0] != begin).any()
    assert np.isin(run["states"].values, tiny.vocabulary).all()
    assert (run["forwards"].values <= steps).all()
    assert couple(tiny, starts, temperature=3.0, steps=steps, seed=4, kind=kind)["forwards"].sum() == 0


@settings(max_examples=20, deadline=None)
@given(
    st.integers(0, 10_000),
    st.sampled_from([(2, 4), (3, 3), (4, 2)]),
    st.floats(0.3, 3),
    st.sampled_from(KINDS),
)
def test_theorem_coupling_inequality(seed: int, shape: tuple[int, int], temperature: float, kind: str) -> None:
    """Coupling inequality: TV(P^t(x, .), P^t(y, .)) <= P(T_c > t), the right side by its upper confidence limit."""
    table, groups, steps = random_table(*shape, seed), 400, 25
    x, y = np.random.default_rng(seed).choice(shape[1] ** shape[0], 2, replace=False)
    starts = np.tile(exact.enumerate_states(*shape)[[x, y]], (groups, 1, 1))
    run = couple(table, starts, temperature=temperature, steps=steps, seed=seed, kind=kind)
    matrix = exact.transition_matrix(table.tables, temperature)
    law = np.eye(len(matrix))[[x, y]]
    for t in range(steps):  # a time censored at `steps` is over every t below it
        later = int((run["time"].values > t).sum())
        upper = stats.beta.ppf(1 - 1e-7, later + 1, groups - later) if later < groups else 1.0  # Clopper-Pearson
        assert exact.total_variation(law[0], law[1]) <= upper, (t, later)
        law = law @ matrix


def collector(n: int, times: NDArray[np.int64]) -> NDArray[np.float64]:
    """P(all n sites have been visited by t), by inclusion and exclusion."""
    terms = [(-1.0) ** j * comb(n, j) * (1 - j / n) ** times for j in range(n + 1)]
    return np.asarray(np.sum(terms, axis=0))


@pytest.mark.parametrize("kind", KINDS)
def test_independent_sites_couple_as_coupons_are_collected(kind: str) -> None:
    n, k, groups, last = 5, 3, 4000, 40
    factors = np.random.default_rng(1).normal(size=(n, k))
    table = exact.Table(np.repeat(factors[:, None], k**n, axis=1))
    starts = np.tile(far_starts(n, k, 2), (groups, 1, 1))
    run = couple(table, starts, temperature=50.0, steps=200, seed=8, kind=kind)
    times = run["time"].values
    assert not run["censored"].any()
    law = np.diff(collector(n, np.arange(last)), prepend=0.0, append=1.0)
    assert chi_square(np.bincount(np.minimum(times, last), minlength=last + 1), law) > LEVEL
    mean = n * sum(1 / j for j in range(1, n + 1))
    assert times.mean() == pytest.approx(mean, abs=4 * times.std() / np.sqrt(groups))


def same(first: xr.Dataset, second: xr.Dataset) -> bool:
    return all(np.array_equal(first[name], second[name]) for name in ("time", "censored", "states", "distance"))


@pytest.mark.parametrize("kind", KINDS)
def test_a_group_runs_alone_as_among_others(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    table, tau = random_table(3, 5, seed=3), [0.3, 0.7, 1.0, 2.0, 10.0]
    starts = np.random.default_rng(0).integers(0, 5, (5, 2, 3))
    arguments = {"steps": 30, "seed": 1, "kind": kind, "record_every": 3}
    given = starts.copy()
    together = couple(table, starts, temperature=tau, **arguments)  # type: ignore[arg-type]
    assert np.array_equal(starts, given)
    for g in range(5):
        alone = couple(table, starts[[g]], temperature=tau[g], groups=[g], **arguments)  # type: ignore[arg-type]
        assert same(alone, together.isel(group=[g]))
    # Small batches and a memory of two contexts, ever overwritten, change only how often the model is asked.
    for name, value in {"BATCH": 10, "MEMORY": 1}.items():
        monkeypatch.setattr(coupling, name, value)
    small = couple(table, starts, temperature=tau, **arguments)  # type: ignore[arg-type]
    assert same(small, together)
    assert small["forwards"].sum() > together["forwards"].sum()


def test_temperatures_share_contexts_and_streams(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two temperatures of one pair: its first forwards are made once, and groups of one index have the same sites."""
    table, index = random_table(3, 4, seed=8), [5, 9, 5, 9]
    starts = np.tile(np.array([far_starts(3, 4, 2), far_starts(3, 4, 2)[::-1]]), (2, 1, 1))
    drawn = []
    original = randomness.words

    def words(seed: int, chain: int, start: int, steps: int) -> NDArray[np.uint64]:
        drawn.append(chain)
        return original(seed, chain, start, steps)

    monkeypatch.setattr(randomness, "words", words)
    both = couple(table, starts, temperature=[0.5, 0.5, 3.0, 3.0], steps=1, seed=2, groups=index, record_every=1)
    assert drawn == [5, 9]
    sites = {g: randomness.block(2, g, 0, 1, 3).site[0] for g in (5, 9)}
    assert both["forwards"].values.tolist() == [2, 2 if sites[5] != sites[9] else 0, 0, 0]
    moved = both["states"].values != starts
    for g, rows in zip(index, moved, strict=True):
        assert not rows[:, np.arange(3) != sites[g]].any()
    noise = kinds.Shared(2, np.array(index, dtype=np.uint64), 3, torch.zeros(4, 3)).exponentials(50)
    assert (noise[:2] == noise[2:]).all() and (noise[0] != noise[1]).all()


def test_a_grid_of_temperatures_on_a_network_is_one_call(tiny64: MaskedLM) -> None:
    begin = starting_states(tiny64.text.encode, read_passages(), 6, 4).states.reshape(2, 2, 6)
    tau = [0.5, 1.0, 4.0]

    def run(states: NDArray[np.int64], temperature: ArrayLike, groups: list[int]) -> xr.Dataset:
        return couple(tiny64, states, temperature=temperature, groups=groups, steps=25, seed=3, record_every=1)

    together = run(np.tile(begin, (3, 1, 1)), np.repeat(tau, 2), [0, 1] * 3)
    for k, t in enumerate(tau):
        assert same(run(begin, t, [0, 1]), together.isel(group=slice(2 * k, 2 * k + 2)))


def test_a_known_context_costs_no_forward() -> None:
    table = random_table(3, 3, seed=5)
    starts = np.tile(far_starts(3, 3, 2), (50, 1, 1))
    run = couple(table, starts, temperature=0.5, steps=100, seed=0, stop=False)
    assert 0 < run["forwards"].sum() <= 3 * 3**2  # sites times contexts


def test_censored_groups_are_flagged_and_start_on_time() -> None:
    table = random_table(3, 3, seed=5)
    starts = np.tile(far_starts(3, 3, 2), (200, 1, 1))
    starts[:20, 1] = starts[:20, 0]  # together from the start
    long = couple(table, starts, temperature=1.0, steps=500, seed=0)
    short = couple(table, starts, temperature=1.0, steps=6, seed=0)
    assert (long["time"].values[:20] == 0).all() and not long["censored"].any()
    assert np.array_equal(short["censored"].values, long["time"].values > 6)
    assert (long["time"].values == 6).any()  # coalesced with the last step is not censored
    assert np.array_equal(short["time"].values, np.minimum(long["time"].values, 6))
    assert "distance" not in short


def test_noise_is_exponential_and_apart_from_the_words() -> None:
    groups = np.arange(40, dtype=np.uint64)
    at = {t: kinds.Shared(7, groups, t, torch.zeros(40, 3)).exponentials(500).numpy() for t in (0, 1)}
    assert stats.kstest(at[0].ravel(), "expon").pvalue > LEVEL
    assert len(np.unique(np.stack([at[0], at[1]]))) == 2 * 40 * 500
    words = -np.log1p(-randomness.uniform(np.stack([randomness.words(7, g, 0, 200) for g in range(40)])))
    assert not np.isin(at[0], words).any()
    alone = kinds.Shared(7, groups[[3]], 0, torch.zeros(1, 3)).exponentials(500).numpy()
    assert np.array_equal(alone[0], at[0][3])


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"kind": "best"}, "'best' is unknown"),
        ({"states": np.zeros((2, 3, 2), int)}, "takes pairs, not 3"),
        ({"states": np.zeros((2, 2), int)}, "shape"),
        ({"states": np.zeros((2, 1, 2), int)}, "2 members or more"),
        ({"states": [[[0, 1], [0]]]}, "different lengths"),
        ({"states": np.full((2, 2, 2), 9)}, "token id 9"),
        ({"states": [[["a", "b"], ["a", "b"]]]}, "the value 'a' in states"),
        ({"states": np.full((2, 2, 2), 0.5)}, "token id 0.5 is no whole number"),
        ({"temperature": [[1.0], [1.0, 2.0]]}, "the rows of temperatures"),
        ({"steps": 2.5}, "steps = 2.5"),
        ({"record_every": True}, "record_every = True"),
        ({"groups": 1}, "stream indices = 1 are refused"),
        ({"groups": [0, 1.5]}, "stream index = 1.5"),
        ({"seed": 1.5}, "seed = 1.5"),
        ({"temperature": -1.0}, "temperature -1.0"),
        ({"temperature": [1.0, 2.0, 3.0]}, "3 temperatures for 2 groups"),
        ({"steps": 0}, "steps"),
        ({"record_every": 0}, "record_every"),
        ({"groups": [1]}, "group indices"),
        ({"seed": -1}, "seed"),
    ],
)
def test_bad_input_is_refused_in_one_sentence(change: dict[str, object], words: str) -> None:
    arguments: dict[str, object] = {"states": np.zeros((2, 2, 2), int), "temperature": 1.0, "steps": 3, "seed": 0}
    with pytest.raises(ParameterError, match=words) as caught:
        couple(random_table(2, 3, seed=0), **(arguments | change))  # type: ignore[arg-type]
    assert "\n" not in str(caught.value)
