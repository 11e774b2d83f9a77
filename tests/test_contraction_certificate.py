"""The certificate on heads of every family: it holds, an adversary nearly attains it, and what spoils it is refused."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers as hf
from checkpoints import FAMILIES, wordpiece
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.special import softmax
from test_contraction import Array, alpha_of, osc, tv
from test_models_trial import DEBERTA, SMALL

from glauber import MaskedLM, ModelError, ParameterError, exact, load_model
from glauber import contraction as con
from glauber.passages import read_passages, starting_states


def contexts_of(model: MaskedLM, contexts: int, n: int, seed: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Random texts and positions."""
    rng = np.random.default_rng(seed)
    return rng.choice(model.vocabulary, (contexts, n)), rng.integers(0, n, contexts)


def logits_of(model: MaskedLM, contexts: int, n: int, seed: int) -> Array:
    """Logits at random positions of random texts, shape (contexts, |V|)."""
    states, positions = (torch.from_numpy(a) for a in contexts_of(model, contexts, n, seed))
    return np.asarray(model.conditional_logits(states, positions).double().numpy())


def check_oscillation(logits: Array, bound: float) -> float:
    """Every two rows of logits are within the bound; returns the largest oscillation over the bound."""
    largest = max(float(osc(logits - row).max()) for row in logits)
    assert largest <= bound * (1 + 1e-9), f"osc = {largest:.3f} nats, bound {bound:.3f}"
    return largest / bound


def adversarial(model: MaskedLM, found: con.Certificate) -> Array:
    """Logits of two inputs of the head's norm that point along the worst pair of tokens, and against it."""
    head = con.find_head(model)
    scale: Any = head.norm.weight
    direction = scale * (head.weight[found.first] - head.weight[found.second])
    direction = direction - direction.mean() if found.centred else direction
    with torch.no_grad():
        logits = head.norm(torch.stack([direction, -direction]) * 1e6 / direction.norm()) @ head.weight.T
    return np.asarray(logits[:, model.vocabulary].double().numpy())


@pytest.mark.parametrize("family", [*FAMILIES, "glauber-tiny"])
def test_theorem_certificate(family: str, checkpoints: dict[str, Path], tiny64: MaskedLM) -> None:
    """Holds on real contexts, is nearly attained by an adversary at the head's norm, and half of it is refused."""
    model = tiny64 if family == "glauber-tiny" else load_model(str(checkpoints[family]), device="cpu", dtype="float64")
    found = con.certify(model)
    logits = logits_of(model, contexts=24, n=8, seed=1)
    share = check_oscillation(logits, found.bound)
    assert share > 0.01
    assert con.oscillations(model, *contexts_of(model, 24, 8, 1)).max() == pytest.approx(share * found.bound)
    for tau in (0.3, 1.0, found.bound / 4, found.bound):
        laws = softmax(logits / tau, axis=1)
        largest = max(float(tv(laws, law).max()) for law in laws)
        assert largest <= np.tanh(found.bound / (4 * tau)) + 1e-12
    worst = adversarial(model, found)
    assert check_oscillation(worst, found.bound) > 0.9
    with pytest.raises(AssertionError, match="osc"):
        check_oscillation(worst, found.bound / 2)


def test_scale_of_the_norm_counts(checkpoints: dict[str, Path]) -> None:
    model = load_model(str(checkpoints["bert"]), device="cpu", dtype="float64")
    norm: Any = con.find_head(model).norm
    with torch.no_grad():
        norm.weight.fill_(1.0)
        plain = con.certify(model)
        norm.weight.fill_(3.0)
    scaled = con.certify(model)
    assert scaled.bound == pytest.approx(3 * plain.bound)
    worst = adversarial(model, scaled)
    check_oscillation(worst, scaled.bound)
    with pytest.raises(AssertionError, match="osc"):
        check_oscillation(worst, plain.bound)


