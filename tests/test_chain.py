"""The sampler's law, against exact enumeration; and planted errors, which the same checks must reject."""

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from laws import check_law_after, check_never_emitted, check_rare_moves, state_index

from glauber import MaskedLM, ParameterError, chain, engines, exact, randomness
from glauber.models import text as model_text
from glauber.passages import read_passages, starting_states
from glauber.randomness import Draws

SHAPES = [(2, 6), (3, 4), (4, 3), (1, 90)]  # (n, k)


def random_table(n: int, k: int, seed: int, spread: float = 2.0) -> exact.Table:
    """Conditionals of no joint law."""
    rng = np.random.default_rng(seed)
    rest = rng.normal(size=(n, *(k,) * (n - 1), k)) * spread
    tables = [
        np.moveaxis(np.repeat(r[..., None, :], k, axis=-2), n - 1, i).reshape(k**n, k) for i, r in enumerate(rest)
    ]
    return exact.Table(np.stack(tables))


@pytest.fixture(scope="module")
def small(tiny64: MaskedLM) -> exact.Restricted:
    """Three neighbouring positions of a passage, four tokens each."""
    begin = starting_states(tiny64.text.encode, read_passages(), 12, 1)
    return exact.restrict(tiny64, begin.states[0], [4, 5, 6], k=4)


@pytest.mark.parametrize(("n", "k"), SHAPES)
@pytest.mark.parametrize("temperature", [0.5, 2.0])
def test_law_after_some_steps(n: int, k: int, temperature: float) -> None:
    table = random_table(n, k, seed=n * k)
    check_law_after(table, table, [0] * n, temperature, steps=2 * n + 1, chains=20_000, seed=3)


def test_law_of_a_network_on_a_restricted_space(small: exact.Restricted) -> None:
    table = exact.tabulate(small, 3)
    check_law_after(small, table, [0, 1, 2], temperature=1.0, steps=4, chains=1500, seed=5)
    check_law_after(table, table, [0, 1, 2], temperature=1.0, steps=9, chains=20_000, seed=5)


def test_mixed_temperatures_in_one_batch_are_the_runs_apart() -> None:
    table = random_table(3, 4, seed=1)
    together = engines.run(table, np.zeros((4, 3), int), temperature=[0.2, 1, 1, 5], steps=50, seed=7)
    apart = engines.run(table, np.zeros((1, 3), int), temperature=5, steps=50, seed=7, chains=[3])
    assert np.array_equal(together["states"].values[:, 3], apart["states"].values[:, 0])


def test_shared_sites_are_rejected(monkeypatch: pytest.MonkeyPatch) -> None:
    original = randomness.sites
    monkeypatch.setattr(randomness, "sites", lambda drawn, n: np.full(len(drawn), original(drawn[:1], n)[0]))
    table = random_table(3, 4, seed=12)
    with pytest.raises(AssertionError, match=r"law after|probability 0"):
        check_law_after(table, table, [0] * 3, 2.0, steps=7, chains=20_000, seed=3)


def one_minus_p(rest: torch.Tensor, kept: torch.Tensor) -> torch.Tensor:
    """The planted error: cancellation instead of a sum."""
    return 1 - kept / (rest + kept)


def test_rare_moves_keep_their_rate_and_one_minus_p_is_rejected(monkeypatch: pytest.MonkeyPatch) -> None:
    trap = torch.tensor([2.0, 0.1, 0.05, -1.0], dtype=torch.float64)
    for temperature in (0.05, 0.2, 1.0):
        check_rare_moves(trap, temperature, chains=4000, seed=2)
    monkeypatch.setattr(chain, "odds", one_minus_p)
    with pytest.raises(AssertionError, match="where half should"):
        check_rare_moves(trap, 0.05, chains=4000, seed=2)


def forbidden_ids(model: MaskedLM) -> set[int]:
    return set(model.text.tokenizer.all_special_ids)


