"""Checks of a sampler against a known law. Each raises AssertionError, so that planted errors can be shown to fail."""

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import stats

from glauber import chain, engines, exact
from glauber.models import Conditionals
from glauber.randomness import Draws

LEVEL = 1e-4  # a p-value below this rejects


def state_index(states: NDArray[np.int64], k: int) -> NDArray[np.int64]:
    """Index of each row in the order of `exact.enumerate_states`."""
    n = states.shape[1]
    return np.asarray(states @ k ** np.arange(n - 1, -1, -1))


def chi_square(counts: NDArray[np.int64], law: NDArray[np.float64]) -> float:
    """P-value of counts under a law, cells of small expectation merged."""
    expected = law * counts.sum()
    order = np.argsort(expected)
    small = order[np.cumsum(expected[order]) < 5 * np.arange(1, len(order) + 1)]
    small = small[expected[small] < 5]
    kept = np.setdiff1d(order, small)
    observed, wanted = counts[kept], expected[kept]
    if len(small):
        observed, wanted = np.append(observed, counts[small].sum()), np.append(wanted, expected[small].sum())
    if wanted.min() < 1:  # the merged cell is still too small for the statistic: put it into the largest one
        largest = wanted.argmax()
        observed[largest] += observed[-1]
        wanted[largest] += wanted[-1]
        observed, wanted = observed[:-1], wanted[:-1]
    return float(stats.chisquare(observed, wanted * (observed.sum() / wanted.sum())).pvalue)


def check_law_after(
    model: Conditionals, table: exact.Table, start: list[int], temperature: float, steps: int, chains: int, seed: int
) -> None:
    """The law of many chains after ``steps`` steps is the exact row of the matrix power."""
    k = len(table.vocabulary)
    trace = engines.run(
        model, np.tile(start, (chains, 1)), temperature=temperature, steps=steps, seed=seed, record_every=steps
    )
    reached = state_index(trace["states"].values[-1].astype(np.int64), k)
    matrix = exact.transition_matrix(table.tables, temperature)
    law = np.linalg.matrix_power(matrix, steps)[state_index(np.array([start]), k)[0]]
    counts = np.bincount(reached, minlength=len(law))
    assert counts[law == 0].sum() == 0, "a state of probability 0 was reached"
    p = chi_square(counts, law)
    assert p > LEVEL, f"law after {steps} steps rejected, p = {p:.1e}"


def check_rare_moves(logits: torch.Tensor, temperature: float, chains: int, seed: int) -> None:
    """Moves out of a state with tiny excluded mass ``m`` come at the rate ``m``, seen through uniforms squeezed near 0.

    Parameters
    ----------
    logits : Tensor, shape (k,)
        The first token is the current one.
    """
    gaps = (logits[1:] - logits[0]).double().numpy() / temperature
    mass = float(np.exp(gaps).sum() / (1 + np.exp(gaps).sum()))
    squeeze = 2 * mass
    rng = np.random.default_rng(seed)
    draws = Draws(np.zeros(chains, np.int64), rng.random(chains) * squeeze, rng.random(chains))
    after = chain.redraw(
        logits.repeat(chains, 1),
        torch.zeros(chains, dtype=torch.long),
        torch.full((chains,), temperature).double(),
        draws,
    )
    moved = int((after != 0).sum())
    p = stats.binomtest(moved, chains, 0.5).pvalue
    assert p > LEVEL, f"{moved} of {chains} moved where half should, p = {p:.1e}"


def check_never_emitted(trace_states: NDArray[np.int32], forbidden: set[int]) -> None:
    """No forbidden id occurs in any recorded state."""
    emitted = set(np.unique(trace_states).tolist()) & forbidden
    assert not emitted, f"forbidden ids {sorted(emitted)} were emitted"