def square(width: int) -> Any:
    """As wide as its vocabulary: its dense layer has the shape of a decoder."""
    config = hf.DebertaV2Config(
        vocab_size=width, legacy=False, **{**SMALL, "hidden_size": width, "initializer_range": 0.1}
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(3)
        return hf.DebertaV2ForMaskedLM(config).eval()


@pytest.mark.parametrize("name", [*DEBERTA, "square"])
def test_the_certificate_is_that_of_the_vocabulary_projection_whatever_is_called_the_output(name: str) -> None:
    tokenizer = wordpiece()
    network = {**DEBERTA, "square": square}[name](len(tokenizer)).double()
    with torch.no_grad():
        for weights in network.parameters():
            if weights.dim() == 1:
                weights.add_(0.3 * torch.randn(weights.shape, generator=torch.Generator().manual_seed(1)))
    model = MaskedLM(network, tokenizer, name)
    found = con.certify(model)
    assert con.find_head(model).weight.shape == network.get_input_embeddings().weight.shape
    assert check_oscillation(logits_of(model, 24, 8, 1), found.bound) > 0.01
    worst = adversarial(model, found)
    assert check_oscillation(worst, found.bound) > 0.9
    with pytest.raises(AssertionError, match="osc"):
        check_oscillation(worst, found.bound / 2)


@pytest.fixture
def modernbert(checkpoints: dict[str, Path]) -> MaskedLM:
    """To be operated on: a fresh copy."""
    return load_model(str(checkpoints["modernbert"]), device="cpu", dtype="float64")


def test_root_mean_square_norm_is_not_centred(modernbert: MaskedLM) -> None:
    layer_norm = con.certify(modernbert)
    modernbert.network.head.norm = torch.nn.RMSNorm(32, eps=1e-6, dtype=torch.float64)
    with torch.no_grad():
        modernbert.network.decoder.weight[int(modernbert.vocabulary[5])] += 2.0  # a mean for the projection to remove
        modernbert.network.head.norm.weight.copy_(torch.linspace(0.5, 2, 32))
    found = con.certify(modernbert)
    assert layer_norm.centred
    assert not found.centred
    check_oscillation(logits_of(modernbert, 24, 8, 1), found.bound)
    worst = adversarial(modernbert, found)
    assert check_oscillation(worst, found.bound) > 0.9
    rows = (
        modernbert.network.decoder.weight.detach()[modernbert.vocabulary] * modernbert.network.head.norm.weight.detach()
    )
    centred = con.farthest_pair(rows - rows.mean(dim=1, keepdim=True))[2] * 2 * 32**0.5
    with pytest.raises(AssertionError, match="osc"):
        check_oscillation(worst, centred)


class ShiftedNorm(torch.nn.RMSNorm):
    """Gemma's: the scale is 1 + weight."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return super().forward(x) * (1 + self.weight) / self.weight


def test_heads_without_a_certificate_are_refused(modernbert: MaskedLM, checkpoints: dict[str, Path]) -> None:
    norm = modernbert.network.head.norm
    for replacement, words in ((torch.nn.Identity(), "is fed by"), (ShiftedNorm(32, dtype=torch.float64), "Shifted")):
        modernbert.network.head.norm = replacement
        with pytest.raises(ModelError, match=f"modernbert.*no certificate.*{words}") as caught:
            con.certify(modernbert)
        assert "\n" not in str(caught.value)
    modernbert.network.head.norm = norm

    def cap(module: Any, given: Any, output: Any) -> None:
        output.logits = output.logits.tanh()

    hook = modernbert.network.register_forward_hook(cap)
    with pytest.raises(ModelError, match="not linear"):
        con.certify(modernbert)
    hook.remove()
    con.certify(modernbert)


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10_000), st.integers(1, 120), st.integers(1, 6), st.booleans())
def test_farthest_pair_is_that_of_brute_force(seed: int, count: int, d: int, far: bool) -> None:
    points = np.random.default_rng(seed).normal(size=(count, d)) ** (3 if far else 1)
    a, b, distance = con.farthest_pair(torch.from_numpy(points))
    every = np.linalg.norm(points[:, None] - points[None], axis=2)
    assert distance == pytest.approx(every.max())
    assert every[a, b] == pytest.approx(distance)


def test_farthest_pair_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    # On a sphere nothing is pruned.
    points = np.random.default_rng(0).normal(size=(200, 3))
    points /= np.linalg.norm(points, axis=1, keepdims=True)
    monkeypatch.setattr("glauber.contraction.certificate.ELEMENTS", 1000)
    every = np.linalg.norm(points[:, None] - points[None], axis=2)
    assert con.farthest_pair(torch.from_numpy(points))[2] == pytest.approx(every.max())


def test_certified_temperatures() -> None:
    assert con.tau_cert(10.0, 1) == con.tau_cert(10.0, 2) == 0
    for n in (3, 16, 512):
        tau = con.tau_cert(10.0, n)
        assert con.alpha_cert(tau, 10.0, n) == pytest.approx(1)
        assert con.alpha_cert(1.01 * tau, 10.0, n) < 1
    assert con.tau_cert(10.0, 512) == pytest.approx(511 * 2.5, rel=1e-4)
    assert con.alpha_cert(0.01, 10.0, 2) <= 1
    assert con.t_mix_bound(4, 0.5, 0.01) == pytest.approx(8 * np.log(400))
    assert con.t_mix_bound(4, 1.0) == con.t_mix_bound(4, 7.0) == np.inf


def test_the_bound_is_for_its_n_and_diverges_at_the_certified_temperature() -> None:
    for n in (3, 16):
        tau = con.tau_cert(10.0, n)
        steps = con.certified_steps([0.5 * tau, tau * (1 - 1e-9), 1.001 * tau, 1.1 * tau, 2 * tau], 10.0, n, 0.01)
        assert np.isinf(steps[:2]).all()
        assert steps[2] > 50 * steps[3] > 50 * steps[4]
        assert steps[4] == pytest.approx(n / (1 - con.alpha_cert(2 * tau, 10.0, n)) * np.log(n / 0.01))
    assert np.isinf(con.certified_steps(1.1 * con.tau_cert(10.0, 16), 10.0, 32)).all()


def test_the_certified_temperature_grows_with_the_length() -> None:
    table = con.certified_lengths(10.0, (2, 3, 16, 128), 0.01)
    assert table["tau_cert"].is_monotonic_increasing
    assert table["tau_cert"].tolist() == [con.tau_cert(10.0, n) for n in table["n"]]
    assert np.isnan(table["steps"][0])
    for _, row in table[1:].iterrows():
        n = int(row["n"])
        assert (
            row["steps"]
            == con.t_mix_bound(n, con.alpha_cert(2 * row["tau_cert"], 10.0, n), 0.01)
            < 3 * n * np.log(100 * n)
        )
    assert np.isnan(con.certified_lengths(1e7, [128])["steps"][0])


def test_the_four_criteria_of_the_certified_matrix_are_one() -> None:
    n, alpha = 5, con.alpha_cert(30.0, 10.0, 5)
    found = con.criteria(alpha / (n - 1) * (1 - np.eye(n)))
    assert np.allclose(found["value"], alpha)
    assert np.allclose(found["steps"], con.t_mix_bound(n, alpha))


@pytest.mark.parametrize("temperature", [0.0, -1.0, 1e-5, 1e7, np.inf, np.nan, "hot"])
def test_a_certificate_takes_the_temperatures_of_a_run(temperature: Any) -> None:
    with pytest.raises(ParameterError, match="temperature"):
        con.alpha_cert(temperature, 10.0, 3)
    with pytest.raises(ParameterError, match="temperature"):
        con.certified_steps([1.0, temperature], 10.0, 3)


@pytest.mark.parametrize(
    ("states", "positions", "words"),
    [
        ([[300, 301], [300]], [0, 1], "rows of states have different lengths"),
        ([[300.5, 301.0], [300.0, 301.0]], [0, 1], "token id 300.5 is no whole number"),
        ([[300, 301], [301, 300]], [0.5, 1], "positions"),
        ([[300, 301], [301, 300]], [0, 2], "positions"),
        ([[300, 301], [301, 300]], [0], "positions"),
        ([[300, 301], [301, 300]], [[0], [1, 2]], "rows of positions have different lengths"),
    ],
)
def test_bad_contexts_are_refused(states: Any, positions: Any, words: str, tiny64: MaskedLM) -> None:
    with pytest.raises(ParameterError, match=words) as caught:
        con.oscillations(tiny64, states, positions)
    assert "\n" not in str(caught.value)


def test_the_certificate_bounds_the_exact_chain(tiny64: MaskedLM) -> None:
    """Above the certified temperature an exact small chain of the network mixes within the bound."""
    bound = con.certify(tiny64).bound
    begin = starting_states(tiny64.text.encode, read_passages(), 12, 1)
    table = exact.tabulate(exact.restrict(tiny64, begin.states[0], [4, 5, 6], k=4), 3)
    tau = 1.1 * con.tau_cert(bound, 3)
    alpha = con.alpha_cert(tau, bound, 3)
    assert alpha_of(table, tau) <= alpha < 1
    assert exact.mixing_time(exact.transition_matrix(table.tables, tau), 0.01) <= con.t_mix_bound(3, alpha, 0.01)


@pytest.mark.parametrize(("n", "alpha", "eps"), [(0, 0.5, 0.25), (3, -0.1, 0.25), (3, 0.5, 1.0), (3, np.nan, 0.1)])
def test_bad_bounds_are_refused(n: int, alpha: float, eps: float) -> None:
    with pytest.raises(ParameterError):
        con.t_mix_bound(n, alpha, eps)
    for bound in (-1.0, np.inf, np.nan):
        with pytest.raises(ParameterError, match="bound of 0 nats or more"):
            con.tau_cert(bound, 3)
