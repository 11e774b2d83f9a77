"""The last layer at the masked row alone: the plain network's logits, and off where they are not."""

from pathlib import Path
from typing import Any

import pytest
import torch
import transformers as hf

from glauber import MaskedLM, load_model
from glauber.models import masked_row
from glauber.models.trial import trial_rows
from glauber.provenance import provenance

SHORT = ("bert", "roberta", "distilbert", "electra", "modernbert")


def every_position(lm: MaskedLM, n: int) -> tuple[torch.Tensor, torch.Tensor]:
    """One text, masked at each of its positions in turn."""
    return trial_rows(lm.vocabulary, n, lm.device)[0][:1].repeat(n, 1), torch.arange(n)


def largest_gap(lm: MaskedLM, n: int, level: int) -> float:
    rows = every_position(lm, n)
    return float((lm._masked_row(*rows, level=level) - lm._masked_row(*rows, level=0)).abs().max())


@pytest.mark.parametrize("family", SHORT)
def test_the_short_layer_gives_the_plain_logits(family: str, checkpoints: dict[str, Path]) -> None:
    lm = load_model(str(checkpoints[family]), device="cpu", dtype="float64")
    assert lm.row.level == 2
    for n in (1, 2, 9, lm.usable_length if lm.usable_length < 100 else 80):
        assert largest_gap(lm, n, 2) < 1e-10


@pytest.mark.parametrize("family", ["albert", "esm"])
def test_other_families_run_their_last_layer_whole(family: str, checkpoints: dict[str, Path]) -> None:
    lm = load_model(str(checkpoints[family]), device="cpu")
    assert lm.row.level <= 1
    assert largest_gap(lm, 9, lm.row.level) < 1e-4


@pytest.mark.parametrize("attention", ["eager", "sdpa"])
@pytest.mark.parametrize("last", ["sliding_attention", "full_attention"])
def test_a_last_layer_that_sees_a_window(attention: str, last: str, checkpoints: dict[str, Path]) -> None:
    """Rows longer than the window, so that the mask of the masked row matters."""
    tokenizer: Any = hf.AutoTokenizer.from_pretrained(checkpoints["modernbert"])
    config = hf.AutoConfig.from_pretrained(checkpoints["modernbert"])
    config.layer_types, config.local_attention, config._attn_implementation = [last, last], 8, attention
    torch.manual_seed(0)
    lm = MaskedLM(hf.ModernBertForMaskedLM(config), tokenizer, "window")
    assert lm.row.level == 2
    assert largest_gap(lm, 28, 2) < 1e-4
    # A token two windows away and more is out of sight, in both layers.
    states, positions = every_position(lm, 28)
    other = states.clone()
    other[:, -1] = states[:, 3]
    seen = (lm.conditional_logits(states, positions) - lm.conditional_logits(other, positions))[0].abs().max()
    assert (float(seen) < 1e-6) == (last == "sliding_attention")


@pytest.mark.parametrize("planted", ["values", "raises"])
def test_a_wrong_short_layer_is_switched_off(
    planted: str, checkpoints: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = load_model(str(checkpoints["bert"]), device="cpu")

    def wrong(layer: Any, hidden: torch.Tensor, row: Any, mask: Any, rest: Any) -> torch.Tensor:
        if planted == "raises":
            raise IndexError("no such layer")
        return masked_row._bert(layer, hidden * 1.01, row, mask, rest)

    monkeypatch.setitem(masked_row.FAMILIES, "BertLayer", wrong)
    lm = load_model(str(checkpoints["bert"]), device="cpu")
    assert lm.row.level == 1
    rows = every_position(lm, 9)
    assert torch.allclose(lm.conditional_logits(*rows), plain.conditional_logits(*rows), atol=1e-4)
    table = provenance(lm, {}, 0.0, plain).set_index("item")["value"]
    assert table["left out of a forward"] == masked_row.LEVELS[1]
    assert table["left out of a forward of other"] == masked_row.LEVELS[2]


def test_the_short_layer_can_be_traced(checkpoints: dict[str, Path]) -> None:
    """As `compile_mode` does on CUDA, with a compiler that only traces."""
    lm = load_model(str(checkpoints["bert"]), device="cpu", dtype="float64")
    rows = every_position(lm, 9)
    wanted = lm.conditional_logits(*rows)
    lm.network.base_model.forward = torch.compile(lm.network.base_model.forward, backend="eager", dynamic=False)
    for _ in range(2):
        assert torch.allclose(lm.conditional_logits(*rows), wanted, atol=1e-10)
    assert largest_gap(lm, 9, 2) < 1e-10


def test_training_runs_the_layer_whole(checkpoints: dict[str, Path]) -> None:
    lm = load_model(str(checkpoints["bert"]), device="cpu")
    layer = lm.network.base_model.encoder.layer[-1]
    hidden = torch.randn(2, 5, 32)
    with lm.row.only(torch.tensor([1, 2]), 2):
        assert layer(hidden).shape == (2, 1, 32)
        layer.train()
        assert layer(hidden).shape == (2, 5, 32)
