"""Trim a word-piece model to the pieces a corpus uses most.

    python vocabulary.py SOURCE OUT --corpus DIR

SOURCE is a folder with a BertForMaskedLM and its tokenizer; the vocabulary is chosen on DIR/train.txt.
"""

from __future__ import annotations

import argparse
import copy
import json
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from tokenizers import Tokenizer
from transformers import BertForMaskedLM, BertTokenizer

from data import LINES_AT_A_TIME, SPECIAL

MAX_POSITIONS = 128
LATIN_END = 0x250


def count_pieces(tokenizer: Tokenizer, text: Path) -> NDArray[np.int64]:
    """How often each piece occurs in a text file, shape ``(vocabulary,)``."""
    count = np.zeros(tokenizer.get_vocab_size(), dtype=np.int64)
    lines = text.read_text("utf-8").split("\n")
    for start in range(0, len(lines), LINES_AT_A_TIME):
        some = lines[start : start + LINES_AT_A_TIME]
        for encoding in tokenizer.encode_batch(some, add_special_tokens=False):
            np.add.at(count, encoding.ids, 1)
    return count


def choose(pieces: list[str], count: NDArray[np.int64], size: int) -> list[int]:
    """Choose the ids to keep: special pieces, letters, and then the most frequent ones.

    Parameters
    ----------
    pieces
        The vocabulary in the order of its ids.
    count
        How often each occurs, shape ``(len(pieces),)``.
    size
        The size wanted.

    Returns
    -------
    list of int
        Old ids in the order of the new ones, special pieces first.
    """
    # Single letters stay whatever their count, so that a rare word splits instead of becoming [UNK].
    keep = {i for i, piece in enumerate(pieces) if len(piece.removeprefix("##")) == 1 and ord(piece[-1]) < LATIN_END}
    for i in np.argsort(-count, kind="stable"):
        if len(keep) >= size - len(SPECIAL) or count[i] == 0:
            break
        if pieces[i] not in SPECIAL and not pieces[i].startswith("[unused"):
            keep.add(int(i))
    return [pieces.index(s) for s in SPECIAL] + sorted(keep)


def trim_tokenizer(source: Path, kept: list[int], pieces: list[str], out: Path) -> None:
    """Write the tokenizer of the kept pieces to a folder."""
    index = {pieces[old]: new for new, old in enumerate(kept)}
    description = json.loads((source / "tokenizer.json").read_text("utf-8"))
    description["model"]["vocab"] = index
    description["truncation"] = description["padding"] = None
    description["added_tokens"] = [
        {**token, "id": index[token["content"]]} for token in description["added_tokens"] if token["content"] in index
    ]
    for name, special in description["post_processor"]["special_tokens"].items():
        special["ids"] = [index[name]]
    out.mkdir(parents=True, exist_ok=True)
    path = out / "tokenizer.json"
    path.write_text(json.dumps(description, ensure_ascii=False), "utf-8")
    BertTokenizer(
        tokenizer_file=str(path),
        do_lower_case=True,
        unk_token="[UNK]",
        pad_token="[PAD]",
        cls_token="[CLS]",
        sep_token="[SEP]",
        mask_token="[MASK]",
        model_max_length=MAX_POSITIONS,
    ).save_pretrained(out)


def trim_model(model: BertForMaskedLM, kept: list[int]) -> BertForMaskedLM:
    """The model over the kept pieces and the first `MAX_POSITIONS` positions, without dropout."""
    config = copy.deepcopy(model.config)
    config.vocab_size, config.max_position_embeddings = len(kept), MAX_POSITIONS
    config.hidden_dropout_prob = config.attention_probs_dropout_prob = 0.0
    config.pad_token_id = SPECIAL.index("[PAD]")
    rows = torch.tensor(kept)
    state = {}
    for name, weight in model.state_dict().items():
        if name.endswith("position_embeddings.weight"):
            state[name] = weight[:MAX_POSITIONS]
        elif weight.shape[:1] == (model.config.vocab_size,):
            state[name] = weight[rows]
        else:
            state[name] = weight
    trimmed = BertForMaskedLM(config)
    trimmed.load_state_dict(state)
    trimmed.tie_weights()
    return trimmed


def main() -> None:
    """Write the trimmed model and tokenizer to a folder."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("source", type=Path, help="folder of the model to trim")
    parser.add_argument("out", type=Path, help="folder for the trimmed one")
    parser.add_argument("--corpus", type=Path, required=True, help="folder of train.txt")
    parser.add_argument("--size", type=int, default=12000, help="number of pieces to keep")
    args = parser.parse_args()

    tokenizer = Tokenizer.from_file(str(args.source / "tokenizer.json"))
    tokenizer.no_truncation()
    tokenizer.no_padding()
    ids = tokenizer.get_vocab()
    pieces = sorted(ids, key=ids.__getitem__)
    kept = choose(pieces, count_pieces(tokenizer, args.corpus / "train.txt"), args.size)
    trim_tokenizer(args.source, kept, pieces, args.out)
    model = BertForMaskedLM.from_pretrained(args.source, dtype=torch.float32)
    trim_model(model, kept).save_pretrained(args.out)


if __name__ == "__main__":
    main()
