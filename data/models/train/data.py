"""The corpus as arrays of word pieces, and masked batches drawn from it."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from transformers import PreTrainedTokenizerBase

SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
WINDOWS = (14, 22, 30, 46, 62)
SHORTEST_PARAGRAPH = 16
LINES_AT_A_TIME = 4096

TRAIN_MASK_RATES = (0.10, 0.40)
HELD_OUT_MASK_RATES = (0.08, 0.28)
HELD_OUT_BATCHES = 8
HELD_OUT_TOKENS = 8192


class Corpus(NamedTuple):
    """Paragraphs laid end to end.

    Attributes
    ----------
    pieces
        Word-piece ids of all paragraphs, shape ``(n_pieces,)``.
    offsets
        Paragraph ``k`` is ``pieces[offsets[k]:offsets[k + 1]]``, shape ``(n_paragraphs + 1,)``.
    """

    pieces: NDArray[np.int32]
    offsets: NDArray[np.int64]


class Batch(NamedTuple):
    """One batch of windows; every row has the same length, so nothing is padded.

    Attributes
    ----------
    inputs
        Masked and corrupted ids, with ``[CLS]`` and ``[SEP]``, shape ``(rows, window + 2)``.
    targets
        The true ids, same shape.
    chosen
        The positions to predict, same shape, never ``[CLS]`` or ``[SEP]``.
    """

    inputs: torch.Tensor
    targets: torch.Tensor
    chosen: torch.Tensor


def encode(tokenizer: PreTrainedTokenizerBase, text: Path, cache: Path) -> Corpus:
    """Encode a text file of one paragraph a line, once; later calls read the cache.

    Parameters
    ----------
    tokenizer
        A fast tokenizer.
    text
        The UTF-8 text file.
    cache
        Folder for ``<stem>.npz``.

    Returns
    -------
    Corpus
        The paragraphs of at least `SHORTEST_PARAGRAPH` pieces.
    """
    path = cache / f"{text.stem}.npz"
    if not path.exists():
        paragraphs = []
        lines = text.read_text("utf-8").split("\n")
        for start in range(0, len(lines), LINES_AT_A_TIME):
            some = lines[start : start + LINES_AT_A_TIME]
            for ids in tokenizer(some, add_special_tokens=False, verbose=False)["input_ids"]:
                if len(ids) >= SHORTEST_PARAGRAPH:
                    paragraphs.append(np.array(ids, dtype=np.int32))
        lengths = [len(p) for p in paragraphs]
        cache.mkdir(parents=True, exist_ok=True)
        np.savez(path, pieces=np.concatenate(paragraphs), offsets=np.cumsum([0, *lengths]))
    with np.load(path) as arrays:
        return Corpus(arrays["pieces"], arrays["offsets"])


def join(parts: list[Corpus]) -> Corpus:
    """Lay several corpora end to end."""
    shifts = np.cumsum([0, *(len(p.pieces) for p in parts)])
    offsets = [p.offsets[:-1] + shift for p, shift in zip(parts, shifts, strict=False)]
    return Corpus(np.concatenate([p.pieces for p in parts]), np.concatenate([*offsets, shifts[-1:]]))


def draw_windows(corpus: Corpus, rng: np.random.Generator, window: int, rows: int) -> NDArray[np.int64]:
    """Draw windows from paragraphs long enough, 40 % of them from a paragraph's start."""
    drawn: list[NDArray[np.int32]] = []
    while len(drawn) < rows:
        k = rng.integers(0, len(corpus.offsets) - 1)
        first, end = corpus.offsets[k], corpus.offsets[k + 1]
        if end - first < window:
            continue
        start = first if rng.random() < 0.4 else rng.integers(first, end - window + 1)
        drawn.append(corpus.pieces[start : start + window])
    return np.stack(drawn).astype(np.int64)


def batch(
    corpus: Corpus,
    rng: np.random.Generator,
    tokens: int,
    tokenizer: PreTrainedTokenizerBase,
    mask_rates: tuple[float, float],
) -> Batch:
    """Draw one batch of masked windows.

    All rows share one length from `WINDOWS`; each row has its own mask rate. Of the chosen positions
    88 % show ``[MASK]``, 8 % a random piece and 4 % the truth; 2 % of the other positions show a random
    piece too, as the states of a hot chain do.

    Parameters
    ----------
    corpus
        Where the windows come from.
    rng
        The source of all randomness; the order of its draws is part of the held-out set's definition.
    tokens
        Positions in the batch, ``[CLS]`` and ``[SEP]`` included.
    tokenizer
        For the special ids and the vocabulary's size.
    mask_rates
        Lowest and highest mask rate.

    Returns
    -------
    Batch
        ``tokens // (window + 2)`` rows.
    """
    window = int(rng.choice(WINDOWS))
    rows = tokens // (window + 2)
    targets = draw_windows(corpus, rng, window, rows)
    chosen = rng.random(targets.shape) < rng.uniform(*mask_rates, size=(rows, 1))
    chosen[:, 0] |= ~chosen.any(axis=1)

    inputs = targets.copy()
    fate = rng.random(targets.shape)
    inputs[chosen & (fate < 0.88)] = tokenizer.mask_token_id
    wrong_target = chosen & (fate >= 0.88) & (fate < 0.96)
    wrong_context = ~chosen & (rng.random(targets.shape) < 0.02)
    for where in (wrong_target, wrong_context):
        inputs[where] = rng.integers(len(SPECIAL), len(tokenizer), size=where.sum())

    def framed(a: NDArray[Any], first: int, last: int) -> torch.Tensor:
        return torch.from_numpy(np.pad(a, ((0, 0), (1, 1)), constant_values=((0, 0), (first, last))))

    cls, sep = tokenizer.cls_token_id, tokenizer.sep_token_id
    return Batch(framed(inputs, cls, sep), framed(targets, cls, sep), framed(chosen, False, False))


def held_out_batches(corpus: Corpus, tokenizer: PreTrainedTokenizerBase, tokens: int = HELD_OUT_TOKENS) -> list[Batch]:
    """The fixed batches on which every run of this recipe reports its held-out loss."""
    rng = np.random.default_rng(1)
    return [batch(corpus, rng, tokens, tokenizer, HELD_OUT_MASK_RATES) for _ in range(HELD_OUT_BATCHES)]
