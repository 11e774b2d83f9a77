"""Train a small masked language model, on a CPU or one GPU, in a run that can be killed and resumed.

    python train.py SOURCE --corpus DIR --work DIR --until 2026-11-30T18:00

SOURCE is a folder with a BertForMaskedLM and its tokenizer, from vocabulary.py or grow.py. The corpus
folder holds train.txt, valid.txt and what --extra names, one paragraph a line. The work folder, outside the
repository, keeps the checkpoint, the log and the encoded corpus; starting again with the same work folder
goes on from the checkpoint.

The learning rate warms up, stays constant and decays over the last part of the budget. Because it stays
constant, a checkpoint of any moment can be finished early: --branch copies it to a new work folder, and
--decay 1 makes all of the new run its decay.
"""

from __future__ import annotations

import argparse
import csv
import os
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import torch
from loss import masked_loss
from transformers import AutoTokenizer, BertForMaskedLM, PreTrainedTokenizerBase
from transformers.utils import logging as transformers_logging

from data import (
    HELD_OUT_TOKENS,
    TRAIN_MASK_RATES,
    Batch,
    Corpus,
    batch,
    encode,
    held_out_batches,
    join,
)

WARMUP_STEPS = 100
LAST_RATE = 0.01
HEAD_FACTOR = 2.0
LOG_FIELDS = ("minutes", "step", "tokens", "train_loss", "held_out_loss", "learning_rate")

SMOKE_TOKENS = 512
SMOKE_STEPS = 20
SMOKE_TEXT = "the cat sat on the mat while the dog ran around the old house near the river and the sea "


class Budget:
    """How much of a run is over, by whichever of its limits is nearest.

    Parameters
    ----------
    steps, hours, until
        The limits: optimizer steps, hours of running, and the moment to be done. None means no limit.
    """

    def __init__(self, steps: int | None, hours: float | None, until: datetime | None) -> None:
        if steps is None and hours is None and until is None:
            raise ValueError("a run needs a limit: steps, hours or until")
        self.steps, self.hours = steps, hours
        self.until = None if until is None else until.replace(tzinfo=until.tzinfo or UTC).timestamp()

    def spent(self, step: int, seconds: float) -> float:
        """The fraction of the budget used after some steps and seconds of running, 1 at the end."""
        fractions = []
        if self.steps is not None:
            fractions.append(step / self.steps)
        if self.hours is not None:
            fractions.append(seconds / (3600 * self.hours))
        if self.until is not None:
            left = max(0.0, self.until - time.time())
            fractions.append(seconds / (seconds + left) if left else 1.0)
        return min(1.0, max(fractions))


def rate(spent: float, step: int, decay: float) -> float:
    """The learning rate as a fraction of its peak: warm-up, constant, then linear to `LAST_RATE`."""
    warm = min(1.0, (step + 1) / WARMUP_STEPS)
    return warm * max(LAST_RATE, min(1.0, (1.0 - spent) / decay))


def precision(device: str) -> torch.dtype:
    """Bfloat16 where the hardware multiplies in it, else float32."""
    fast = device == "cuda" or torch.cpu._is_amx_tile_supported()
    return torch.bfloat16 if fast else torch.float32


def held_out_loss(model: BertForMaskedLM, batches: list[Batch], dtype: torch.dtype) -> float:
    """Mean loss over the held-out batches."""
    with torch.inference_mode():
        return sum(masked_loss(model, b, dtype).item() for b in batches) / len(batches)


def optimizers(model: BertForMaskedLM, lr: float, muon: float | None) -> list[torch.optim.Optimizer]:
    """AdamW, and Muon for the matrices of the encoder if given a rate for it.

    The prediction head learns `HEAD_FACTOR` times faster. Each group keeps its peak rate as ``peak``.
    """
    matrices, body, head = [], [], []
    for name, weight in model.named_parameters():
        if name.startswith("cls."):
            head.append(weight)
        elif muon is not None and weight.dim() == 2 and name.startswith("bert.encoder."):
            matrices.append(weight)
        else:
            body.append(weight)
    groups: list[dict[str, Any]] = [
        {"params": body, "lr": lr, "peak": lr},
        {"params": head, "lr": HEAD_FACTOR * lr, "peak": HEAD_FACTOR * lr},
    ]
    made: list[torch.optim.Optimizer] = [torch.optim.AdamW(groups, betas=(0.9, 0.98), weight_decay=0.01, fused=True)]
    if muon is not None:
        group = {"params": matrices, "lr": muon, "peak": muon}
        made.append(torch.optim.Muon([group], weight_decay=0.01, adjust_lr_fn="match_rms_adamw"))
    return made