def test_forbidden_tokens_are_never_emitted_and_a_mask_in_the_vocabulary_is_rejected(
    tiny: MaskedLM, monkeypatch: pytest.MonkeyPatch
) -> None:
    begin = starting_states(tiny.text.encode, read_passages(), 4, 100).states
    states = engines.run(tiny, begin, temperature=10.0, steps=1000, seed=11, engine="direct")["states"].values
    assert states.shape[0] * states.shape[1] > 10**5
    check_never_emitted(states, forbidden_ids(tiny))
    original = model_text.allowed_ids
    monkeypatch.setattr(
        model_text, "allowed_ids", lambda t, width: np.sort(np.append(original(t, width), t.mask_token_id))
    )
    faulty = MaskedLM(tiny.network, tiny.text.tokenizer, "faulty")
    states = engines.run(faulty, begin, temperature=1000.0, steps=400, seed=11, engine="direct")["states"].values
    with pytest.raises(AssertionError, match="forbidden"):
        check_never_emitted(states, forbidden_ids(tiny))


@settings(max_examples=60, deadline=None)
@given(st.lists(st.floats(-40, 40), min_size=2, max_size=80), st.floats(0.05, 20), st.integers(0, 2**32 - 1))
def test_excluded_mass_and_choice(values: list[float], temperature: float, seed: int) -> None:
    logits = torch.tensor([values], dtype=torch.float64)
    tau, current = torch.tensor([temperature], dtype=torch.float64), torch.tensor([0])
    mass = chain.excluded_mass(logits, current, tau)
    odds = torch.logsumexp(logits[:, 1:] / tau, 1) - logits[:, 0] / tau
    assert torch.allclose(mass, torch.sigmoid(odds), rtol=1e-9, atol=1e-300)
    for pick in (0.0, float(np.random.default_rng(seed).random()), randomness.BELOW_ONE):
        draws = Draws(np.zeros(1, np.int64), np.zeros(1), np.array([pick]))
        if mass > 0:
            assert chain.redraw(logits, current, tau, draws).item() != 0


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("gap", [0.0, 40.0, 150.0])
def test_choice_follows_the_law_of_the_others(dtype: torch.dtype, gap: float) -> None:
    """Also where the current token outweighs the others by so much that they underflow beside it."""
    k, rows = 90, 40_000
    logits = torch.from_numpy(np.random.default_rng(0).normal(size=k)).to(dtype)
    logits[7] += gap
    draws = Draws(np.zeros(rows, np.int64), np.zeros(rows), (np.arange(rows) + 0.5) / rows)
    chosen = chain.redraw(
        logits.repeat(rows, 1), torch.full((rows,), 7), torch.full((rows,), 1.5, dtype=torch.float64), draws
    )
    law = (logits.double() / 1.5).exp()
    law[7] = 0
    counts = torch.bincount(chosen, minlength=k)
    # Evenly spaced picks invert the law exactly, up to one count at each end of a token's stretch.
    assert (counts - rows * law / law.sum()).abs().max() <= 1.0


def test_float32_weights_decide_as_float64_does() -> None:
    """Uniforms planted right at the excluded mass: the decision is the one of float64."""
    rng = np.random.default_rng(4)
    logits = torch.from_numpy(rng.normal(size=(2000, 50)) * 6).float()
    current, tau = logits.argmax(dim=1), torch.from_numpy(rng.uniform(0.2, 2, 2000))
    mass = chain.excluded_mass(logits, current, tau).numpy()
    for nudge, moves in ((1 - 1e-9, True), (1 + 1e-9, False)):
        draws = Draws(np.zeros(2000, np.int64), mass * nudge, rng.random(2000))
        assert ((chain.redraw(logits, current, tau, draws) != current).numpy() == moves).all()


