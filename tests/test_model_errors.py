"""What cannot be loaded or run is refused in one sentence that names the thing and the remedy."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
import transformers as hf
from checkpoints import gpt2_bpe, network_of, save, specials_only, wordpiece

from glauber import GlauberError, ModelError, ParameterError, load_control, load_model
from glauber.devices import resolve_device, resolve_dtype
from glauber.models import CausalLM, random_causal


def refusal(kind: type[GlauberError], call: Callable[[], object]) -> str:
    """The message of the error that a call must raise, a single line."""
    with pytest.raises(kind) as caught:
        call()
    message = str(caught.value)
    assert type(caught.value) is kind
    assert "\n" not in message
    return message


def no_mask(folder: Path) -> None:
    tokenizer = wordpiece(mask=None)
    save(folder, network_of("bert", len(tokenizer)), tokenizer)


def tokenizer_of_another_kind(folder: Path) -> None:
    tokenizer = gpt2_bpe()
    save(folder, network_of("bert", len(tokenizer)), tokenizer)


def mask_that_is_not_embedded(folder: Path) -> None:
    # BertTokenizer adds a mask of its own, past the last row of the network's table.
    tokenizer = hf.BertTokenizer(vocab={"[PAD]": 0, "[UNK]": 1, "[CLS]": 2, "[SEP]": 3, "a": 4, "b": 5})
    save(folder, network_of("bert", 6), tokenizer)


def nothing_to_emit(folder: Path) -> None:
    tokenizer = specials_only()
    save(folder, network_of("bert", len(tokenizer)), tokenizer)


def no_tokenizer(folder: Path) -> None:
    for file in [*folder.glob("tokenizer*"), *folder.glob("vocab*")]:
        file.unlink()


def malformed_tokenizer(folder: Path) -> None:
    (folder / "tokenizer.json").write_text('{"added_tokens": [], "model": {"type": "WordPiece"}}', encoding="utf-8")


def no_weights(folder: Path) -> None:
    (folder / "model.safetensors").unlink()


def truncated_weights(folder: Path) -> None:
    weights = folder / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-1000])


def pointer_in_place_of_weights(folder: Path) -> None:
    # What a clone without Git LFS leaves.
    (folder / "model.safetensors").write_text("version https://git-lfs.github.com/spec/v1\noid sha256:0\n", "utf-8")


def set_config(folder: Path, **values: object) -> None:
    path = folder / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text("utf-8")) | values), "utf-8")


def other_width(folder: Path) -> None:
    set_config(folder, vocab_size=50)


def unknown_type(folder: Path) -> None:
    set_config(folder, model_type="nonesuch")


def malformed_config(folder: Path) -> None:
    (folder / "config.json").write_text("{", encoding="utf-8")


def no_config(folder: Path) -> None:
    (folder / "config.json").unlink()


CANNOT = "cannot be loaded as a masked language model"
BROKEN: dict[Callable[[Path], None], str] = {
    no_mask: "has no mask token",
    tokenizer_of_another_kind: "has no mask token",
    mask_that_is_not_embedded: "embeds 6 ids, but a special token of its tokenizer has id 6",
    nothing_to_emit: "the vocabulary is empty",
    no_tokenizer: "holds no tokenizer files",
    malformed_tokenizer: CANNOT,
    no_weights: CANNOT,
    truncated_weights: CANNOT,
    pointer_in_place_of_weights: CANNOT,
    other_width: "has weights that do not fit its config.json (bert.embeddings.word_embeddings.weight",
    unknown_type: CANNOT,
    malformed_config: CANNOT,
    no_config: "holds no config.json",
}


@pytest.mark.parametrize("damage", BROKEN, ids=lambda damage: damage.__name__)
def test_broken_checkpoint(damage: Callable[[Path], None], checkpoints: dict[str, Path], tmp_path: Path) -> None:
    folder = tmp_path / "model"
    shutil.copytree(checkpoints["bert"], folder)
    assert load_model(str(folder), device="cpu").vocabulary.size  # sound until it is damaged
    damage(folder)
    assert BROKEN[damage] in refusal(ModelError, lambda: load_model(str(folder), device="cpu"))


@pytest.mark.parametrize("family", ["roberta", "albert", "modernbert", "esm"])
def test_no_tokenizer_of_any_kind(family: str, checkpoints: dict[str, Path], tmp_path: Path) -> None:
    # Some tokenizers come out empty, others raise: the sentence is the same.
    folder = tmp_path / "model"
    shutil.copytree(checkpoints[family], folder)
    no_tokenizer(folder)
    message = refusal(ModelError, lambda: load_model(str(folder), device="cpu"))
    assert "holds no tokenizer files" in message and "save_pretrained" in message


def test_missing_head(checkpoints: dict[str, Path]) -> None:
    message = refusal(ModelError, lambda: load_model(str(checkpoints["headless"])))
    assert "lacks weights of its masked-LM head (cls.predictions" in message
    assert "give a checkpoint saved with its head" in message


def test_causal_model_is_no_masked_model(checkpoints: dict[str, Path]) -> None:
    assert f"{CANNOT}: Unrecognized" in refusal(ModelError, lambda: load_model(str(checkpoints["gpt2"])))


@pytest.mark.parametrize("family", ["bert", "roberta", "electra"])
def test_masked_model_is_no_causal_control(checkpoints: dict[str, Path], family: str) -> None:
    # transformers loads each of these with a causal head, and its attention looks both ways all the same.
    message = refusal(ModelError, lambda: load_control(str(checkpoints[family]), wordpiece(), device="cpu"))
    assert "looks at tokens that follow" in message


@pytest.mark.parametrize("name", ["./nowhere", "nowhere/at/all", "~/no/where", ".\\nowhere"])
def test_path_to_nothing(name: str) -> None:
    message = refusal(ModelError, lambda: load_model(name))
    assert repr(name) in message and "no folder is there" in message


def test_names_that_are_none() -> None:
    assert "name is empty: give glauber-" in refusal(ModelError, lambda: load_model(""))
    assert "neither a local folder nor a valid hub id" in refusal(ModelError, lambda: load_model("bad name!"))


def test_hub_out_of_reach(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("glauber.hub.answers", lambda: False)
    monkeypatch.setattr("glauber.hub.cached", lambda name: False)
    message = refusal(ModelError, lambda: load_model("someone/something"))
    assert "'someone/something'" in message and "the hub cannot be reached" in message


def test_offline_setting_counts_as_out_of_reach(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    monkeypatch.setattr("socket.getaddrinfo", lambda *_: pytest.fail("asked the network"))
    assert "the hub cannot be reached" in refusal(ModelError, lambda: load_model("someone/something"))


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_logits_that_are_not_finite(checkpoints: dict[str, Path], value: float) -> None:
    lm = load_model(str(checkpoints["bert"]), device="cpu")
    states = torch.from_numpy(lm.vocabulary[:8])[None]
    with torch.no_grad():
        # One column of one token that may be emitted.
        lm.network.get_output_embeddings().bias[int(lm.vocabulary[100])] = value
    message = refusal(ModelError, lambda: lm.conditional_logits(states, torch.tensor([3])))
    assert "not finite" in message and "float32 or float64" in message
    # A call that failed leaves no hook in action behind.
    assert lm.network(input_ids=states).logits.shape[1] == 8


def test_logits_of_forbidden_ids_may_be_infinite(checkpoints: dict[str, Path]) -> None:
    lm = load_model(str(checkpoints["bert"]), device="cpu")
    with torch.no_grad():
        lm.network.get_output_embeddings().bias[lm.mask] = -torch.inf
    states = torch.from_numpy(lm.vocabulary[:8])[None]
    assert lm.conditional_logits(states, torch.tensor([3])).isfinite().all()


def test_causal_logits_that_are_not_finite(checkpoints: dict[str, Path]) -> None:
    lm = load_control(str(checkpoints["gpt2"]), wordpiece(), device="cpu")
    with torch.no_grad():
        lm.network.transformer.ln_f.bias[0] = torch.nan
    states = torch.from_numpy(lm.vocabulary[:8])[None]
    assert "not finite" in refusal(ModelError, lambda: lm.log_prob(states))


def test_causal_model_takes_as_many_tokens_as_it_has_positions(checkpoints: dict[str, Path]) -> None:
    lm = load_control(str(checkpoints["gpt2"]), wordpiece(), device="cpu")
    states = torch.from_numpy(lm.vocabulary[:65])[None]
    assert lm.log_prob(states[:, :64]).isfinite().all()
    assert "n = 65 tokens do not fit" in refusal(ModelError, lambda: lm.log_prob(states))
    lm.check_length(64)
    assert "give n of at most 64" in refusal(ModelError, lambda: lm.check_length(65))


def test_causal_model_needs_a_token_to_start_with() -> None:
    tokenizer = wordpiece(mask=None)
    network = random_causal(wordpiece()).network
    assert "no token to start" in refusal(ModelError, lambda: CausalLM(network, tokenizer, "nameless"))


@pytest.mark.parametrize("device", ["gpu", "", "cpu:", "cpu:x", "cuda:-1", "cudaa"])
def test_unknown_device(device: str) -> None:
    message = refusal(ParameterError, lambda: load_model("glauber-tiny", device=device))
    assert f"device {device!r} is unknown: give auto, cpu" in message


@pytest.mark.parametrize("device", ["cuda", "cuda:0", "mps"])
def test_absent_device(device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    monkeypatch.setattr("torch.backends.mps.is_available", lambda: False)
    message = refusal(ParameterError, lambda: load_model("glauber-tiny", device=device))
    assert f"device {device!r} is not on this machine" in message
    assert resolve_device("auto") == torch.device("cpu")


def test_absent_gpu_among_several(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("torch.cuda.is_available", lambda: True)
    monkeypatch.setattr("torch.cuda.device_count", lambda: 2)
    assert resolve_device("auto") == torch.device("cuda")
    assert resolve_device("cuda:1") == torch.device("cuda:1")
    assert "'cuda:2' is not on this machine" in refusal(ParameterError, lambda: resolve_device("cuda:2"))


def test_dtypes_that_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    message = refusal(ParameterError, lambda: load_model("glauber-tiny", device="cpu", dtype="float16"))
    assert "dtype 'float16' is unknown: give one of float32, float64, bfloat16" in message
    assert "'mps'" in refusal(ParameterError, lambda: resolve_dtype("float64", torch.device("mps")))
    for has in (True, False):
        monkeypatch.setattr("glauber.devices.has_bfloat16", lambda device, has=has: has)
        if has:
            assert resolve_dtype("bfloat16", torch.device("cpu")) == torch.bfloat16
        else:
            message = refusal(ParameterError, lambda: resolve_dtype("bfloat16", torch.device("cpu")))
            assert "emulated on this cpu" in message
