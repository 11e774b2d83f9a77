"""Masked models against transformers itself, over seven families of tiny random checkpoints."""

import logging
import socket
from collections.abc import Callable
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any

import huggingface_hub
import pytest
import torch
import transformers as hf
from checkpoints import EXTRA_COLUMNS, FAMILIES, TABLES, UNUSED, USABLE, sentence_of, text_of, wordpiece

from glauber import MaskedLM, ModelError, load_model
from glauber.models.loading import MODELS

Load = Callable[..., MaskedLM]
TOLERANCE = {"float32": 1e-4, "float64": 1e-9}
# The tokens of each family that the dynamics may not emit, by name; the mask among them.
BERT = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *UNUSED)
FORBIDDEN = MappingProxyType(
    {
        "bert": BERT,
        "distilbert": BERT,
        "electra": BERT,
        "roberta": ("<s>", "<pad>", "</s>", "<unk>", "<mask>"),
        "albert": ("<pad>", "<unk>", "[CLS]", "[SEP]", "[MASK]"),
        "modernbert": ("<|endoftext|>", *BERT),
        "esm": ("<cls>", "<pad>", "<eos>", "<unk>", "<mask>", "<null_1>"),
    }
)


@pytest.fixture(scope="module")
def load(checkpoints: dict[str, Path]) -> Load:
    """Load the checkpoint of a family, once for each set of options."""
    return cache(lambda family, **options: load_model(str(checkpoints[family]), device="cpu", **options))


def full_ids(folder: Path, text: str) -> torch.Tensor:
    """Ids of a text with the special tokens round it, as transformers makes them."""
    return torch.tensor(hf.AutoTokenizer.from_pretrained(folder).encode(text, add_special_tokens=True))


