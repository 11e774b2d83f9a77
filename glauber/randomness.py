"""Counter-based random streams: the draws of a chain depend on (seed, chain, step) alone.

The streams are Philox4x64 :cite:`salmon2011parallel`, keyed by seed and chain index, with the step as the counter. One
counter value yields four 64-bit words, which is all that one step of Glauber dynamics needs. Draws therefore do not
depend on batch size, device, engine, chunking, or on which other chains run beside this one, and a run can be resumed
at any step without storing generator state.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .checks import shown, whole
from .errors import ParameterError

WORDS = 4  # 64-bit words that one Philox counter value yields
LARGEST = 2**64 - 1  # seed or index
BELOW_ONE = np.nextafter(1.0, 0.0)


@dataclass(frozen=True)
class Draws:
    """The randomness of one step of every chain.

    Attributes
    ----------
    site : array of int64, shape (chains,)
        Free position to redraw, uniform on ``0 .. n-1``.
    stay, pick : array of float64, shape (chains,)
        Uniforms on [0, 1): the first decides whether the token changes, the second which token replaces it.
    """

    site: NDArray[np.int64]
    stay: NDArray[np.float64]
    pick: NDArray[np.float64]


def uniform(words: NDArray[np.uint64]) -> NDArray[np.float64]:
    """Map 64-bit words to [0, 1). Near 0 the grid is 2**-64, so that events far below 2**-53 keep their probability."""
    return np.minimum(words.astype(np.float64) * 2.0**-64, BELOW_ONE)


def words(seed: int, chain: int, start: int, steps: int) -> NDArray[np.uint64]:
    """Raw words of one chain for steps ``start .. start+steps-1``, shape (steps, 4)."""
    bits = np.random.Philox(key=np.array([seed, chain], dtype=np.uint64), counter=start)
    return np.asarray(bits.random_raw(steps * WORDS)).reshape(steps, WORDS)


class Streams:
    """Random streams of a set of chains.

    Parameters
    ----------
    seed : int
        Seed of the run, ``0 <= seed < 2**64``.
    chains : sequence of int
        Index of each chain. The index, not the place in the batch, keys the stream.
    n : int
        Number of free positions; sites are uniform on ``0 .. n-1``.
    block : int
        Steps drawn ahead at a time. It has no effect on the values.

    Raises
    ------
    ParameterError
        If the seed or a chain index is no whole number, negative, or does not fit 64 bits.
    """

    def __init__(self, seed: int, chains: Sequence[int], n: int, block: int = 256) -> None:
        self.seed, self.chains = check_keys(seed, chains)
        self.n, self.block = n, block
        self._start = -1
        self._words = np.empty((0, 0, WORDS), dtype=np.uint64)

    def at(self, step: int) -> Draws:
        """Draws of every chain at one step (an integer from 0)."""
        drawn = self._at(step)
        return Draws(sites(drawn[:, 0], self.n), uniform(drawn[:, 1]), uniform(drawn[:, 2]))

    def uniforms(self, step: int) -> NDArray[np.float64]:
        """The words of one step as uniforms on [0, 1), shape (chains, 4): for engines that count other things than steps."""
        return uniform(self._at(step))

    def _at(self, step: int) -> NDArray[np.uint64]:
        start = step - step % self.block
        if start != self._start:
            self._words = np.stack([words(self.seed, c, start, self.block) for c in self.chains], axis=1)
            self._start = start
        return np.asarray(self._words[step - start])


def check_keys(seed: int, chains: Sequence[int]) -> tuple[int, tuple[int, ...]]:
    """Seed and indices as the 64-bit keys of the streams.

    Raises
    ------
    ParameterError
        If the seed or an index is no whole number, negative, or does not fit 64 bits.
    """
    try:
        index = tuple(np.asarray(chains) if hasattr(chains, "__array__") else chains)
    except TypeError:
        raise ParameterError(f"stream indices = {shown(chains)} are refused: give a sequence, one for each") from None
    return whole("seed", seed, 0, LARGEST), tuple(whole("stream index", c, 0, LARGEST) for c in index)


def block(seed: int, chain: int, start: int, steps: int, n: int) -> Draws:
    """Draws of one chain for steps ``start .. start+steps-1``: the fields of `Draws` with shape (steps,)."""
    drawn = words(seed, chain, start, steps)
    return Draws(sites(drawn[:, 0], n), uniform(drawn[:, 1]), uniform(drawn[:, 2]))


def sites(drawn: NDArray[np.uint64], n: int) -> NDArray[np.int64]:
    """Map one word per chain to a free position, uniform on ``0 .. n-1``."""
    return np.asarray((uniform(drawn) * n).astype(np.int64))
