"""Tiny random checkpoints, one per family of masked language models, each with a real tokenizer of the family's kind.

What differs between families is what the package must get right: where the special tokens stand, whether a token
carries its leading space, where position ids start, whether the head has a bias of its own, a width other than the
hidden size, or more columns than the tokenizer has ids.
"""

import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import torch
import transformers as hf
from tokenizers import AddedToken, Tokenizer, decoders, normalizers, pre_tokenizers, processors, trainers
from tokenizers import models as subwords

from glauber.passages import EMBEDDED

SENTENCE = "A runner's heart beats slowly at rest."
TEXTS = [json.loads(line)["text"] for line in EMBEDDED.read_text(encoding="utf-8").splitlines()[:60]]
TEXTS.append(SENTENCE)
PROTEIN = "MKTAYIAKQRQISFVKSHFSRQLEERLGLIEVQAPILSRVGDGTQDNLSGAEKAVQVKVKALPDAQFEVVHSLAKWKRQTLGQHDFSAGEGLYTHMKAL"
AMINO_ACIDS = [*"LAGVSERTIDPKQNFYMHWCXBUZO.-"]
UNUSED = [f"[unused{k}]" for k in range(8)]

# Free positions that each checkpoint holds; the families differ in how their tables lead to it.
USABLE = 30
ROWS = USABLE + 2
EXTRA_COLUMNS = 7  # columns of ModernBERT's head beyond its tokenizer
SIZES: dict[str, Any] = {
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 64,
    # Twenty-five times the usual width: logits that differ by several nats, so that no mistake hides in flat ones.
    "initializer_range": 0.5,
}
FAMILIES = ("bert", "roberta", "distilbert", "albert", "electra", "modernbert", "esm")
# Families whose positions are rows of a table, so that one token too many is an error of the network itself.
TABLES = ("bert", "roberta", "distilbert", "albert", "electra")


def sentence_of(family: str) -> str:
    """A text of a dozen or two tokens, none of them unknown to the family's tokenizer."""
    return PROTEIN[:14] if family == "esm" else SENTENCE


def text_of(family: str) -> str:
    """A text of far more than `USABLE` tokens."""
    return PROTEIN if family == "esm" else " ".join(TEXTS[:3])


def wordpiece(mask: str | None = "[MASK]") -> hf.PreTrainedTokenizerBase:
    """BERT's tokenizer: lower case, ``##`` pieces, and ``[unused]`` ids before and after the special ones."""
    trained = Tokenizer(subwords.WordPiece(unk_token="[UNK]"))
    trained.normalizer = normalizers.BertNormalizer(lowercase=True)
    trained.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    named = ["[PAD]", *UNUSED[:6], "[UNK]", "[CLS]", "[SEP]", *([mask] if mask else []), *UNUSED[6:]]
    trainer = trainers.WordPieceTrainer(vocab_size=400, special_tokens=named, show_progress=False)
    trained.train_from_iterator(TEXTS, trainer)
    if mask:
        return hf.BertTokenizer(vocab=trained.get_vocab())
    # BertTokenizer would add a mask token of its own.
    return hf.PreTrainedTokenizerFast(tokenizer_object=trained, unk_token="[UNK]", pad_token="[PAD]")


def specials_only() -> hf.PreTrainedTokenizerBase:
    """A tokenizer with no token that may be emitted."""
    named = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *UNUSED]
    return hf.BertTokenizer(vocab={token: i for i, token in enumerate(named)})


def _byte_level(first: Iterable[str]) -> Tokenizer:
    trained = Tokenizer(subwords.BPE())
    trained.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    trained.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=420, special_tokens=list(first), initial_alphabet=alphabet, show_progress=False
    )
    trained.train_from_iterator(TEXTS, trainer)
    return trained


def _model_of(trained: Tokenizer) -> dict[str, Any]:
    return dict(json.loads(trained.to_str())["model"])


def roberta_bpe() -> hf.PreTrainedTokenizerBase:
    """RoBERTa's tokenizer; its mask token swallows the space before it, as the real one does."""
    model = _model_of(_byte_level(["<s>", "<pad>", "</s>", "<unk>"]))
    vocab = {**model["vocab"], "<mask>": len(model["vocab"])}
    merges: Any = [tuple(pair) for pair in model["merges"]]
    mask: Any = AddedToken("<mask>", lstrip=True, special=True)
    return hf.RobertaTokenizer(vocab=vocab, merges=merges, mask_token=mask)


def gpt2_bpe() -> hf.PreTrainedTokenizerBase:
    """GPT-2's tokenizer: byte-level, no mask, one special token."""
    model = _model_of(_byte_level(["<|endoftext|>"]))
    merges: Any = [tuple(pair) for pair in model["merges"]]
    return hf.GPT2Tokenizer(vocab=model["vocab"], merges=merges)


def modernbert_bpe() -> hf.PreTrainedTokenizerBase:
    """ModernBERT's tokenizer: special ids amid the vocabulary, after them an ordinary added token and ``[unused]``."""
    trained = _byte_level(["<|endoftext|>"])
    trained.add_special_tokens(["[UNK]", "[CLS]", "[SEP]", "[PAD]", "[MASK]"])
    trained.add_tokens(["|||EMAIL_ADDRESS|||", *UNUSED])
    cls, sep = ((token, trained.token_to_id(token)) for token in ("[CLS]", "[SEP]"))
    trained.post_processor = processors.TemplateProcessing(single="[CLS] $A [SEP]", special_tokens=[cls, sep])
    return hf.PreTrainedTokenizerFast(
        tokenizer_object=trained, unk_token="[UNK]", cls_token="[CLS]", sep_token="[SEP]", pad_token="[PAD]",
        mask_token="[MASK]",
    )  # fmt: skip


