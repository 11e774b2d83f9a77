"""Export a trained model as a folder of float16 weights, tokenizer and a model card measured on the spot.

    python export.py SOURCE --work DIR --corpus DIR --out OUT [--compare FOLDER]

SOURCE is the folder the training started from and DIR its work folder; without --work, SOURCE itself is
exported. Every number in the card is computed here, from the exported files and from the training log.
"""

from __future__ import annotations

import argparse
import csv
import math
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from transformers import AutoTokenizer, BertForMaskedLM, PreTrainedTokenizerBase
from transformers.utils import logging as transformers_logging

from data import HELD_OUT_MASK_RATES, Batch, Corpus, draw_windows, encode, held_out_batches

ONE_MASK_WINDOWS = (16, 32, 62)
PASSAGES = 400
POSITIONS_PER_PASSAGE = 4
ROWS_AT_A_TIME = 400
CURVE_POINTS = 13
SOURCES = "[train/README.md](../train/README.md)"


class Score(NamedTuple):
    """Mean loss in nats and top-1 accuracy over masked positions, with standard errors."""

    loss: float
    loss_error: float
    accuracy: float
    accuracy_error: float


def mean_and_error(values: NDArray[np.floating], groups: NDArray[np.integer]) -> tuple[float, float]:
    """Mean over values and its standard error, where values of one group depend on each other."""
    mean = values.mean()
    sums = np.bincount(groups, weights=values - mean)
    return float(mean), float(np.sqrt(np.square(sums).sum()) / len(values))