@dataclass
class Run:
    """A training run: everything that a checkpoint keeps.

    Attributes
    ----------
    model, optimizers, rng
        The model, its optimizers, and the generator that draws the batches.
    step, tokens, seconds
        Optimizer steps, positions seen, and seconds of running so far.
    """

    model: BertForMaskedLM
    optimizers: list[torch.optim.Optimizer]
    rng: np.random.Generator
    step: int = 0
    tokens: int = 0
    seconds: float = 0.0

    def save(self, path: Path) -> None:
        """Write a checkpoint so that a kill at any moment leaves the old or the new one whole."""
        partial = path.with_suffix(".partial")
        state = {
            "model": self.model.state_dict(),
            "optimizers": [optimizer.state_dict() for optimizer in self.optimizers],
            "rng": self.rng.bit_generator.state,
            "step": self.step,
            "tokens": self.tokens,
            "seconds": self.seconds,
        }
        torch.save(state, partial)
        os.replace(partial, path)

    def load(self, path: Path) -> None:
        """Take over the state of a checkpoint."""
        state = torch.load(path, weights_only=False, map_location=self.model.device)
        self.model.load_state_dict(state["model"])
        for optimizer, saved in zip(self.optimizers, state["optimizers"], strict=True):
            # The peak rates are those of this run's command line, which may differ from the checkpoint's.
            peaks = [group["peak"] for group in optimizer.param_groups]
            optimizer.load_state_dict(saved)
            for group, peak in zip(optimizer.param_groups, peaks, strict=True):
                group["peak"] = peak
        self.rng.bit_generator.state = state["rng"]
        self.step, self.tokens, self.seconds = state["step"], state["tokens"], state["seconds"]

    def update(self, some: Batch, scale: float, dtype: torch.dtype) -> float:
        """Take one optimizer step at a fraction of the peak learning rate; return the loss."""
        loss = masked_loss(self.model, some, dtype)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        for optimizer in self.optimizers:
            for group in optimizer.param_groups:
                group["lr"] = scale * group["peak"]
            optimizer.step()
            optimizer.zero_grad()
        self.step += 1
        self.tokens += some.inputs.numel()
        return loss.item()


def append(log: Path, row: Sequence[object]) -> None:
    """Add a row to the log, and print it."""
    new = not log.exists()
    with log.open("a", newline="") as file:
        writer = csv.writer(file)
        if new:
            writer.writerow(LOG_FIELDS)
        writer.writerow(row)
    print(*(f"{field} {value}" for field, value in zip(LOG_FIELDS, row, strict=True)), sep=", ", flush=True)


