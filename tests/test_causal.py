"""Causal models: probabilities of whole sequences, and the conditionals that follow from them."""

from pathlib import Path

import numpy as np
import pytest
import torch
import transformers as hf
from checkpoints import text_of, wordpiece

from glauber import MaskedLM, load_control
from glauber.models import CausalLM, random_causal


@pytest.fixture(scope="module")
def causal(checkpoints: dict[str, Path]) -> CausalLM:
    """GPT-2 in float64."""
    return load_control(str(checkpoints["gpt2"]), wordpiece(), device="cpu", dtype="float64")


@pytest.fixture(scope="module")
def small(checkpoints: dict[str, Path]) -> CausalLM:
    """A causal model over the few ids of the amino-acid tokenizer, so that whole spaces can be enumerated."""
    tokenizer = hf.AutoTokenizer.from_pretrained(checkpoints["esm"])
    return random_causal(tokenizer, seed=1, dtype=torch.float64)


@pytest.mark.parametrize("budget", [None, 1])
def test_log_prob_is_the_summed_loss(causal: CausalLM, checkpoints: dict[str, Path], budget: int | None) -> None:
    ids = torch.tensor(causal.text.encode(text_of("gpt2"))[0][:60]).reshape(5, 12)
    lm = CausalLM(causal.network, causal.text.tokenizer, "gpt2", budget)
    network = hf.AutoModelForCausalLM.from_pretrained(checkpoints["gpt2"], dtype=torch.float64).eval()
    for row, value in zip(ids, lm.log_prob(ids), strict=True):
        given = torch.cat([torch.tensor([causal.text.tokenizer.bos_token_id]), row])[None]
        with torch.inference_mode():
            told = network(input_ids=given, labels=given)
        loss = torch.nn.functional.cross_entropy(told.logits[0, :-1], row, reduction="sum")
        assert float(value) == pytest.approx(-float(loss), abs=1e-9)
        # The loss that transformers itself reports is the mean, and it takes it in float32.
        assert float(value) == pytest.approx(-12 * float(told.loss), abs=1e-3)


def test_probabilities_of_all_sequences_add_to_one(small: CausalLM) -> None:
    every = torch.arange(len(small.text.tokenizer))
    pairs = torch.cartesian_prod(every, every)
    assert float(small.log_prob(pairs).exp().sum()) == pytest.approx(1, abs=1e-9)


def test_causal_candidate_logits_are_the_conditional_up_to_a_constant(small: CausalLM) -> None:
    ids = torch.from_numpy(small.vocabulary)
    states, positions = ids[:12].reshape(3, 4), torch.tensor([0, 2, 3])
    logits = small.candidate_logits(states, positions, ids.expand(3, -1))
    for row, i, given in zip(states, positions, logits, strict=True):
        filled = row.repeat(len(ids), 1)
        filled[:, i] = ids
        joint = small.log_prob(filled)
        torch.testing.assert_close(given, joint, atol=1e-9, rtol=0)
        # A conditional differs from the joint by the probability of the rest, which is one number a row.
        offset = given - (joint - joint.logsumexp(0))
        assert float(offset.max() - offset.min()) < 1e-9
    # At the last position nothing follows, so the law of the next token is the conditional; before it is not.
    gaps = logits - small.proposal_logits(states, positions).double()
    spread = gaps.max(dim=1).values - gaps.min(dim=1).values
    assert spread[2] < 1e-4 and spread[:2].min() > 0.1


def test_proposals_see_only_what_stands_before(causal: CausalLM) -> None:
    ids = torch.tensor(causal.text.encode(text_of("gpt2"))[0][:10])
    states = ids.repeat(3, 1)
    states[1, 4:] = states[1, 4:].flip(0)
    states[2, 3] = states[2, 9]
    first, after, before = causal.proposal_logits(states, torch.tensor([4, 4, 4]))
    torch.testing.assert_close(after, first, atol=1e-5, rtol=0)
    assert (before - first).abs().max() > 0.1


def test_untrained_control_depends_on_its_seed_alone(tiny: MaskedLM) -> None:
    states = torch.from_numpy(tiny.vocabulary[:24]).reshape(2, 12)
    before = torch.get_rng_state()
    one, again, other = (load_control("", tiny.text.tokenizer, device="cpu", seed=seed) for seed in (3, 3, 4))
    assert torch.equal(torch.get_rng_state(), before)
    assert torch.equal(one.log_prob(states), again.log_prob(states))
    assert not torch.allclose(one.log_prob(states), other.log_prob(states), atol=0.1)
    assert np.array_equal(one.vocabulary, tiny.vocabulary)
