"""The training recipe in data/models/train: growing, batches, and a run that is killed and resumed."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch
from transformers import AutoTokenizer, BertForMaskedLM

MODELS = Path(__file__).parents[1] / "data" / "models"
TINY = MODELS / "glauber-tiny"
TRAIN = MODELS / "train"
sys.path.insert(0, str(TRAIN))

import export  # noqa: E402
import grow  # noqa: E402
import loss  # noqa: E402
import train  # noqa: E402
import vocabulary  # noqa: E402

import data  # noqa: E402


@pytest.fixture(scope="module")
def tiny() -> BertForMaskedLM:
    model: BertForMaskedLM = BertForMaskedLM.from_pretrained(TINY, dtype=torch.float32)
    return model


@pytest.fixture
def threads() -> Iterator[None]:
    """Give other tests their threads back."""
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


@pytest.fixture
def corpus(tmp_path: Path) -> data.Corpus:
    train.smoke_corpus(tmp_path)
    return data.encode(AutoTokenizer.from_pretrained(TINY), tmp_path / "train.txt", tmp_path)


@pytest.mark.parametrize("factor", [2, 3])
def test_widening_keeps_the_logits(tiny: BertForMaskedLM, factor: int) -> None:
    wide = grow.widen(tiny, factor)
    ids = torch.randint(0, tiny.config.vocab_size, (4, 32), generator=torch.Generator().manual_seed(0))
    with torch.inference_mode():
        difference = (wide(ids).logits - tiny(ids).logits).abs().max()
    assert wide.config.hidden_size == factor * tiny.config.hidden_size
    assert difference < 1e-4


def test_copies_of_a_unit_can_part(tiny: BertForMaskedLM) -> None:
    """Equal weights would get equal gradients for ever."""
    weight = grow.widen(tiny).state_dict()["bert.encoder.layer.0.intermediate.dense.weight"]
    first, second = weight.chunk(2)
    assert not torch.allclose(first, second)


def test_a_stacked_model_loads_and_stays_close(tiny: BertForMaskedLM, tmp_path: Path) -> None:
    grow.stack(tiny, 4).save_pretrained(tmp_path)
    deep = BertForMaskedLM.from_pretrained(tmp_path).eval()
    tokenizer = AutoTokenizer.from_pretrained(TINY)
    ids = tokenizer("The river flows into the [MASK] near the town.", return_tensors="pt")["input_ids"]
    with torch.inference_mode():
        before, after = (m(ids).logits.log_softmax(dim=-1) for m in (tiny, deep))
    divergence = (before.exp() * (before - after)).sum(dim=-1)
    assert len(deep.bert.encoder.layer) == 4
    assert divergence.max() < 0.05


def test_batches_are_masked_windows_of_the_corpus(corpus: data.Corpus) -> None:
    tokenizer = AutoTokenizer.from_pretrained(TINY)
    rng = np.random.default_rng(0)
    paragraphs = [" ".join(map(str, p)) for p in np.split(corpus.pieces, corpus.offsets[1:-1])]
    for _ in range(5):
        inputs, targets, chosen = data.batch(corpus, rng, 4096, tokenizer, (0.1, 0.4))
        assert inputs.shape == targets.shape == chosen.shape
        rows, width = inputs.shape
        assert width - 2 in data.WINDOWS
        assert rows == 4096 // width
        assert (targets[:, 0] == tokenizer.cls_token_id).all()
        assert (targets[:, -1] == tokenizer.sep_token_id).all()
        assert " ".join(map(str, targets[0, 1:-1].tolist())) in paragraphs[0]
        assert not chosen[:, [0, -1]].any()
        assert chosen.any(dim=1).all()
        assert 0.1 < chosen[:, 1:-1].float().mean() < 0.4
        masked = inputs == tokenizer.mask_token_id
        assert (chosen | ~masked).all()
        assert 0.8 < masked[chosen].float().mean() < 0.95
        assert 0 < (inputs != targets)[~chosen].float().mean() < 0.04


def test_the_vocabulary_keeps_letters_and_frequent_pieces() -> None:
    pieces = [*data.SPECIAL, "a", "##a", "rare", "common", "[unused1]"]
    kept = vocabulary.choose(pieces, np.array([0, 0, 0, 0, 0, 0, 0, 1, 9, 99]), size=8)
    assert [pieces[i] for i in kept] == [*data.SPECIAL, "a", "##a", "common"]


def test_the_loss_and_its_gradients_are_those_of_autograd() -> None:
    torch.manual_seed(0)
    arguments = [torch.randn(512, 8), torch.randn(50, 8), torch.randn(50)]
    targets = torch.randint(0, 50, (300,))
    gradients = []
    for function in (loss.linear_cross_entropy, None):
        hidden, weight, bias = (a.clone().requires_grad_() for a in arguments)
        if function is None:
            value = torch.nn.functional.cross_entropy(hidden[:300] @ weight.T + bias, targets)
        else:
            value = function(hidden, weight, bias, targets)
        gradients.append([value, *torch.autograd.grad(3 * value, (hidden, weight, bias))])
    for ours, autograds in zip(*gradients, strict=True):
        torch.testing.assert_close(ours, autograds)


def test_the_rate_warms_up_stays_and_decays() -> None:
    late = 10 * train.WARMUP_STEPS
    assert train.rate(0.0, 0, 0.3) == pytest.approx(1 / train.WARMUP_STEPS)
    assert train.rate(0.5, late, 0.3) == 1.0
    assert train.rate(0.85, late, 0.3) == pytest.approx(0.5)
    assert train.rate(1.0, late, 0.3) == train.LAST_RATE


def test_a_killed_run_resumes_to_the_same_model_and_exports(
    tmp_path: Path, threads: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = ["--smoke", "--threads", "1", "--muon", "1e-3"]
    whole, killed = tmp_path / "whole", tmp_path / "killed"

    command = [sys.executable, str(TRAIN / "train.py"), str(TINY), "--work", str(killed), *options, "--every", "0"]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    log = killed / "log.csv"
    while process.poll() is None and not (log.exists() and len(log.read_text().splitlines()) > 3):
        time.sleep(0.01)
    process.kill()
    assert process.wait() == -signal.SIGKILL
    assert torch.load(killed / "checkpoint.pt", weights_only=False)["step"] < train.SMOKE_STEPS

    for work in (killed, whole):
        train.main([str(TINY), "--work", str(work), *options])
    ends = [torch.load(work / "checkpoint.pt", weights_only=False) for work in (whole, killed)]
    assert ends[0]["step"] == ends[1]["step"] == train.SMOKE_STEPS
    for name, weight in ends[0]["model"].items():
        assert torch.equal(weight, ends[1]["model"][name]), name
    losses = np.genfromtxt(whole / "log.csv", delimiter=",", names=True)["held_out_loss"]
    assert losses[-1] < losses[0]

    monkeypatch.setattr(export, "PASSAGES", 20)
    monkeypatch.setattr(export, "held_out_batches", partial(data.held_out_batches, tokens=512))
    out = tmp_path / "glauber-smoke"
    folders = ["--work", str(whole), "--corpus", str(whole / "corpus"), "--out", str(out)]
    export.main([str(TINY), *folders])
    assert BertForMaskedLM.from_pretrained(out).dtype == torch.float16
    assert AutoTokenizer.from_pretrained(out).mask_token == "[MASK]"
    card = (out / "README.md").read_text("utf-8")
    assert "| one of 16 pieces |" in card
    assert f"| {losses[-1]:.3f} |" in card  # the end of the curve


def test_the_curve_of_a_card_is_thinned_and_keeps_its_ends() -> None:
    rows = [
        {"minutes": str(k), "tokens": str(10_000 * k), "learning_rate": "1e-3", "held_out_loss": str(5 - k / 1000)}
        for k in range(1001)
    ]
    shown = export.curve(rows).splitlines()
    lines = [line for line in shown if line.startswith("| ") and "tokens" not in line]
    assert len(lines) == export.CURVE_POINTS
    assert lines[0] == "| 0.0 | 0.00 | 1.0e-03 | 5.000 |"
    assert lines[-1] == "| 10.0 | 16.67 | 1.0e-03 | 4.000 |"
    assert shown[-1].startswith("It stopped at 10.0 million tokens")
    assert "Since 9.0 million tokens the loss had changed by -0.100 nats" in shown[-1]
