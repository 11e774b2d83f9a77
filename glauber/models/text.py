"""From text to token ids and back. Chains are kept as ids: decoding and encoding again can change them."""

import re

import numpy as np
from numpy.typing import NDArray
from tokenizers.models import WordPiece
from transformers import PreTrainedTokenizerBase

from ..errors import ModelError

UNUSED = re.compile(r"\[unused\d+\]")


def allowed_ids(tokenizer: PreTrainedTokenizerBase, logits_width: int) -> NDArray[np.int64]:
    """Ids that the dynamics may emit: below ``len(tokenizer)``, not special, not ``[unused...]``, not the mask.

    Raises
    ------
    ModelError
        If nothing is left.
    """
    width = min(len(tokenizer), logits_width)
    names = {i: token for token, i in tokenizer.get_vocab().items()}
    special = set(tokenizer.all_special_ids)
    special |= {i for i, added in getattr(tokenizer, "added_tokens_decoder", {}).items() if added.special}
    kept = [i for i in range(width) if i in names and i not in special and not UNUSED.fullmatch(names[i])]
    if not kept:
        raise ModelError(
            f"the vocabulary is empty: all {width} ids of this tokenizer are special or unused, so give another one"
        )
    return np.array(kept, dtype=np.int64)


class Text:
    """Tokens of one model: encoding, decoding, and the special tokens clamped around the free positions.

    Parameters
    ----------
    tokenizer : transformers tokenizer
    logits_width : int
        Columns of the model's head; it can be wider than the tokenizer.
    """

    def __init__(self, tokenizer: PreTrainedTokenizerBase, logits_width: int) -> None:
        self.tokenizer = tokenizer
        self.vocabulary = allowed_ids(tokenizer, logits_width)
        self._allowed = frozenset(self.vocabulary.tolist())
        self.prefix, self.suffix = self._clamped()

    def _clamped(self) -> tuple[list[int], list[int]]:
        """Special ids before and after the free positions, read off an encoding with and without them."""
        probe = "a"
        inner = self.tokenizer.encode(probe, add_special_tokens=False)
        outer = self.tokenizer.encode(probe, add_special_tokens=True)
        starts = [s for s in range(len(outer) - len(inner) + 1) if outer[s : s + len(inner)] == inner]
        start = starts[0] if starts and inner else 0
        return outer[:start], outer[start + len(inner) :] if inner else outer

    def encode(self, text: str) -> tuple[list[int], int]:
        """Ids of a text without special tokens, and how many pieces were dropped because they are not allowed."""
        ids = self.tokenizer.encode(text, add_special_tokens=False, truncation=False, verbose=False)
        kept = [i for i in ids if i in self._allowed]
        return kept, len(ids) - len(kept)

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
