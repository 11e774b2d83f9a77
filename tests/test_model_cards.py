"""What is told of a model: its size, the log of its training, its loss."""

import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from checkpoints import FAMILIES

from glauber import MaskedLM, exact, figures, load_model
from glauber.margins import log_probabilities
from glauber.models import facts, training_logs, training_summary
from glauber.models.loading import MODELS, model_folder

LOG = "minutes,step,tokens,train_loss,held_out_loss,learning_rate\n"


def test_facts_of_the_embedded_model(tiny: MaskedLM) -> None:
    told = facts(tiny)
    assert told["layers"] == 2 and told["width"] == 128 and told["attention heads"] == 2
    assert told["tokens of the vocabulary"] == 12_000 and told["positions"] == 128
    assert told["tokens that a chain may draw"] == len(tiny.vocabulary) < 12_000
    # The decoder is tied to the embedding: 12,000 x 128 weights that count once.
    assert told["parameters"] == pytest.approx(1.98e6, rel=0.01)
    assert told["weights on disk (MB)"] == (MODELS / "glauber-tiny" / "model.safetensors").stat().st_size / 1e6


@pytest.mark.parametrize("family", FAMILIES)
def test_facts_of_every_family(family: str, checkpoints: dict[str, Path]) -> None:
    told = facts(load_model(str(checkpoints[family]), device="cpu"))
    assert told["layers"] == 2 and told["width"] == 32 and told["attention heads"] == 2
    assert (told > 0).all()


def test_what_is_not_known_is_nan(tiny: MaskedLM, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tiny, "name", "a/hub-id")
    assert np.isnan(facts(tiny)["weights on disk (MB)"])
    assert model_folder("a/hub-id") is None and model_folder("") is None
    assert training_logs("a/hub-id") == {}


def test_logs_are_those_of_the_recipe(tmp_path: Path) -> None:
    name = str(tmp_path)
    assert training_logs(name) == {}
    (tmp_path / "training.csv").write_text(LOG + "0.0,0,0,,4.0,0\n60.0,9,800,3.9,3.5,1e-3\n90.0,10,1000,3.9,3.0,1e-3\n")
    (tmp_path / "reproduction.csv").write_text(LOG + "6.0,1,500,,4.5,0\n")
    logs = training_logs(name)
    assert list(logs) == [name, f"{name}, reproduction"]
    told = training_summary(logs[name])
    # At nine tenths of 1000 tokens the loss lies half way between 3.5 and 3.0.
    assert told.to_dict() == pytest.approx({"tokens": 1000, "hours": 1.5, "first": 4.0, "last": 3.0, "change": -0.25})
    assert training_summary(logs[f"{name}, reproduction"])["change"] == 0
    figures.training_curves(logs).draw_without_rendering()


@pytest.mark.parametrize(
    "text", ["", "epoch,loss\n1,2\n", LOG, "minutes,tokens,held_out_loss\n1,many,3\n", b"\xff\xfe\x00"]
)
def test_tables_of_another_kind_are_no_logs(text: str | bytes, tmp_path: Path) -> None:
    (tmp_path / "training.csv").write_bytes(text if isinstance(text, bytes) else text.encode())
    assert training_logs(str(tmp_path)) == {}


def test_log_probabilities_against_enumeration(restricted_tables: list[exact.Table]) -> None:
    table = restricted_tables[0]
    states = exact.enumerate_states(3, 4)
    own, best = log_probabilities(table, states)
    for row, state in enumerate(states):
        for i in range(3):
            logits = table.tables[i, row]
            assert own[row, i] == pytest.approx(logits[state[i]] - np.log(np.exp(logits).sum()))
            assert best[row, i] == (logits[state[i]] >= logits.max())


def test_the_scatter_takes_one_passage() -> None:
    figures.loss_against_loss(pd.DataFrame({"one": [3.0], "two": [2.5]})).draw_without_rendering()


@pytest.mark.parametrize(
    ("name", "run", "apart"),
    [
        ("glauber-tiny", "glauber-tiny, reproduction", 0.05),  # another run of the recipe
        ("glauber-mini", "glauber-mini", 0.01),  # the run that made it, scored in bfloat16 there
    ],
)
def test_the_cards_of_the_embedded_models_agree_with_the_logs(name: str, run: str, apart: float) -> None:
    card = (MODELS / name / "README.md").read_text("utf-8")
    (first, *_) = re.findall(r"\| 8% to 28% of the pieces \| (\d\.\d+) ± ", card)
    assert training_summary(training_logs(name)[run])["last"] == pytest.approx(float(first), abs=apart)
