"""Counter-based streams: what they depend on, and the laws of what they give."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from glauber import ParameterError
from glauber.randomness import WORDS, Draws, Streams, sites, uniform, words

N = 20
STEPS = 5000


def as_array(draws: Sequence[Draws]) -> NDArray[np.float64]:
    """Site, stay and pick of each step and chain, shape (steps, chains, 3)."""
    return np.stack([np.stack([d.site, d.stay, d.pick], axis=1) for d in draws])


@pytest.fixture(scope="module")
def drawn() -> NDArray[np.float64]:
    """Draws of four chains, shape (steps, chains, 3)."""
    streams = Streams(11, range(4), N)
    return as_array([streams.at(t) for t in range(STEPS)])


@pytest.mark.parametrize("block", [1, 7, 1000])
def test_block_size_has_no_effect(block: int) -> None:
    # 600 steps cross the end of a default block of 256 twice.
    expected, other = (Streams(3, [0, 1], N, **size) for size in ({}, {"block": block}))
    steps = range(600)
    assert np.array_equal(as_array([other.at(t) for t in steps]), as_array([expected.at(t) for t in steps]))


def test_order_of_steps_has_no_effect() -> None:
    streams, steps = Streams(3, [0, 1], N), [700, 3, 512, 511, 0, 3, 255, 256]
    shuffled = as_array([streams.at(t) for t in steps])
    fresh = as_array([Streams(3, [0, 1], N).at(t) for t in steps])
    assert np.array_equal(shuffled, fresh)


def test_company_of_other_chains_has_no_effect() -> None:
    together = Streams(3, [5, 0, 9], N)
    for place, chain in enumerate([5, 0, 9]):
        alone = Streams(3, [chain], N)
        for t in (0, 1, 300):
            assert np.array_equal(as_array([together.at(t)])[:, [place]], as_array([alone.at(t)]))


def test_words_go_on_where_a_block_ends() -> None:
    whole = words(5, 2, 0, 64)
    assert np.array_equal(np.concatenate([words(5, 2, 0, 10), words(5, 2, 10, 54)]), whole)
    assert len(np.unique(whole)) == 64 * WORDS  # no word comes twice


def test_every_key_has_a_stream_of_its_own() -> None:
    # Neighbours in seed and chain, their exchange, and the ends of the range.
    keys = [(0, 0), (0, 1), (1, 0), (1, 1), (2**64 - 1, 0), (0, 2**64 - 1)]
    drawn = np.stack([words(*key, 0, 100) for key in keys])
    assert len(np.unique(drawn)) == drawn.size
    # An overlap of two streams shifted in time would show as equal words too.
    assert len(np.unique(np.concatenate([words(7, 0, 0, 500), words(8, 0, 0, 500)]))) == 1000 * WORDS


def philox(counter: int, key: tuple[int, int]) -> list[int]:
    """Philox4x64-10 as its authors write it (Salmon et al., 2011), in whole numbers."""
    x, low = [counter, 0, 0, 0], 2**64 - 1
    k0, k1 = key
    for _ in range(10):
        first, second = 0xD2E7470EE14C6C93 * x[0], 0xCA5A826395121157 * x[2]
        x = [(second >> 64) ^ x[1] ^ k0, second & low, (first >> 64) ^ x[3] ^ k1, first & low]
        k0, k1 = (k0 + 0x9E3779B97F4A7C15) & low, (k1 + 0xBB67AE8584CAA73B) & low
    return x


def test_words_are_philox_of_seed_chain_and_step() -> None:
    # The authors' known answer vouches for the lines above.
    assert philox(0, (0, 0)) == [0x16554D9ECA36314C, 0xDB20FE9D672D0FDC, 0xD7E772CEE186176B, 0x7E68B68AEC7BA23B]
    # NumPy counts up before it draws, hence step + 1.
    for seed, chain, step in [(0, 0, 0), (42, 7, 3), (2**64 - 1, 2**40, 10**15)]:
        assert words(seed, chain, step, 2).tolist() == [philox(step + k + 1, (seed, chain)) for k in range(2)]


@pytest.mark.parametrize("column", [1, 2], ids=["stay", "pick"])
def test_stay_and_pick_are_uniform(drawn: NDArray[np.float64], column: int) -> None:
    for chain in range(4):
        assert stats.kstest(drawn[:, chain, column], "uniform").pvalue > 1e-4
    assert drawn[:, :, column].min() >= 0 and drawn[:, :, column].max() < 1


def test_sites_are_uniform(drawn: NDArray[np.float64]) -> None:
    for chain in range(4):
        counts = np.bincount(drawn[:, chain, 0].astype(int), minlength=N)
        assert len(counts) == N
        assert stats.chisquare(counts).pvalue > 1e-4


def test_draws_are_independent(drawn: NDArray[np.float64]) -> None:
    # Site, stay and pick of four chains: twelve columns, none of which tells of another or of itself one step later.
    now, later = drawn[:-1].reshape(STEPS - 1, 12), drawn[1:].reshape(STEPS - 1, 12)
    correlation = np.corrcoef(now, later, rowvar=False)
    # A correlation of independent columns has standard deviation 1 / sqrt(STEPS): five of them cover these 210 pairs.
    assert np.abs(correlation[:12, :12] - np.eye(12)).max() < 5 / np.sqrt(STEPS)
    assert np.abs(correlation[:12, 12:]).max() < 5 / np.sqrt(STEPS)


def test_uniform_stays_below_one_and_keeps_small_events() -> None:
    top = 2**64 - 1
    mapped = uniform(np.array([0, 1, 2**63, top, top - 1024], dtype=np.uint64))
    assert mapped[0] == 0
    assert mapped[1] == 2.0**-64  # an event of probability 1e-18 can happen
    assert mapped[2] == 0.5
    assert mapped[3] < 1 and mapped[4] < 1


@pytest.mark.parametrize("n", [1, 2, 3, 5, 17, 100, 511, 8192])
def test_sites_never_leave_the_range(n: int) -> None:
    ends = np.array([0, 2**64 - 1], dtype=np.uint64)
    assert sites(ends, n).tolist() == [0, n - 1]


RANGE = "is refused: give a whole number from 0 to 18,446,744,073,709,551,615$"


@pytest.mark.parametrize("seed", [-1, 2**64, 1.5, "1", None, True])
def test_bad_seed(seed: Any) -> None:
    with pytest.raises(ParameterError, match=f"^seed = {seed!r} {RANGE}"):
        Streams(seed, [0], N)


@pytest.mark.parametrize("chain", [-1, 2**64, 1.5, "1", None, True])
def test_bad_chain(chain: Any) -> None:
    with pytest.raises(ParameterError, match=f"^stream index = {chain!r} {RANGE}"):
        Streams(0, [0, chain], N)
    with pytest.raises(ParameterError, match=r"^stream indices = 3 are refused: give a sequence"):
        Streams(0, 3, N)  # type: ignore[arg-type]


def test_largest_seed_and_chain() -> None:
    drawn = Streams(2**64 - 1, [2**64 - 1], N).at(10**12)
    assert 0 <= drawn.site[0] < N and 0 <= drawn.stay[0] < 1
