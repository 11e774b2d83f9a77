"""Engines: lazy follows direct token for token, rejection-free has the same law; planted errors are rejected."""

from typing import Any

import numpy as np
import pytest
import torch
from laws import LEVEL, check_law_after, chi_square, state_index
from scipy import stats
from test_chain import random_table

from glauber import MaskedLM, ParameterError, chain, engines, exact, load_model, randomness
from glauber.engines import lazy, memo, nfold
from glauber.passages import read_passages, starting_states
from glauber.randomness import Draws, Streams

DEVICES = ["cpu", *(["cuda"] if torch.cuda.is_available() else [])]


@pytest.fixture(
    scope="module", params=[(name, device) for name in ("glauber-tiny", "distilbert") for device in DEVICES]
)
def model(request: pytest.FixtureRequest, checkpoints: dict[str, str]) -> MaskedLM:
    name, device = request.param
    return load_model(str(checkpoints.get(name, name)), dtype="float64", device=device)


def test_lazy_is_direct_token_for_token(model: MaskedLM) -> None:
    begin = starting_states(model.text.encode, read_passages(), 6, 2).states
    tau = np.repeat([0.1, 0.3, 0.6, 1.5], 2)
    traces = {
        engine: engines.run(model, np.tile(begin, (4, 1)), temperature=tau, steps=2000, seed=21, engine=engine)
        for engine in engines.ENGINES
    }
    for name in ("states", "site", "changed"):
        assert np.array_equal(traces["lazy"][name], traces["direct"][name]), name
    assert np.allclose(traces["lazy"]["log_ratio"], traces["direct"]["log_ratio"], atol=1e-9)
    spent = traces["lazy"]["forwards"].values
    assert (traces["direct"]["forwards"].values == 2000).all()
    assert (spent <= 2000).all()
    assert spent[:2].sum() < spent[-2:].sum()