def test_trace_holds_what_happened() -> None:
    table = random_table(3, 5, seed=4)
    trace = engines.run(table, np.zeros((6, 3), int), temperature=1.5, steps=40, seed=9)
    states = trace["states"].values.astype(int)
    for t in range(40):
        for c in range(6):
            site = int(trace["site"].values[t, c])
            rest = np.arange(3) != site
            before, after = states[t, c], states[t + 1, c]
            assert np.array_equal(before[rest], after[rest])
            assert bool(trace["changed"].values[t, c]) == (before[site] != after[site])
            row = table.tables[site, state_index(before[None], 5)[0]]
            expected = (row[after[site]] - row[before[site]]) / 1.5
            assert trace["log_ratio"].values[t, c] == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"temperature": 0.0}, "temperature 0.0 is refused: give one from 0.0001 to 1,000,000"),
        ({"temperature": [1.0, 1e-40]}, "temperature 1e-40 is"),  # float32 would make it 0
        ({"temperature": np.nextafter(1e-4, 0)}, "temperature 9.99"),
        ({"temperature": np.nextafter(1e6, 1e7)}, "temperature 1000000.0000000001 is"),
        ({"temperature": np.nan}, "temperature nan"),
        ({"temperature": "hot"}, "the value 'hot' in temperatures is no real number"),
        ({"temperature": [1.0, None]}, "the value None in temperatures"),
        ({"temperature": True}, "the value True in temperatures"),
        ({"temperature": [[1.0], [1.0, 2.0]]}, "the rows of temperatures have different lengths"),
        ({"temperature": [1.0, 2.0, 3.0]}, "3 temperatures for 2 chains"),
        ({"steps": 0}, "^steps = 0 is refused: give a whole number from 1 to"),
        ({"steps": 2.5}, "steps = 2.5"),
        ({"steps": np.float64(3)}, "steps = 3.0"),
        ({"steps": "5"}, "steps = '5'"),
        ({"steps": True}, "steps = True"),
        ({"steps": 10**5000}, "steps = 0x31e20801"),
        ({"record_every": 0}, "record_every = 0"),
        ({"record_every": None}, "record_every = None is refused: give a whole number from 1$"),
        ({"chains": [1]}, "chain indices"),
        ({"chains": 2}, "stream indices = 2 are refused: give a sequence"),
        ({"seed": -1}, "seed"),
    ],
)
def test_bad_input_is_refused_in_one_sentence(change: dict[str, object], words: str) -> None:
    arguments: dict[str, object] = {"temperature": 1.0, "steps": 3, "seed": 0} | change
    with pytest.raises(ParameterError, match=words) as caught:
        engines.run(random_table(2, 3, seed=0), np.zeros((2, 2), int), **arguments)  # type: ignore[arg-type]
    assert "\n" not in str(caught.value)


def test_numbers_of_numpy_are_taken_and_the_ends_of_the_temperatures() -> None:
    table, states = random_table(2, 3, seed=0), np.zeros((2, 2), int)
    plain = engines.run(table, states, temperature=[1e-4, 1e6], steps=200, seed=3, record_every=100, chains=[4, 5])
    given = {"steps": np.uint8(200), "seed": np.int8(3), "record_every": np.int8(100), "chains": plain["chain"]}
    trace = engines.run(table, states.astype(float), temperature=plain["temperature"], **given)  # type: ignore[arg-type]
    assert trace.identical(plain)


@pytest.mark.parametrize(
    ("states", "words"),
    [
        (np.zeros(3, int), r"shape \(3,\)"),
        ([[0, 3]], "token id 3 is special or outside"),
        ([[0, 43.5]], "token id 43.5 is no whole number"),
        ([[0, np.nan]], "token id nan is no whole number"),
        (torch.tensor([[0, torch.inf]]), "token id inf is no whole number"),
        ([[0, 2**70]], f"token id {2**70} is special or outside"),
        ([[1j, 0]], "the value 1j in states is no real number: give real numbers alone"),
        ([["a", "b"]], "the value 'a' in states"),
        ([[0, "5"]], "the value '[05]' in states"),
        ([[0, None]], "the value None in states"),
        (None, "the value None in states"),
        ([[True, False]], "the value True in states"),
        ([[0, 10**400]], "a number in states is too large"),
        ([[0], [0, 1]], "the rows of states have different lengths or are no numbers: give rows of one length"),
    ],
)
def test_bad_states_are_refused(states: Any, words: str) -> None:
    with pytest.raises(ParameterError, match=words) as caught:
        chain.init(random_table(2, 3, seed=0), states)
    assert "\n" not in str(caught.value)


def test_starting_states_are_copied() -> None:
    given = torch.zeros((1, 2), dtype=torch.long)
    chain.init(random_table(2, 3, seed=0), given).tokens[:] = 1
    assert (given == 0).all()
