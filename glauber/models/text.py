"""From text to token ids and back. Chains are kept as ids: decoding and encoding again can change them."""

import re
import unicodedata
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray
from tokenizers.models import WordPiece
from transformers import PreTrainedTokenizerBase

from ..errors import ModelError

# Rows that tokenizers keep for later, under the names that BERT, fairseq, T5, ESM, Gemma, Llama, CamemBERT and others give them.
PLACEHOLDER = re.compile(
    r"[<\[{(]\|?(?:un[-_]?used|reserved|spare|extra|null|dummy|place[-_]?holder|sentinel|special|blank|filler|empty|pad|unk|mask|x)"
    r"(?:[-_ ]?(?:special|extra|id|token|word|piece|tok))*[-_ ]?\d+\|?[>\]})]"
    r"|made?upword\d+|.*NOTUSED|<\|[^|<>]*\|>",
    re.IGNORECASE,
)
# What tokenizers call their special tokens, marked as such or not.
SPECIAL = re.compile(r"</?s>|[<\[](?:pad|unk|mask|cls|sep|bos|eos|eod|eop|null|unused|begin|end)[>\]]", re.IGNORECASE)
PROBES = 400  # tokens of the vocabulary whose texts are tried as probes


def allowed_ids(tokenizer: PreTrainedTokenizerBase, logits_width: int) -> NDArray[np.int64]:
    """Ids that the dynamics may emit: known to the tokenizer, with a column of the head, neither special nor a placeholder.

    Ids may have gaps, so that the highest can lie above ``len(tokenizer)``.

    Parameters
    ----------
    tokenizer : transformers tokenizer
    logits_width : int
        Columns of the logits.

    Raises
    ------
    ModelError
        If nothing is left.
    """
    marked = marked_ids(tokenizer)
    names = {int(i): str(token) for token, i in tokenizer.get_vocab().items()}
    kept = [
        i
        for i, name in sorted(names.items())
        if i < logits_width and i not in marked and not PLACEHOLDER.fullmatch(name) and not SPECIAL.fullmatch(name)
    ]
    if not kept:
        raise ModelError(
            f"the vocabulary is empty: all {min(len(names), logits_width)} ids of this tokenizer are special or unused, "
            f"so give another one"
        )
    return np.array(kept, dtype=np.int64)


def marked_ids(tokenizer: PreTrainedTokenizerBase) -> set[int]:
    """Ids that the tokenizer itself marks as special."""
    added = getattr(tokenizer, "added_tokens_decoder", {})
    return {int(i) for i in tokenizer.all_special_ids} | {int(i) for i, token in added.items() if token.special}


def special_ends(tokenizer: PreTrainedTokenizerBase) -> tuple[list[int], list[int]]:
    """Special ids before and after a text, read off encodings with and without them.

    The probes are texts of the vocabulary's own tokens, since any fixed text can be one that the tokenizer drops.

    Raises
    ------
    ModelError
        If no probe tells where they stand, two probes disagree, or the vocabulary is empty.
    """
    found: dict[tuple[int, ...], tuple[list[int], list[int]]] = {}
    for inner, outer in _probes(tokenizer):
        starts = [s for s in range(len(outer) - len(inner) + 1) if outer[s : s + len(inner)] == inner]
        if len(starts) == 1:
            found[tuple(inner)] = outer[: starts[0]], outer[starts[0] + len(inner) :]
        if len(found) == 2:
            break
    ends = list(found.values())
    if not ends:
        allowed_ids(tokenizer, 2**62)  # where no token may be emitted, that is the fault to tell
    if not ends or ends[0] != ends[-1]:
        raise ModelError(
            f"where the tokenizer {type(tokenizer).__name__} puts its special tokens cannot be told from its encodings: "
            f"give a tokenizer that adds the same ones around every text"
        )
    return ends[0]


def _probes(tokenizer: PreTrainedTokenizerBase) -> Iterator[tuple[list[int], list[int]]]:
    """Encodings, without and with special tokens, of texts that come to known tokens alone."""
    marked, ids = marked_ids(tokenizer), sorted(tokenizer.get_vocab().values())
    spread = np.array(ids)[np.linspace(0, len(ids) - 1, min(PROBES, len(ids))).astype(int)].tolist() if ids else []
    for text in ["a", *(str(tokenizer.decode([i])).strip() for i in spread if i not in marked)]:
        inner = tokenizer.encode(text, add_special_tokens=False) if text else []
        if inner and not marked & set(inner):
            yield list(inner), list(tokenizer.encode(text, add_special_tokens=True))


class Text:
    """Tokens of one model: encoding, decoding, and the special tokens clamped around the free positions.

    Parameters
    ----------
    tokenizer : transformers tokenizer
    logits_width : int
        Columns of the model's logits; they can be more or fewer than the tokenizer's ids.
    ends : pair of lists of int
        Special ids before and after the free positions (`special_ends`).
    """

    def __init__(
        self, tokenizer: PreTrainedTokenizerBase, logits_width: int, ends: tuple[list[int], list[int]] | None = None
    ) -> None:
        self.tokenizer = tokenizer
        self.vocabulary = allowed_ids(tokenizer, logits_width)
        self._allowed = frozenset(self.vocabulary.tolist())
        self.prefix, self.suffix = ends or ([], [])

    def encode(self, text: str) -> tuple[list[int], int]:
        """Ids of a text without special tokens, and how much of it was dropped.

        Dropped are pieces that are not allowed, such as the unknown token, and letters that the tokenizer passes over without a
        piece, as one without an unknown token does. Each counts as one.
        """
        options = {"add_special_tokens": False, "truncation": False, "verbose": False}
        if self.tokenizer.is_fast:
            encoding = self.tokenizer(text, return_offsets_mapping=True, **options)
            ids, passed = encoding["input_ids"], _passed_over(text, encoding["offset_mapping"])
        else:  # tokenizers in Python put an unknown token
            ids, passed = self.tokenizer.encode(text, **options), 0
        kept = [i for i in ids if i in self._allowed]
        return kept, len(ids) - len(kept) + passed

    def piece(self, text: str) -> int | None:
        """The one id that a short text such as ``!`` comes down to, spaces aside; None where the tokenizer has none.

        Some tokenizers put a piece for the space before it.
        """
        return next((i for i in self.encode(text)[0] if self.decode([i]).strip() == text), None)

    def decode(self, ids: list[int]) -> str:
        """Readable text of a row of ids. For the reader only: never encode it again."""
        # Only pieces of words lack their spaces; for other tokenizers transformers would warn that it does not obey.
        pieces = isinstance(getattr(getattr(self.tokenizer, "backend_tokenizer", None), "model", None), WordPiece)
        return str(self.tokenizer.decode(ids, clean_up_tokenization_spaces=pieces))

    def tokens(self, ids: list[int]) -> list[str]:
        """The token strings of a row of ids, as they stand in the vocabulary."""
        return [str(token) for token in self.tokenizer.convert_ids_to_tokens(ids)]


def _passed_over(text: str, offsets: list[tuple[int, int]]) -> int:
    """Characters that no piece stands for. Spaces, controls and accents alone do not count: normalisers take them off."""
    covered = np.zeros(len(text), dtype=bool)
    for start, end in offsets:
        covered[start:end] = True
    return sum(unicodedata.category(text[k])[0] not in "ZCM" for k in np.flatnonzero(~covered).tolist())