def smoke_corpus(folder: Path) -> None:
    """Write a corpus of a few repeated words, enough to run every line of the recipe."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "train.txt").write_text("\n".join([SMOKE_TEXT * 5] * 50), "utf-8")
    (folder / "valid.txt").write_text("\n".join([SMOKE_TEXT * 5] * 5), "utf-8")


def load_corpus(args: argparse.Namespace, tokenizer: PreTrainedTokenizerBase) -> tuple[Corpus, list[Batch]]:
    """The training corpus and the held-out batches."""
    cache = args.cache or args.work / "cache"
    parts = [encode(tokenizer, args.corpus / f"{name}.txt", cache) for name in ("train", *args.extra)]
    valid = encode(tokenizer, args.corpus / "valid.txt", cache)
    tokens = SMOKE_TOKENS if args.smoke else HELD_OUT_TOKENS
    return join(parts), held_out_batches(valid, tokenizer, tokens)


def train(args: argparse.Namespace) -> None:
    """Run or resume the training that the arguments describe."""
    device = "cuda" if torch.cuda.is_available() else "cpu"
    dtype = precision(device)
    tokenizer = AutoTokenizer.from_pretrained(args.source)
    corpus, held_out = load_corpus(args, tokenizer)
    # Plain attention: on CPU the fused kernel is several times slower for windows this short.
    model = BertForMaskedLM.from_pretrained(args.source, dtype=torch.float32, attn_implementation="eager")
    torch.nn.Module.to(model, device).train()
    run = Run(model, optimizers(model, args.lr, args.muon), np.random.default_rng(0))

    checkpoint = args.work / "checkpoint.pt"
    if checkpoint.exists():
        run.load(checkpoint)
    elif args.branch is not None:
        run.load(args.branch / "checkpoint.pt")
        run.seconds = 0.0

    def report(train_loss: float, lr: float) -> None:
        losses = (f"{train_loss:.4f}", f"{held_out_loss(model, held_out, dtype):.4f}")
        append(args.work / "log.csv", (f"{run.seconds / 60:.2f}", run.step, run.tokens, *losses, f"{lr:.2e}"))

    if run.step == 0:
        report(np.nan, 0.0)
    budget = Budget(args.steps, args.hours, args.until)
    losses: list[float] = []
    last = time.time()
    due = run.seconds + 60 * args.every
    while (spent := budget.spent(run.step, run.seconds)) < 1.0:
        scale = rate(spent, run.step, args.decay)
        some = batch(corpus, run.rng, args.tokens, tokenizer, TRAIN_MASK_RATES)
        losses.append(run.update(some, scale, dtype))
        now = time.time()
        run.seconds, last = run.seconds + now - last, now
        if run.seconds >= due or budget.spent(run.step, run.seconds) >= 1.0:
            run.save(checkpoint)
            report(float(np.mean(losses)), scale * args.lr)
            losses, due = [], run.seconds + 60 * args.every


def parse(argv: list[str] | None = None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("source", type=Path, help="model folder to start from")
    parser.add_argument("--work", type=Path, required=True, help="folder of this run, outside the repository")
    parser.add_argument("--corpus", type=Path, help="folder of train.txt and valid.txt")
    parser.add_argument("--extra", nargs="*", default=[], help="more files of the corpus, without .txt")
    parser.add_argument("--cache", type=Path, help="folder of the encoded corpus (default: with the work)")
    parser.add_argument("--hours", type=float, help="stop after this much running")
    parser.add_argument("--until", type=datetime.fromisoformat, help="stop at this moment, in UTC")
    parser.add_argument("--steps", type=int, help="stop after this many steps")
    parser.add_argument("--lr", type=float, default=1.2e-3, help="peak learning rate")
    parser.add_argument("--decay", type=float, default=0.3, help="last part of the budget, to decay in")
    parser.add_argument("--tokens", type=int, default=8192, help="positions in a batch")
    parser.add_argument("--muon", type=float, help="peak rate of Muon, if the matrices should use it")
    parser.add_argument("--every", type=float, default=5.0, help="minutes between checkpoints")
    parser.add_argument("--branch", type=Path, help="work folder of a run to start from")
    parser.add_argument("--threads", type=int, help="CPU threads")
    parser.add_argument("--smoke", action="store_true", help="a few seconds' run on a made-up corpus")
    args = parser.parse_args(argv)
    if args.smoke:
        args.corpus, args.tokens = args.work / "corpus", SMOKE_TOKENS
        args.steps = args.steps or SMOKE_STEPS
        smoke_corpus(args.corpus)
    if args.corpus is None:
        parser.error("--corpus is needed")
    return args


def main(argv: list[str] | None = None) -> None:
    """Train from the command line."""
    args = parse(argv)
    args.work.mkdir(parents=True, exist_ok=True)
    (args.work / "pid").write_text(f"{os.getpid()}\n")
    if args.threads:
        torch.set_num_threads(args.threads)
    torch.manual_seed(0)
    transformers_logging.disable_progress_bar()
    train(args)


if __name__ == "__main__":
    main()