def test_lazy_counts_what_it_asks(tiny: MaskedLM, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = 0
    forward = tiny._forward

    def counting(states: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
        nonlocal asked
        asked += len(states)
        return forward(states, positions)

    monkeypatch.setattr(tiny, "_forward", counting)
    begin = starting_states(tiny.text.encode, read_passages(), 6, 3).states
    trace = engines.run(tiny, begin, temperature=0.4, steps=120, seed=1)
    assert int(trace["forwards"].sum()) == asked
    moves = engines.rejection_free(tiny, begin, temperature=0.4, steps=10**6, seed=1, moves=8)
    assert moves.forwards + int(trace["forwards"].sum()) == asked


def test_lazy_draws_beyond_its_records_follow_the_law() -> None:
    """More tokens than a record keeps: draws land in its gaps, and current tokens are ones it does not hold."""
    table = random_table(2, 90, seed=2, spread=0.5)
    traces = [
        engines.run(table, np.zeros((8, 2), int), temperature=1.0, steps=600, seed=3, engine=engine)["states"].values
        for engine in ("lazy", "direct")
    ]
    assert np.array_equal(traces[0], traces[1])


def test_records_do_not_depend_on_what_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """A memory of three records, and chains that never keep one, still walk the same way."""
    table = random_table(3, 8, seed=6)
    arguments = {"temperature": [0.3, 1.0, 3.0], "steps": 500, "seed": 4}
    wanted = engines.run(table, np.zeros((3, 3), int), engine="direct", **arguments)["states"]  # type: ignore[arg-type]
    for capacity, worthwhile in ((3, 0.6), (100, 0.0), (100, 1.1)):
        monkeypatch.setattr(lazy, "Memo", lambda c=capacity: memo.Memo(c))
        monkeypatch.setattr(lazy, "WORTHWHILE", worthwhile)
        assert np.array_equal(engines.run(table, np.zeros((3, 3), int), **arguments)["states"], wanted)  # type: ignore[arg-type]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("gap", [0.0, 0.5, 5.0, 20.0, 60.0, 105.0, 200.0, 300.0])
def test_lazy_decides_as_direct_on_both_sides_of_the_excluded_mass(gap: float, dtype: torch.dtype) -> None:
    """Uniforms planted a hair below and above the mass that a move needs, down to masses that float32 does not hold."""
    rng = np.random.default_rng(int(gap))
    logits = torch.from_numpy(rng.normal(size=(1, 90))).to(dtype)
    logits[0, 17] = logits.max() + gap
    tau = torch.ones(1, dtype=torch.float64)
    (record,) = memo.records(logits, torch.tensor([int(logits.argmin())]), tau)
    currents = {17, int(logits.argmin()), int(logits[0].argsort()[45])}
    for current in currents:
        mass = float(chain.excluded_mass(logits, torch.tensor([current]), tau))
        known = record.given(current)
        assert known is not None and known[0] == pytest.approx(mass, rel=1e-12)
        for stay, moves in ((mass * (1 - 1e-9), True), (mass * (1 + 1e-9), False)):
            if not 0 < stay < 1:
                continue
            for pick in rng.random(20).tolist():
                draws = Draws(np.zeros(1, np.int64), np.array([stay]), np.array([pick]))
                column = int(chain.redraw(logits, torch.tensor([current]), tau, draws))
                assert (column != current) == moves
                drawn = record.draw(current, stay, pick)
                assert drawn is None or drawn[0] == column
                assert moves or drawn == (current, 0.0)


def test_lazy_and_direct_move_alike_where_masses_are_below_float32(monkeypatch: pytest.MonkeyPatch) -> None:
    """The engines themselves, each uniform planted between half and all of its state's leaving mass."""
    table = random_table(2, 6, seed=3, spread=1.0)
    table.tables[:, :, 0] += 150.0  # every conditional has one token with all but 1e-60 of the mass
    plant = float(chain.excluded_mass(torch.from_numpy(table.tables[0, :1]), torch.tensor([0]), torch.ones(1))) / 2

    def planted(draws: Draws) -> Draws:
        return Draws(draws.site, np.where(np.arange(len(draws.stay)) % 2 == 0, plant, draws.stay), draws.pick)

    at = Streams.at
    monkeypatch.setattr(lazy, "block", lambda *given: planted(randomness.block(*given)))
    monkeypatch.setattr(
        Streams,
        "at",
        lambda self, t: Draws((d := at(self, t)).site, d.stay if t % 2 else np.full_like(d.stay, plant), d.pick),
    )
    traces = [
        engines.run(table, np.zeros((3, 2), int), temperature=1.0, steps=60, seed=3, engine=engine)
        for engine in ("lazy", "direct")
    ]
    assert traces[1]["changed"].values.any()
    assert np.array_equal(traces[0]["states"], traces[1]["states"])


def test_a_hot_chain_is_not_remembered_and_a_cold_one_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """The crowd pays for no memory; chains that sit in a trap ask a few times for each of their contexts, then never again."""
    counted: list[int] = []
    hold = memo.Memo.hold

    def counting(self: memo.Memo, keys: list[int], rows: Any, size: int) -> None:
        counted.append(len(keys))
        hold(self, keys, rows, size)

    monkeypatch.setattr(memo.Memo, "hold", counting)
    table = random_table(3, 8, seed=6, spread=0.1)
    hot = engines.run(table, np.zeros((5, 3), int), temperature=10.0, steps=300, seed=4)
    assert hot["changed"].mean() > 0.8
    assert sum(counted) < 60
    table.tables[:, :, 0] += 100.0
    cold = engines.run(table, np.zeros((5, 3), int), temperature=1.0, steps=300, seed=4)
    assert not cold["changed"].any()
    assert int(cold["forwards"].sum()) <= 3 * memo.VISITS


def test_a_memo_that_ignores_a_neighbour_is_rejected(monkeypatch: pytest.MonkeyPatch) -> None:
    original = memo.zobrist
    monkeypatch.setattr(lazy, "zobrist", lambda kind, i, v: 0 if (kind, i) == ("token", 1) else original(kind, i, v))
    monkeypatch.setattr(lazy, "WORTHWHILE", 1.1)  # no chain is too hot to be remembered
    table = random_table(3, 4, seed=12)
    with pytest.raises(AssertionError, match=r"law after|probability 0"):
        check_law_after(table, table, [0] * 3, 1.0, steps=7, chains=5000, seed=3)


@pytest.mark.parametrize(("n", "k", "temperature"), [(2, 5, 0.3), (3, 4, 0.6), (4, 2, 1.0)])
def test_rejection_free_has_geometric_holding_times(n: int, k: int, temperature: float) -> None:
    check_first_move(n, k, temperature)


def check_first_move(n: int, k: int, temperature: float) -> None:
    """Holding time, site and token of the first move, against the exact leaving probability and jump law."""
    table = random_table(n, k, seed=3 * n + k)
    matrix = exact.transition_matrix(table.tables, temperature)
    start = int(np.argmax(np.diag(matrix)))
    leave = matrix[start].copy()
    leave[start] = 0.0
    q = leave.sum()
    state = exact.enumerate_states(n, k)[start]
    moves = engines.rejection_free(
        table, np.tile(state, (20_000, 1)), temperature=temperature, steps=10**12, seed=5, moves=1
    )
    held = moves.table["held"].to_numpy()
    assert np.allclose(moves.table["q"], q, rtol=1e-9)
    longest = int(np.ceil(8 / q))
    law = stats.geom.pmf(np.arange(1, longest + 1), q)
    law[-1] += 1 - law.sum()
    counts = np.bincount(np.minimum(held, longest), minlength=longest + 1)
    assert counts[0] == 0, "holding times are not geometric: some are 0"
    assert chi_square(counts[1:], law) > LEVEL, "holding times are not geometric"
    reached = np.tile(state, (20_000, 1))
    reached[np.arange(20_000), moves.table["site"].to_numpy(int)] = moves.table["after"].to_numpy(int)
    assert chi_square(np.bincount(state_index(reached, k), minlength=len(leave)), leave / q) > LEVEL, "jump law"


def test_a_holding_time_off_by_one_is_rejected(monkeypatch: pytest.MonkeyPatch) -> None:
    original = nfold.holding_time
    for shift in (-1, 1):
        monkeypatch.setattr(nfold, "holding_time", lambda q, u, s=shift: np.maximum(original(q, u) + s, 0))
        with pytest.raises(AssertionError, match="geometric"):
            check_first_move(2, 5, 0.3)


def test_rejection_free_occupation_agrees_with_enumeration() -> None:
    for seed, (n, k) in enumerate([(2, 4), (3, 3)]):
        table = random_table(n, k, seed)
        mu = exact.stationary_law(exact.transition_matrix(table.tables, 0.8))
        # One state of each of many chains, long after the start: independent draws from the stationary law.
        moves = engines.rejection_free(table, np.zeros((6000, n), int), temperature=0.8, steps=200, seed=9, moves=400)
        assert not moves.stopped.any()
        counts = np.bincount(state_index(moves.states, k), minlength=k**n)
        assert chi_square(counts, mu) > LEVEL


def test_holding_time_at_the_edges() -> None:
    u = np.array([0.0, 0.5, 1 - 2.0**-53])
    assert (nfold.holding_time(np.ones(3), u) == 1).all()
    assert (nfold.holding_time(np.zeros(3), u) > 10**18).all()
    assert nfold.holding_time(np.array([1e-300]), np.array([0.5]))[0] > 10**18
    assert nfold.holding_time(np.array([0.25]), np.array([0.5]))[0] == 1 + int(np.log(0.5) / np.log(0.75))


def test_a_billion_steps_in_a_trap(tiny: MaskedLM) -> None:
    """The state reached by greedy moves at tau = 0.02 stays: a run of 10**9 steps spends forwards per move alone."""
    begin = starting_states(tiny.text.encode, read_passages(), 8, 4).states
    cold = engines.run(tiny, begin, temperature=0.02, steps=800, seed=2, record_every=800)["states"].values[-1]
    moves = engines.rejection_free(tiny, cold, temperature=0.02, steps=10**9, seed=2, moves=50)
    quiet = ~moves.stopped
    assert quiet.any()
    assert moves.forwards <= 4 * 50 * 9
    assert (moves.table.groupby("chain")["step"].max() <= 10**9).all()


def test_unknown_engines_and_bad_lengths_are_refused() -> None:
    table = random_table(2, 3, seed=0)
    with pytest.raises(ParameterError, match="engine 'fast' is unknown"):
        engines.run(table, [[0, 0]], temperature=1.0, steps=1, seed=0, engine="fast")
    with pytest.raises(ParameterError, match=r"engine \['lazy'\] is unknown"):
        engines.run(table, [[0, 0]], temperature=1.0, steps=1, seed=0, engine=["lazy"])  # type: ignore[arg-type]
    for name, value in {"steps": 0, "moves": 2.5}.items():
        arguments: dict[str, Any] = {"temperature": 1.0, "steps": 5, "seed": 0, name: value}
        with pytest.raises(ParameterError, match=f"^{name} = {value} is refused: give a whole number from 1"):
            engines.rejection_free(table, [[0, 0]], **arguments)
