"""Diagnostics against processes whose autocorrelation is known, and where they have no meaning."""

from typing import Any

import numpy as np
import pytest
import xarray as xr
from numpy.typing import NDArray
from scipy.signal import lfilter
from test_chain import random_table

from glauber import ParameterError, engines, exact
from glauber.diagnostics import diagnose

NUMBERS = ["mcse_mean", "ess_bulk", "ess_tail", "r_hat", "autocorrelation_time"]


def autoregression(rho: float, chains: int, draws: int, seed: int) -> NDArray[np.float64]:
    """Stationary ``x' = rho x + sqrt(1 - rho^2) e``, shape (chains, draws)."""
    noise = np.random.default_rng(seed).normal(size=(chains, draws))
    noise[:, 1:] *= np.sqrt(1 - rho**2)
    return np.asarray(lfilter([1.0], [1.0, -rho], noise, axis=1))


@pytest.mark.parametrize("rho", [-0.4, 0.0, 0.5, 0.9])
def test_autoregression_has_its_closed_forms(rho: float) -> None:
    values = autoregression(rho, 4, 20_000, seed=1)
    row = diagnose({"x": values}).loc[0]
    time = (1 + rho) / (1 - rho)
    assert row["autocorrelation_time"] == pytest.approx(time, rel=0.1)
    assert row["ess_bulk"] == pytest.approx(values.size / time, rel=0.1)
    assert row["mcse_mean"] == pytest.approx(np.sqrt(time / values.size), rel=0.06)
    assert abs(row["mean"]) < 4 * row["mcse_mean"]
    assert row["r_hat"] == pytest.approx(1, abs=0.01)
    assert 0 < row["ess_tail"] < 1.1 * values.size
    assert (row["chains"], row["draws"], row["reason"]) == (4, 20_000, "")


def test_standard_error_of_the_mean_covers_it() -> None:
    """Over many runs the means scatter as the standard errors say."""
    rows = diagnose({seed: autoregression(0.8, 2, 1500, seed) for seed in range(60)})
    scores = rows["mean"] / rows["mcse_mean"]
    assert 0.75 < np.sqrt((scores**2).mean()) < 1.3  # 60 scores: 4 standard errors


def test_independent_sites_have_their_autocorrelation_time() -> None:
    """Independent sites: the token of one of n sites is kept for a step with probability 1 - 1/n, else drawn afresh."""
    n, factors = 3, np.random.default_rng(0).normal(size=(3, 2))
    table = exact.Table(np.repeat(factors[:, None], 2**n, axis=1))
    trace = engines.run(table, np.zeros((4, n), int), temperature=1.0, steps=20_000, seed=2)
    tokens = trace["states"].isel(record=slice(1, None))
    rows = diagnose({f"token {i}": tokens.isel(position=i) for i in range(n)})  # dimensions (record, chain)
    assert np.allclose(rows["autocorrelation_time"], 2 * n - 1, rtol=0.12)  # (1 + rho) / (1 - rho), rho = 1 - 1/n
    law = np.exp(factors[:, 1]) / np.exp(factors).sum(axis=1)
    assert (np.abs(rows["mean"] - law) < 4 * rows["mcse_mean"]).all()


def test_chains_that_disagree_show() -> None:
    values = np.random.default_rng(3).normal(size=(4, 500))
    row = diagnose({"x": values + np.array([0, 0, 5, 5])[:, None]}).loc[0]
    assert row["r_hat"] > 1.5 and row["ess_bulk"] < 20 and row["autocorrelation_time"] > 100
    drifting = diagnose({"x": values + np.linspace(0, 10, 500)}).loc[0]  # the halves of each chain disagree
    assert drifting["r_hat"] > 1.5


@pytest.mark.parametrize(
    ("values", "reason"),
    [
        (np.ones((4, 100)), "constant chain (4 of 4)"),
        (np.arange(4.0)[:, None].repeat(100, axis=1), "constant chain (4 of 4)"),  # stuck apart
        (np.vstack([np.arange(100.0), np.ones(100)]), "constant chain (1 of 2)"),
        (np.arange(6.0).reshape(2, 3), "fewer than 4 draws"),
        (np.array([[0.0, 1.0, np.inf, 2.0]]), "values not finite"),
    ],
)
def test_numbers_without_meaning_are_nan_with_the_reason(values: NDArray[np.float64], reason: str) -> None:
    row = diagnose({"x": values}).loc[0]
    assert row["reason"] == reason
    assert row[NUMBERS].isna().all()


def test_one_chain_has_no_r_hat_and_a_rare_dip_no_tail() -> None:
    one = diagnose({"x": autoregression(0.5, 1, 5000, seed=4)}).loc[0]
    assert np.isnan(one["r_hat"]) and one["reason"] == "one chain: no R-hat"
    assert one["ess_bulk"] == pytest.approx(5000 / 3, rel=0.2)
    rare = (np.random.default_rng(5).random((2, 1000)) > 0.02).astype(float)
    row = diagnose({"x": rare}).loc[0]
    assert np.isnan(row["ess_tail"]) and "no tail" in row["reason"]
    assert row["ess_bulk"] == pytest.approx(2000, rel=0.2)


def test_a_trace_is_diagnosed_in_one_call() -> None:
    trace = engines.run(random_table(3, 4, seed=1), np.zeros((2, 3), int), temperature=2.0, steps=300, seed=2)
    rows = diagnose(trace[["changed", "log_ratio"]])
    assert rows["observable"].tolist() == ["changed", "log_ratio"]
    assert list(rows.columns) == ["observable", "chains", "draws", "mean", *NUMBERS, "reason"]
    assert (rows["draws"] == 300).all() and (rows["chains"] == 2).all()
    assert rows["mean"].to_numpy() == pytest.approx([float(trace[name].mean()) for name in ("changed", "log_ratio")])


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"x": [["a", "b"]]}, "the value 'a' in observable 'x' is no real number: give real numbers alone"),
        ({"x": [["1", "2"]]}, "the value '1' in observable 'x'"),
        ({"x": [[1.0, None]]}, "the value None in observable 'x'"),
        ({"x": xr.DataArray([["a", "b"]], dims=("chain", "draw"))}, "the value 'a' in observable 'x'"),
        ({"x": [[1.0], [1.0, 2.0]]}, "the rows of observable 'x' have different lengths"),
        ("x", "observables = 'x' are refused: give a mapping of names to arrays"),
    ],
)
def test_what_is_no_number_is_refused(given: Any, words: str) -> None:
    with pytest.raises(ParameterError, match=words):
        diagnose(given)


def test_other_shapes_are_refused() -> None:
    with pytest.raises(ParameterError, match=r"'x' has shape \(3,\)"):
        diagnose({"x": np.zeros(3)})
    with pytest.raises(ParameterError, match="give chain and one more"):
        diagnose({"x": xr.DataArray(np.zeros((2, 9)), dims=("walker", "draw"))})
    with pytest.raises(ParameterError, match="shape"):
        diagnose({"x": xr.DataArray(np.zeros((2, 9, 3)), dims=("chain", "draw", "position"))})