def score(model: BertForMaskedLM, batches: Iterable[Batch], rows_per_passage: int = 1) -> Score:
    """Score the chosen positions of some batches.

    Parameters
    ----------
    model
        The model, in float32.
    batches
        The batches.
    rows_per_passage
        How many rows in a row show the same passage; passages are taken as independent.
    """
    losses, hits, groups = [], [], []
    first = 0
    for inputs, targets, chosen in batches:
        with torch.inference_mode():
            logits = model.cls(model.bert(inputs).last_hidden_state[chosen])
        true = targets[chosen]
        losses.append(torch.nn.functional.cross_entropy(logits, true, reduction="none").numpy())
        hits.append((logits.argmax(dim=1) == true).numpy())
        groups.append(first + chosen.nonzero()[:, 0].numpy() // rows_per_passage)
        first = int(groups[-1].max()) + 1
    group = np.concatenate(groups)
    loss = mean_and_error(np.concatenate(losses), group)
    accuracy = mean_and_error(np.concatenate(hits).astype(float), group)
    return Score(*loss, *accuracy)


def one_mask(corpus: Corpus, tokenizer: PreTrainedTokenizerBase, window: int) -> Iterator[Batch]:
    """Held-out passages with one masked piece, the conditional that Glauber dynamics uses."""
    rng = np.random.default_rng(2)
    passages = draw_windows(corpus, rng, window, PASSAGES)
    sites = rng.permuted(np.tile(np.arange(window), (PASSAGES, 1)), axis=1)[:, :POSITIONS_PER_PASSAGE]
    specials = (tokenizer.cls_token_id, tokenizer.sep_token_id)
    framed = np.pad(passages, ((0, 0), (1, 1)), constant_values=((0, 0), specials))
    targets = np.repeat(framed, POSITIONS_PER_PASSAGE, axis=0)
    chosen = np.zeros(targets.shape, dtype=bool)
    chosen[np.arange(len(targets)), 1 + sites.ravel()] = True
    inputs = np.where(chosen, tokenizer.mask_token_id, targets)
    for start in range(0, len(targets), ROWS_AT_A_TIME):
        rows = slice(start, start + ROWS_AT_A_TIME)
        yield Batch(*(torch.from_numpy(a[rows]) for a in (inputs, targets, chosen)))


def measure(folder: Path, corpus: Corpus) -> dict[str, Score]:
    """Score a model folder on held-out text, by kind of masking."""
    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = BertForMaskedLM.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager").eval()
    scores = {
        f"one of {window} pieces": score(model, one_mask(corpus, tokenizer, window), POSITIONS_PER_PASSAGE)
        for window in ONE_MASK_WINDOWS
    }
    low, high = HELD_OUT_MASK_RATES
    scores[f"{low:.0%} to {high:.0%} of the pieces"] = score(model, held_out_batches(corpus, tokenizer))
    return scores


def table(scores: dict[str, Score]) -> str:
    """The scores as a Markdown table."""
    lines = ["| masked | loss (nats) | perplexity | top-1 |", "|---|---|---|---|"]
    for name, s in scores.items():
        perplexity = math.exp(s.loss)
        lines.append(
            f"| {name} | {s.loss:.3f} ± {s.loss_error:.3f} "
            f"| {perplexity:.1f} ± {perplexity * s.loss_error:.1f} "
            f"| {s.accuracy:.1%} ± {s.accuracy_error:.1%} |"
        )
    return "\n".join(lines)


def read_log(log: Path) -> list[dict[str, str]]:
    """The rows of a training log."""
    with log.open() as file:
        return list(csv.DictReader(file))


def curve(rows: list[dict[str, str]]) -> str:
    """The loss along the training as a Markdown table: the log's rows nearest to equal steps in tokens, and where it stopped."""
    tokens = np.array([int(row["tokens"]) for row in rows])
    wanted = np.linspace(0, tokens[-1], CURVE_POINTS)
    lines = ["| million tokens | hours | learning rate | held-out loss (nats) |", "|---|---|---|---|"]
    for k in np.unique([int(np.abs(tokens - mark).argmin()) for mark in wanted]):
        row = rows[k]
        lines.append(
            f"| {tokens[k] / 1e6:.1f} | {float(row['minutes']) / 60:.2f} | {float(row['learning_rate']):.1e} "
            f"| {float(row['held_out_loss']):.3f} |"
        )
    before = rows[int(np.searchsorted(tokens, 0.9 * tokens[-1], side="right")) - 1]
    change = float(rows[-1]["held_out_loss"]) - float(before["held_out_loss"])
    end = (
        f"It stopped at {tokens[-1] / 1e6:.1f} million tokens, at the end of its budget. Since {int(before['tokens']) / 1e6:.1f} "
        f"million tokens the loss had changed by {change:+.3f} nats."
    )
    return "\n".join(lines) + "\n\n" + end


def history(rows: list[dict[str, str]]) -> str:
    """What the training log says, in a sentence or two."""
    last = rows[-1]
    peak = max(float(row["learning_rate"]) for row in rows)
    return (
        f"Trained for {float(last['minutes']) / 60:.1f} hours: {int(last['step']):,} steps, "
        f"{int(last['tokens']) / 1e6:.1f} million tokens, peak learning rate {peak:.1e}. The loss on the "
        f"fixed held-out batches went from {float(rows[0]['held_out_loss']):.2f} to "
        f"{float(last['held_out_loss']):.2f} nats ([the log](training.csv))."
    )


def card(name: str, out: Path, source: Path, work: Path | None, compare: Path | None, corpus: Corpus) -> str:
    """Write the model card's text.

    Parameters
    ----------
    name, out
        The model's name and its exported folder.
    source, work, compare
        The folder trained from, the run's work folder, and a model to compare with.
    corpus
        Held-out text.
    """
    model = BertForMaskedLM.from_pretrained(out)
    c = model.config
    size = (out / "model.safetensors").stat().st_size / 1e6
    parts = [
        f"# {name}",
        f"A masked language model of English (`BertForMaskedLM`): {c.num_hidden_layers} layers of "
        f"{c.hidden_size}, {c.num_attention_heads} heads, {c.vocab_size:,} uncased word pieces, "
        f"{c.max_position_embeddings} positions, {model.num_parameters() / 1e6:.2f} million parameters, "
        f"{size:.1f} MB in float16. Load it as float32.",
    ]
    if work is not None:
        log = (work / "log.csv").read_bytes()
        (out / "training.csv").write_bytes(log)
        rows = read_log(out / "training.csv")
        parts.append(f"It started from `{source.name}`. {history(rows)}")
    parts += [
        "## Held-out text",
        f"Documents kept out of the training text. One masked piece: {PASSAGES} passages, "
        f"{POSITIONS_PER_PASSAGE} positions each. Several: the fixed batches of `train/data.py`, with some "
        "wrong context pieces. ± is one standard error, with passages as the independent units.",
        table(measure(out, corpus)),
    ]
    if compare is not None:
        parts += [f"The same for `{compare.name}`:", table(measure(compare, corpus))]
    if work is not None:
        parts += ["## How the loss fell", curve(rows)]
    parts += ["## Recipe, sources and licences", f"See {SOURCES}."]
    return "\n\n".join(parts) + "\n"


def main(argv: list[str] | None = None) -> None:
    """Export from the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("source", type=Path, help="model folder the training started from")
    parser.add_argument("--out", type=Path, required=True, help="folder to write")
    parser.add_argument("--name", help="the model's name (default: that of the folder)")
    parser.add_argument("--corpus", type=Path, required=True, help="folder of valid.txt")
    parser.add_argument("--cache", type=Path, help="folder of the encoded corpus (default: with the work)")
    parser.add_argument("--work", type=Path, help="work folder of the training")
    parser.add_argument("--compare", type=Path, help="a model folder to measure too, of the same tokenizer")
    args = parser.parse_args(argv)
    transformers_logging.disable_progress_bar()

    tokenizer = AutoTokenizer.from_pretrained(args.source)
    model = BertForMaskedLM.from_pretrained(args.source, dtype=torch.float32)
    if args.work is not None:
        state = torch.load(args.work / "checkpoint.pt", weights_only=False, map_location="cpu")
        model.load_state_dict(state["model"])
    model.half().save_pretrained(args.out)
    for name in ("tokenizer.json", "tokenizer_config.json"):
        (args.out / name).write_bytes((args.source / name).read_bytes())

    cache = args.cache or (args.work or args.out.parent) / "cache"
    corpus = encode(tokenizer, args.corpus / "valid.txt", cache)
    text = card(args.name or args.out.name, args.out, args.source, args.work, args.compare, corpus)
    (args.out / "README.md").write_text(text, "utf-8")


if __name__ == "__main__":
    main()