def every_position(full: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """States (rows, n) and positions (rows,): each position of a text in turn, then of the text in reverse."""
    state = full[1:-1]
    n = len(state)
    return torch.cat([state.expand(n, n), state.flip(0).expand(n, n)]), torch.arange(n).repeat(2)


def plain_logits(
    network: hf.PreTrainedModel, ends: torch.Tensor, states: torch.Tensor, positions: torch.Tensor, mask: int
) -> torch.Tensor:
    """Logits of all ids at the masked positions: transformers alone, every position computed, then one picked."""
    rows = torch.arange(len(states))
    ids = torch.cat([ends[:1].expand(len(states), 1), states, ends[1:].expand(len(states), 1)], dim=1)
    ids[rows, positions + 1] = mask
    with torch.inference_mode():
        logits: torch.Tensor = network.eval()(input_ids=ids, attention_mask=torch.ones_like(ids)).logits
    return logits[rows, positions + 1]


def network_inputs(lm: MaskedLM, states: torch.Tensor, positions: torch.Tensor) -> list[torch.Tensor]:
    """Ids that reach the network, one tensor a forward."""
    seen: list[torch.Tensor] = []
    lm.check_length(states.shape[1])  # the trial of this length is made before
    handle = lm.network.register_forward_pre_hook(
        lambda _, __, given: seen.append(given["input_ids"]), with_kwargs=True
    )
    lm.conditional_logits(states, positions)
    handle.remove()
    return seen


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("family", FAMILIES)
def test_logits_are_those_of_transformers(load: Load, checkpoints: dict[str, Path], family: str, dtype: str) -> None:
    folder, lm = checkpoints[family], load(family, dtype=dtype)
    full = full_ids(folder, sentence_of(family))
    states, positions = every_position(full)
    network = hf.AutoModelForMaskedLM.from_pretrained(folder, dtype=getattr(torch, dtype))
    expected = plain_logits(network, full[[0, -1]], states, positions, lm.mask)
    logits = lm.conditional_logits(states, positions)
    assert logits.dtype == getattr(torch, dtype)
    assert logits.std(dim=1).min() > 0.5  # flat logits would agree whatever the code does
    torch.testing.assert_close(logits, expected[:, lm.vocabulary], atol=TOLERANCE[dtype], rtol=0)


@pytest.mark.parametrize("family", FAMILIES)
def test_network_sees_the_encoding_with_the_mask_put_in_by_id(
    load: Load, checkpoints: dict[str, Path], family: str
) -> None:
    lm, full = load(family), full_ids(checkpoints[family], sentence_of(family))
    ids, dropped = lm.text.encode(sentence_of(family))
    n = len(ids)
    (seen,) = network_inputs(lm, torch.tensor(ids).expand(n, n), torch.arange(n))
    expected = full.repeat(n, 1)
    expected[torch.arange(n), torch.arange(n) + 1] = hf.AutoTokenizer.from_pretrained(checkpoints[family]).mask_token_id
    assert dropped == 0
    assert torch.equal(seen, expected)


@pytest.mark.parametrize("family", FAMILIES)
def test_batching_has_no_effect(load: Load, checkpoints: dict[str, Path], family: str) -> None:
    states, positions = (part[::4] for part in every_position(full_ids(checkpoints[family], sentence_of(family))))
    whole, single = load(family, dtype="float64"), load(family, dtype="float64", budget=1)
    assert len(network_inputs(whole, states, positions)) == 1
    assert len(network_inputs(single, states, positions)) == len(states)
    logits = whole.conditional_logits(states, positions)
    torch.testing.assert_close(single.conditional_logits(states, positions), logits, atol=1e-9, rtol=0)


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("budget", [None, 1])
def test_candidate_logits_are_columns_of_the_conditional(load: Load, family: str, budget: int | None) -> None:
    lm = load(family, budget=budget)
    ids = torch.tensor(lm.text.encode(text_of(family))[0][:18]).reshape(3, 6)
    positions, columns = torch.tensor([5, 0, 2]), torch.tensor([[0, 7, 3], [20, 1, 1], [9, 8, 26]])
    logits = lm.candidate_logits(ids, positions, torch.from_numpy(lm.vocabulary)[columns])
    expected = lm.conditional_logits(ids, positions).gather(1, columns)
    torch.testing.assert_close(logits, expected.double(), atol=1e-4, rtol=0)
    assert torch.equal(lm.proposal_logits(ids, positions), lm.conditional_logits(ids, positions))


@pytest.mark.parametrize("family", FAMILIES)
def test_vocabulary_is_every_id_but_the_forbidden(load: Load, checkpoints: dict[str, Path], family: str) -> None:
    lm, known = load(family), hf.AutoTokenizer.from_pretrained(checkpoints[family]).get_vocab()
    allowed = sorted(i for token, i in known.items() if token not in FORBIDDEN[family])
    assert lm.vocabulary.tolist() == allowed
    assert len(allowed) == len(known) - len(FORBIDDEN[family])  # each forbidden name is there to be left out
    width = lm.network.get_output_embeddings().weight.shape[0]
    assert width == len(known) + (EXTRA_COLUMNS if family == "modernbert" else 0)


@pytest.mark.parametrize("family", FAMILIES)
def test_text_comes_back_from_ids_without_a_warning(load: Load, family: str) -> None:
    lm = load(family)
    told: list[logging.LogRecord] = []
    sentence = sentence_of(family)
    expected = {"roberta": sentence, "modernbert": sentence, "esm": " ".join(sentence)}.get(family, sentence.lower())
    watch = logging.Handler()
    watch.emit = told.append  # type: ignore[method-assign, assignment]
    hf.utils.logging.warning_once.cache_clear()
    logging.getLogger("transformers").addHandler(watch)
    decoded = lm.text.decode(lm.text.encode(sentence)[0])
    logging.getLogger("transformers").removeHandler(watch)
    assert decoded == expected
    assert not told


@pytest.mark.parametrize(("family", "space"), [("roberta", "Ġ"), ("modernbert", "Ġ"), ("albert", "▁")])
def test_tokens_carry_their_leading_space(load: Load, family: str, space: str) -> None:
    text = load(family).text
    tokens = text.tokens(text.encode("He rest of a heart")[0])
    assert space + "of" in tokens and space + "a" in tokens
    assert "".join(tokens).replace(space, " ").strip().lower() == "he rest of a heart"


@pytest.mark.parametrize("family", ["bert", "roberta"])
def test_pieces_that_may_not_be_emitted_are_dropped_and_counted(load: Load, family: str) -> None:
    text = load(family).text
    kept, dropped = text.encode(f"The heart {text.tokenizer.mask_token} of a runner {text.tokenizer.sep_token}")
    assert dropped == 2
    assert set(kept) <= set(text.vocabulary.tolist())


def test_a_mark_is_found_behind_the_piece_for_a_space_or_not_at_all(load: Load, tiny: MaskedLM) -> None:
    assert tiny.text.tokens([tiny.text.piece("!") or -1]) == ["!"]
    albert = load("albert").text
    ids, _ = albert.encode(".")
    assert len(ids) == 2  # a piece for the space comes first
    assert albert.piece(".") == ids[1]
    assert load("esm").text.piece("!") is None  # no such letter


@pytest.mark.parametrize("family", FAMILIES)
def test_usable_length_is_exactly_what_fits(load: Load, checkpoints: dict[str, Path], family: str) -> None:
    lm = load(family)
    ids = torch.tensor(lm.text.encode(text_of(family))[0][: USABLE + 1])[None]
    assert lm.usable_length == USABLE
    assert lm.conditional_logits(ids[:, :USABLE], torch.tensor([USABLE - 1])).shape == (1, len(lm.vocabulary))
    with pytest.raises(ModelError, match=f"n = {USABLE + 1} .* usable length is {USABLE}, so give a smaller one"):
        lm.conditional_logits(ids, torch.tensor([0]))
    lm.check_length(USABLE)
    with pytest.raises(ModelError, match=f"usable length is {USABLE}, so give a smaller one"):
        lm.check_length(USABLE + 1)
    if family in TABLES:  # one token more is an error of the network itself, so the limit gives nothing away
        network = hf.AutoModelForMaskedLM.from_pretrained(checkpoints[family])
        ends = full_ids(checkpoints[family], sentence_of(family))[[0, -1]]
        with pytest.raises((IndexError, RuntimeError)):
            plain_logits(network, ends, ids, torch.tensor([0]), lm.mask)


def test_tokenizer_can_set_the_usable_length(tiny: MaskedLM, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tiny.text.tokenizer, "model_max_length", 20)
    assert MaskedLM(tiny.network, tiny.text.tokenizer, "short").usable_length == 18


SMALL: dict[str, Any] = {
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "intermediate_size": 64,
    "max_position_embeddings": 40,
}
NARROW: dict[str, Any] = {
    "embedding_size": 16,
    "true_hidden_size": 16,
    "intra_bottleneck_size": 16,
    "num_attention_heads": 2,
}
UNUSUAL: dict[str, Callable[[int], Any]] = {
    # Its head multiplies by the weights of the output embedding without calling it.
    "mobilebert": lambda width: hf.MobileBertForMaskedLM(hf.MobileBertConfig(vocab_size=width, **NARROW, **SMALL)),
    # It has no attention heads.
    "fnet": lambda width: hf.FNetForMaskedLM(hf.FNetConfig(vocab_size=width, initializer_range=0.5, **SMALL)),
}


@pytest.mark.parametrize("family", UNUSUAL)
def test_unusual_heads_give_the_masked_row(family: str) -> None:
    tokenizer = wordpiece()
    full = torch.tensor(tokenizer.encode(sentence_of(family)))
    states, positions = every_position(full)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        network = UNUSUAL[family](len(tokenizer)).double().eval()
    lm = MaskedLM(network, tokenizer, family)
    # Called by itself the network is as before, hook or no hook.
    expected = plain_logits(network, full[[0, -1]], states, positions, lm.mask)
    logits = lm.conditional_logits(states, positions)
    torch.testing.assert_close(logits, expected[:, lm.vocabulary], atol=1e-9, rtol=0)


def test_embedded_model_needs_no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    attempts: list[object] = []

    def refuse(*given: object, **_: object) -> None:
        attempts.append(given)
        raise OSError("no network in this test")

    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    monkeypatch.setattr(socket.socket, "connect", refuse)
    lm = load_model("glauber-tiny", device="cpu")
    assert attempts == []
    assert str(lm.network.name_or_path) == str(MODELS / "glauber-tiny")


def test_embedded_model_agrees_in_both_precisions(tiny: MaskedLM, tiny64: MaskedLM) -> None:
    ids = torch.tensor(tiny.text.encode(text_of("bert"))[0][:32])
    single, double = (lm.conditional_logits(ids.expand(32, 32), torch.arange(32)) for lm in (tiny, tiny64))
    assert (single.dtype, double.dtype) == (torch.float32, torch.float64)
    torch.testing.assert_close(single.double(), double, atol=1e-3, rtol=0)
