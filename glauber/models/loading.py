"""Loading models from this repository, a local folder or the hub, with every failure told in one sentence."""

import logging
from pathlib import Path
from typing import Any

import torch
import transformers
from transformers import AutoModelForCausalLM, AutoModelForMaskedLM, AutoTokenizer, PreTrainedTokenizerBase

from .. import hub
from ..devices import resolve_device, resolve_dtype
from ..errors import ModelError, ParameterError
from .causal import CausalLM, random_causal
from .masked import MaskedLM

VOCABULARIES = (
    "tokenizer.json",
    "vocab*",
    "*.model",
    "*.bpe",
    "*.tiktoken",
)  # files that hold a tokenizer's vocabulary
MODELS = Path(__file__).parents[2] / "data" / "models"
EMBEDDED = tuple(sorted(path.parent.name for path in MODELS.glob("*/config.json")))


def load_model(
    name: str, *, device: str = "auto", dtype: str = "float32", budget: int | None = None, compile_mode: str = ""
) -> MaskedLM:
    """Load a masked language model.

    Parameters
    ----------
    name : str
        An embedded model (``glauber-tiny``), a local folder, or a hub id such as ``answerdotai/ModernBERT-base``.
    device : str
        ``auto``, ``cpu``, ``cuda``, ``cuda:0`` or ``mps``.
    dtype : str
        ``float32``, ``float64``, or ``bfloat16`` where the hardware has it.
    budget : int, optional
        Bytes that one batch of forwards may take; by default what the device has free.
    compile_mode : str
        A mode of ``torch.compile`` for the encoder on CUDA, such as ``default`` or ``reduce-overhead`` (CUDA graphs); off
        if empty. Worth it where many batches of one shape are run.

    Returns
    -------
    MaskedLM

    Raises
    ------
    ModelError
        If there is no such model, it cannot be reached, it is no masked language model, its head is missing, or it fails its
        trial (`MaskedLM`).
    ParameterError
        If the device or dtype is unknown or absent.
    """
    if compile_mode and resolve_device(device).type != "cuda":
        raise ParameterError(f"compile_mode {compile_mode!r} needs a CUDA device: leave it empty on this one")
    network, tokenizer = _load(name, AutoModelForMaskedLM, "masked", device, dtype)
    lm = MaskedLM(network, tokenizer, name, budget)
    if compile_mode:
        # After the trials, of lengths that will not come again. The hooks stay outside of the compiled part.
        network.base_model.forward = torch.compile(network.base_model.forward, mode=compile_mode, dynamic=False)
    return lm


def load_control(
    name: str, tokenizer: PreTrainedTokenizerBase, *, device: str = "auto", dtype: str = "float32", seed: int = 0
) -> CausalLM:
    """Load a causal language model, or build an untrained one over ``tokenizer`` where ``name`` is empty.

    Raises
    ------
    ModelError, ParameterError
        As `load_model`.
    """
    if not name:
        where = resolve_device(device)
        return random_causal(tokenizer, seed, resolve_dtype(dtype, where), where)
    network, own = _load(name, AutoModelForCausalLM, "causal", device, dtype)
    return CausalLM(network, own, name)


def model_folder(name: str) -> Path | None:
    """Folder of an embedded model or of one that is given by its folder; None for a hub id."""
    if name in EMBEDDED:
        return MODELS / name
    folder = Path(name).expanduser()
    return folder if name and folder.is_dir() else None


def _load(name: str, auto: Any, kind: str, device: str, dtype: str) -> tuple[Any, PreTrainedTokenizerBase]:
    where = resolve_device(device)
    number = resolve_dtype(dtype, where)
    path = _locate(name)
    # transformers reports missing and renamed weights as warnings; they are errors below, in our words.
    quiet, level = logging.getLogger("transformers"), logging.getLogger("transformers").level
    quiet.setLevel(logging.ERROR)
    transformers.utils.logging.disable_progress_bar()
    network: Any = None
    try:
        network, info = auto.from_pretrained(path, dtype=number, output_loading_info=True, ignore_mismatched_sizes=True)
        tokenizer = AutoTokenizer.from_pretrained(path)
    except Exception as error:  # a truncated weights file or tokenizer raises types of Rust that share no other base
        if network is not None and _lacks_vocabulary(path):
            raise _no_tokenizer(name) from error
        reason = str(error).strip().split("\n")[0][:200]
        raise ModelError(
            f"model {name!r} cannot be loaded as a {kind} language model: {reason} (give the id or folder of one)"
        ) from error
    finally:
        quiet.setLevel(level)
    # transformers makes an empty tokenizer where it finds none. Those that read single characters have no files.
    if tokenizer.vocab_files_names and _lacks_vocabulary(path):
        raise _no_tokenizer(name)
    misshapen = sorted(key for key, *_ in info["mismatched_keys"])
    if misshapen:
        raise ModelError(
            f"model {name!r} has weights that do not fit its config.json ({', '.join(misshapen[:3])}): "
            f"give a checkpoint whose config and weights belong together"
        )
    missing = sorted(key for key in info["missing_keys"] if "position_ids" not in key)
    if missing:
        raise ModelError(
            f"model {name!r} lacks weights of its {kind}-LM head ({', '.join(missing[:3])}), which would be random: "
            f"give a checkpoint saved with its head"
        )
    return network.to(where), tokenizer


def _lacks_vocabulary(path: str) -> bool:
    folder = Path(path)
    return folder.is_dir() and not any(any(folder.glob(pattern)) for pattern in VOCABULARIES)


def _no_tokenizer(name: str) -> ModelError:
    return ModelError(
        f"folder {name!r} holds no tokenizer files (such as tokenizer.json or vocab.txt): "
        f"save the model's own tokenizer there with save_pretrained"
    )


def _locate(name: str) -> str:
    """Folder or hub id to hand to transformers, once it is known that something is there."""
    if not name:
        raise ModelError(f"the model name is empty: give {', '.join(EMBEDDED)}, a local folder or a hub id")
    folder = model_folder(name)
    if folder is not None:
        if not (folder / "config.json").exists():
            raise ModelError(f"folder {name!r} holds no config.json: give a folder written by save_pretrained")
        return str(folder)
    if name.startswith((".", "/", "~")) or name.count("/") > 1 or "\\" in name:
        raise ModelError(f"model {name!r}: no folder is there; check the path")
    if hub.cached(name) or hub.answers():
        return name
    raise ModelError(
        f"model {name!r} is no embedded model ({', '.join(EMBEDDED)}), no local folder, and not in the cache, "
        f"and the hub cannot be reached: check the name or connect"
    )