def albert_unigram() -> hf.PreTrainedTokenizerBase:
    """ALBERT's tokenizer: a unigram model over pieces that carry the leading space as ``▁``."""
    trained = Tokenizer(subwords.Unigram())
    trained.normalizer = normalizers.Lowercase()
    trained.pre_tokenizer = pre_tokenizers.Metaspace()
    named = ["<pad>", "<unk>", "[CLS]", "[SEP]", "[MASK]"]
    trainer = trainers.UnigramTrainer(vocab_size=300, special_tokens=named, unk_token="<unk>", show_progress=False)
    trained.train_from_iterator(TEXTS, trainer)
    return hf.AlbertTokenizer(vocab=[(piece, score) for piece, score in _model_of(trained)["vocab"]])


def amino_acids(folder: Path) -> hf.PreTrainedTokenizerBase:
    """ESM's tokenizer: one id per residue, read from a file."""
    folder.mkdir(parents=True, exist_ok=True)
    named = ["<cls>", "<pad>", "<eos>", "<unk>", *AMINO_ACIDS, "<null_1>", "<mask>"]
    (folder / "vocab.txt").write_text("\n".join(named), encoding="utf-8")
    return hf.EsmTokenizer(str(folder / "vocab.txt"))


def _bert(width: int) -> hf.PreTrainedModel:
    return hf.BertForMaskedLM(hf.BertConfig(vocab_size=width, max_position_embeddings=ROWS, **SIZES))


def _roberta(width: int) -> hf.PreTrainedModel:
    # Position ids start at padding_idx + 1 = 2: two rows of the table are never used.
    config = hf.RobertaConfig(vocab_size=width, max_position_embeddings=ROWS + 2, type_vocab_size=1, **SIZES)
    return hf.RobertaForMaskedLM(config)


def _distilbert(width: int) -> hf.PreTrainedModel:
    config = hf.DistilBertConfig(
        vocab_size=width, max_position_embeddings=ROWS, dim=32, n_layers=2, n_heads=2, hidden_dim=64,
        initializer_range=SIZES["initializer_range"],
    )  # fmt: skip
    return hf.DistilBertForMaskedLM(config)


def _albert(width: int) -> hf.PreTrainedModel:
    config = hf.AlbertConfig(vocab_size=width, embedding_size=16, max_position_embeddings=ROWS, **SIZES)
    return hf.AlbertForMaskedLM(config)


def _electra(width: int) -> hf.PreTrainedModel:
    config = hf.ElectraConfig(vocab_size=width, embedding_size=16, max_position_embeddings=ROWS, **SIZES)
    return hf.ElectraForMaskedLM(config)


def _modernbert(width: int) -> hf.PreTrainedModel:
    config = hf.ModernBertConfig(
        vocab_size=width + EXTRA_COLUMNS, max_position_embeddings=ROWS, pad_token_id=0, bos_token_id=None,
        eos_token_id=None, cls_token_id=None, sep_token_id=None, local_attention=8,
        layer_types=["full_attention", "sliding_attention"],
        **SIZES,
    )  # fmt: skip
    return hf.ModernBertForMaskedLM(config)


def _esm(width: int) -> hf.PreTrainedModel:
    # As ESM-2: rotary positions, the mask embedded as zero, the rest rescaled by the share of masked tokens.
    config = hf.EsmConfig(
        vocab_size=width, mask_token_id=width - 1, pad_token_id=1, position_embedding_type="rotary", token_dropout=True,
        emb_layer_norm_before=False, max_position_embeddings=ROWS, **SIZES,
    )  # fmt: skip
    return hf.EsmForMaskedLM(config)


def gpt2(width: int) -> hf.PreTrainedModel:
    """A causal model."""
    config = hf.GPT2Config(
        vocab_size=width, n_positions=64, n_embd=32, n_layer=2, n_head=2, initializer_range=0.5, bos_token_id=0,
        eos_token_id=0,
    )  # fmt: skip
    return hf.GPT2LMHeadModel(config)


def headless(width: int) -> hf.PreTrainedModel:
    """BERT's encoder without a masked-LM head."""
    return hf.BertModel(hf.BertConfig(vocab_size=width, max_position_embeddings=ROWS, **SIZES))


NETWORKS: dict[str, Callable[[int], hf.PreTrainedModel]] = {
    "bert": _bert,
    "roberta": _roberta,
    "distilbert": _distilbert,
    "albert": _albert,
    "electra": _electra,
    "modernbert": _modernbert,
    "esm": _esm,
    "gpt2": gpt2,
    "headless": headless,
}
TOKENIZERS: dict[str, Callable[[], hf.PreTrainedTokenizerBase]] = {
    "bert": wordpiece,
    "roberta": roberta_bpe,
    "distilbert": wordpiece,
    "albert": albert_unigram,
    "electra": wordpiece,
    "modernbert": modernbert_bpe,
    "gpt2": gpt2_bpe,
    "headless": wordpiece,
}


def network_of(family: str, width: int) -> hf.PreTrainedModel:
    """A network with seeded random weights; its biases are not zero, so that one left out is noticed."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(len(family))
        network = NETWORKS[family](width)
        with torch.no_grad():
            for weights in network.parameters():
                if weights.dim() == 1:
                    weights.add_(0.3 * torch.randn_like(weights))
    return network


def save(folder: Path, network: hf.PreTrainedModel, tokenizer: hf.PreTrainedTokenizerBase) -> Path:
    """Write a checkpoint as a hub repository holds it."""
    network.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def build(family: str, folder: Path) -> Path:
    """Make and write the checkpoint of one family."""
    tokenizer = amino_acids(folder) if family == "esm" else TOKENIZERS[family]()
    return save(folder, network_of(family, len(tokenizer)), tokenizer)
