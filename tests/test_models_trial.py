"""What a model must pass before it is used: conditionals that depend on the context alone, whatever head and tokenizer it has."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers as hf
from checkpoints import SENTENCE, wordpiece
from test_models import every_position, plain_logits
from tokenizers import Tokenizer, pre_tokenizers, processors
from tokenizers import models as subwords

from glauber import MaskedLM, ModelError, engines
from glauber.models import text as model_text
from glauber.models import trial

SMALL: dict[str, Any] = {
    "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 64, "initializer_range": 0.5,
}  # fmt: skip


def network_of(kind: Callable[..., Any], config: Callable[..., Any], width: int, **options: Any) -> Any:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(3)
        return kind(config(vocab_size=width, **SMALL, **options)).eval()


def big_bird(width: int, **options: Any) -> Any:
    return network_of(
        hf.BigBirdForMaskedLM, hf.BigBirdConfig, width, max_position_embeddings=96, block_size=4, num_random_blocks=1, **options
    )  # fmt: skip


def reformer(width: int) -> Any:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(3)
        config = hf.ReformerConfig(
            vocab_size=width, is_decoder=False, hidden_size=32, num_attention_heads=2, attention_head_size=16,
            feed_forward_size=64, attn_layers=["lsh", "lsh"], axial_pos_embds=False, max_position_embeddings=64, num_buckets=8,
            lsh_attn_chunk_length=4, hash_seed=None, initializer_range=0.5, pad_token_id=0,
        )  # fmt: skip
        return hf.ReformerForMaskedLM(config).eval()


DEBERTA: dict[str, Callable[[int], Any]] = {
    "deberta-v2": lambda w: network_of(hf.DebertaV2ForMaskedLM, hf.DebertaV2Config, w, legacy=False),
    "deberta-v2 legacy": lambda w: network_of(hf.DebertaV2ForMaskedLM, hf.DebertaV2Config, w, legacy=True),
    "deberta": lambda w: network_of(hf.DebertaForMaskedLM, hf.DebertaConfig, w, legacy=False),
}


@pytest.mark.parametrize("name", DEBERTA)
def test_width_is_that_of_the_logits_whatever_layer_is_called_the_output(name: str) -> None:
    tokenizer = wordpiece()
    lm = MaskedLM(DEBERTA[name](len(tokenizer)), tokenizer, name)
    assert len(lm.vocabulary) == len(model_text.allowed_ids(tokenizer, len(tokenizer))) > 300
    assert lm.text.encode(SENTENCE)[1] == 0
    full = torch.tensor(tokenizer.encode(SENTENCE))
    states, positions = every_position(full)
    expected = plain_logits(DEBERTA[name](len(tokenizer)), full[[0, -1]], states, positions, lm.mask)
    got = lm.conditional_logits(states, positions)
    torch.testing.assert_close(got, expected[:, lm.vocabulary], atol=1e-4, rtol=0)


def test_big_bird_gives_one_law_whatever_it_was_asked_before(monkeypatch: pytest.MonkeyPatch) -> None:
    tokenizer = wordpiece()
    lm = MaskedLM(big_bird(len(tokenizer)), tokenizer, "big bird")
    long, short = (torch.from_numpy(lm.vocabulary[:n])[None] for n in (58, 8))
    at = torch.tensor([5])
    first = lm.conditional_logits(long, at)
    lm.conditional_logits(short, at)
    torch.testing.assert_close(lm.conditional_logits(long, at), first)
    assert lm.pinned == {"attention_type": "original_full"}
    monkeypatch.setattr(trial, "pin", lambda network: {})
    with pytest.raises(ModelError, match=r"logits that differ by .* nats: .*earlier calls"):
        MaskedLM(big_bird(len(tokenizer)), tokenizer, "big bird")


def test_a_network_that_hashes_anew_is_pinned_or_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    tokenizer = wordpiece()
    lm = MaskedLM(reformer(len(tokenizer)), tokenizer, "reformer")
    states, at = torch.from_numpy(lm.vocabulary[:30])[None], torch.tensor([5])
    torch.rand(7)
    before = torch.random.get_rng_state()
    assert torch.equal(lm.conditional_logits(states, at), lm.conditional_logits(states, at))
    assert torch.equal(torch.random.get_rng_state(), before), "the user's own random numbers go on as they were"
    assert lm.pinned == {"hash_seed": "0"}
    monkeypatch.setattr(trial, "pin", lambda network: {})
    with pytest.raises(ModelError, match=r"logits that differ by .* nats: .*chance"):
        MaskedLM(reformer(len(tokenizer)), tokenizer, "reformer")


def bert(width: int, kind: Callable[..., Any] = hf.BertForMaskedLM) -> Any:
    return network_of(kind, hf.BertConfig, width, max_position_embeddings=40)


class Noisy(hf.BertForMaskedLM):
    """Chance in the logits."""

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        out = super().forward(*args, **kwargs)
        out.logits = out.logits + 0.3 * torch.rand_like(out.logits)
        return out


class Crowded(hf.BertForMaskedLM):
    """Logits that depend on the other rows."""

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        out = super().forward(*args, **kwargs)
        out.logits = out.logits - out.logits.mean(dim=0, keepdim=True)
        return out


class Mixing(hf.BertForMaskedLM):
    """A head that looks at all positions, so that it cannot be given one."""

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        out = super().forward(*args, **kwargs)
        out.logits = out.logits + out.logits.roll(1, dims=1) / 2
        return out


class Padded(hf.BertForMaskedLM):
    """Logits for other positions than went in."""

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        out = super().forward(*args, **kwargs)
        out.logits = torch.nn.functional.pad(out.logits, (0, 0, 0, 3))
        return out


class Picky(hf.BertForMaskedLM):
    """As Nystromformer: lengths that divide."""

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        kwargs["input_ids"].reshape(-1, 2, 16)
        return super().forward(*args, **kwargs)


@pytest.mark.parametrize(("kind", "sentence"), [(Noisy, "equal rows"), (Crowded, "one row by itself")])
def test_logits_that_depend_on_more_than_the_context_are_refused(kind: type, sentence: str) -> None:
    tokenizer = wordpiece()
    with pytest.raises(ModelError, match=f"gives {sentence} of n = 38 tokens logits that differ by"):
        MaskedLM(bert(len(tokenizer), kind), tokenizer, "planted")


def test_a_network_that_changes_at_one_length_is_refused_there() -> None:
    tokenizer = wordpiece()
    lm = MaskedLM(bert(len(tokenizer)), tokenizer, "planted")
    plain = lm.network.forward

    def forward(*args: Any, **kwargs: Any) -> Any:
        out = plain(*args, **kwargs)
        out.logits = out.logits + torch.rand_like(out.logits) * (kwargs["input_ids"].shape[1] == 9)
        return out

    lm.network.forward = forward
    lm.check_length(8)
    with pytest.raises(ModelError, match="equal rows of n = 7 tokens"):
        lm.conditional_logits(torch.from_numpy(lm.vocabulary[:7])[None], torch.tensor([0]))


def test_a_head_that_needs_all_positions_is_left_alone() -> None:
    tokenizer = wordpiece()
    lm = MaskedLM(bert(len(tokenizer), Mixing), tokenizer, "planted")
    full = torch.tensor(tokenizer.encode(SENTENCE))
    states, positions = every_position(full)
    expected = plain_logits(bert(len(tokenizer), Mixing), full[[0, -1]], states, positions, lm.mask)
    torch.testing.assert_close(lm.conditional_logits(states, positions), expected[:, lm.vocabulary], atol=1e-4, rtol=0)


def test_logits_for_other_positions_are_refused() -> None:
    tokenizer = wordpiece()
    with pytest.raises(ModelError, match="gives logits for 43 positions where 40 went in"):
        MaskedLM(bert(len(tokenizer), Padded), tokenizer, "planted")


def test_failures_inside_the_network_are_one_sentence() -> None:
    tokenizer = wordpiece()
    lm = MaskedLM(bert(len(tokenizer), Picky), tokenizer, "planted")
    states = torch.from_numpy(lm.vocabulary[:40])[None]
    assert lm.conditional_logits(states[:, :30], torch.tensor([0])).isfinite().all()
    with pytest.raises(
        ModelError, match=r"'planted' fails on rows of n = 29 tokens \(RuntimeError: .*\): give another n"
    ) as told:
        lm.conditional_logits(states[:, :29], torch.tensor([0]))
    assert "\n" not in str(told.value)
    config = hf.NystromformerConfig(
        vocab_size=len(tokenizer), num_landmarks=8, segment_means_seq_len=32, max_position_embeddings=40, **SMALL
    )  # fmt: skip
    with pytest.raises(ModelError, match="one row by itself of n = 30"):  # it scales by the largest entry of the batch
        MaskedLM(hf.NystromformerForMaskedLM(config), tokenizer, "nystrom")


class Blind(hf.BertForMaskedLM):
    """A network that never runs."""

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        raise TypeError(f"no kernel for {kwargs['input_ids'].shape[1]} tokens")


def test_what_never_runs_is_refused_when_it_is_loaded() -> None:
    tokenizer = wordpiece()
    with pytest.raises(ModelError, match=r"fails on rows of n = 12 tokens \(TypeError: no kernel for 14 tokens\)"):
        MaskedLM(bert(len(tokenizer), Blind), tokenizer, "blind")
    tableless = bert(len(tokenizer))
    tableless.get_input_embeddings = lambda: torch.nn.Parameter(torch.zeros(3))
    with pytest.raises(ModelError, match="has no table of input embeddings"):
        MaskedLM(tableless, tokenizer, "perceiver")


def test_usable_length_is_what_the_network_takes() -> None:
    tokenizer = wordpiece()
    ibert = network_of(hf.IBertForMaskedLM, hf.IBertConfig, len(tokenizer), max_position_embeddings=34, pad_token_id=1)
    lm = MaskedLM(ibert, tokenizer, "i-bert")
    assert lm.usable_length == 30
    lm.check_length(30)
    with pytest.raises(ModelError, match="its usable length is 30"):
        lm.check_length(31)
    hidden = bert(len(tokenizer))  # a table that goes by another name: only the trial tells
    hidden.bert.embeddings.rows = hidden.bert.embeddings.position_embeddings
    hidden.config.max_position_embeddings = 100
    lookup = hidden.bert.embeddings.rows
    hidden.bert.embeddings.position_embeddings = torch.nn.Identity()
    hidden.bert.embeddings.position_embeddings.forward = lookup.forward
    assert MaskedLM(hidden, tokenizer, "hidden").usable_length == 38


def acgt(unknown: str | None = None) -> hf.PreTrainedTokenizerBase:
    """Byte-pair pieces over four letters, as of a DNA model; by default without an unknown token."""
    letters = ["[CLS]", "[SEP]", "[MASK]", "[PAD]", *"ACGT", "AC", "GT", *([unknown] if unknown else [])]
    vocab = {token: i for i, token in enumerate(letters)}
    made = Tokenizer(subwords.BPE(vocab=vocab, merges=[("A", "C"), ("G", "T")], unk_token=unknown))
    made.pre_tokenizer = pre_tokenizers.Whitespace()
    made.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 0), ("[SEP]", 1)]
    )
    marks = {"cls_token": "[CLS]", "sep_token": "[SEP]", "mask_token": "[MASK]", "pad_token": "[PAD]"}
    return hf.PreTrainedTokenizerFast(tokenizer_object=made, unk_token=unknown, **marks)


@pytest.mark.parametrize("unknown", [None, "[UNK]"])
def test_special_tokens_stand_where_the_model_has_them_though_a_probe_would_vanish(unknown: str | None) -> None:
    tokenizer = acgt(unknown)
    assert (tokenizer.encode("a", add_special_tokens=False) == []) == (unknown is None)
    lm = MaskedLM(bert(len(tokenizer)), tokenizer, "dna")
    assert (lm.text.prefix, lm.text.suffix) == ([0], [1])
    assert lm.text.tokens(lm.text.vocabulary.tolist()) == ["A", "C", "G", "T", "AC", "GT"]


def test_letters_that_a_tokenizer_passes_over_are_counted() -> None:
    text = MaskedLM(bert(10), acgt(), "dna").text
    assert text.encode("ACGT ACA") == ([8, 9, 8, 4], 0)
    assert text.encode("ACNNGT acgt") == ([8, 9], 6)


def test_special_tokens_that_cannot_be_placed_are_refused() -> None:
    tokenizer = acgt()
    encode, calls = tokenizer.encode, []

    def wavering(text: str, add_special_tokens: bool = True, **options: Any) -> list[int]:
        calls.append(text)
        ids: list[int] = encode(text, add_special_tokens=add_special_tokens, **options)
        return [0] * (len(calls) % 3) + ids if add_special_tokens else ids

    tokenizer.encode = wavering
    with pytest.raises(ModelError, match="cannot be told from its encodings"):
        MaskedLM(bert(len(tokenizer)), tokenizer, "dna")


PLACEHOLDERS = [
    "[unused7]", "[UNUSED_7]", "<unused0>", "madeupword0000", "madeupword0123", "<null_1>", "<extra_id_0>", "<extra_id_99>",
    "<|reserved_special_token_5|>", "<reserved_3>", "[reserved_3]", "<s>NOTUSED", "<unk>NOTUSED", "<dummy00001>",
    "<special_12>", "<sentinel_1>", "<placeholder3>", "<|endoftext|>", "<|padding|>", "<s>", "</s>", "[BOS]", "<eos>", "[PAD]",
]  # fmt: skip
WORDS = [
    "unused",
    "null",
    "extra",
    "special",
    "<",
    "[",
    "s",
    "<0x0A>",
    "reserved",
    "made",
    "word0000",
    "[1]",
    "<b>",
    "|",
    "x1",
    "(s)",
]


def test_placeholders_are_never_drawn_and_words_that_look_alike_are() -> None:
    class Names:
        all_special_ids = (0,)
        names = ("[MASK]", *PLACEHOLDERS, *WORDS)

        def get_vocab(self) -> dict[str, int]:
            return {name: i for i, name in enumerate(self.names)}

    names: Any = Names()
    allowed = model_text.allowed_ids(names, len(names.names))
    assert [names.names[i] for i in allowed] == WORDS


def test_ids_with_gaps_keep_their_highest() -> None:
    tokenizer = wordpiece()
    vocab = {token: i + (50 if i >= 200 else 0) for token, i in tokenizer.get_vocab().items()}
    gapped = hf.BertTokenizer(vocab=vocab)
    assert len(gapped) < max(gapped.get_vocab().values())
    lm = MaskedLM(bert(max(vocab.values()) + 1), gapped, "gaps")
    assert len(lm.vocabulary) == len(model_text.allowed_ids(tokenizer, len(tokenizer)))
    assert lm.vocabulary[-1] == max(vocab.values())
    states = lm.vocabulary[-16:].reshape(2, 8)
    trace = engines.run(lm, states, temperature=50.0, steps=300, seed=1)
    assert np.isin(trace["states"], lm.vocabulary).all()
    assert (trace["states"] > len(gapped)).any()
    fewer = MaskedLM(bert(300), gapped, "fewer rows than ids")
    assert fewer.vocabulary[-1] == 299


def test_a_bert_checkpoint_keeps_its_trial_out_of_the_batches(checkpoints: dict[str, Path]) -> None:
    """A length is tried once."""
    tokenizer = wordpiece()
    lm = MaskedLM(bert(len(tokenizer)), tokenizer, "counted")
    asked: list[int] = []
    lm.network.register_forward_pre_hook(lambda _, __, given: asked.append(len(given["input_ids"])), with_kwargs=True)
    states, at = torch.from_numpy(lm.vocabulary[:24]).reshape(3, 8), torch.tensor([0, 1, 2])
    lm.conditional_logits(states, at)
    first = len(asked)
    lm.conditional_logits(states, at)
    assert (len(asked), asked[-1]) == (first + 1, 3)
