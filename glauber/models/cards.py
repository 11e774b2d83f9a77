"""What a model is, and what its folder tells of its training."""

import numpy as np
import pandas as pd

from .loading import model_folder
from .masked import MaskedLM

# Files that hold the weights, the first kind that is there.
WEIGHTS = ("*.safetensors", "pytorch_model*.bin")
# Columns of the recipe's logs that are read here.
LOG = ["minutes", "tokens", "held_out_loss"]
# Log files in a model's folder, and what a curve is called beside the model's name.
LOGS = {"training.csv": "", "reproduction.csv": ", reproduction"}


def facts(lm: MaskedLM) -> "pd.Series[float]":
    """Size of a model, by name of the quantity; NaN for what its configuration or folder does not tell.

    Weights that two layers share count once. Positions include the special tokens around a text.
    """
    config = lm.network.config
    folder = model_folder(lm.name)
    size = float("nan")
    if folder is not None:
        kinds = [[path.stat().st_size for path in folder.glob(kind)] for kind in WEIGHTS]
        size = next((sum(sizes) / 1e6 for sizes in kinds if sizes), size)
    values = {
        "layers": getattr(config, "num_hidden_layers", None),
        "width": getattr(config, "hidden_size", None),
        "attention heads": getattr(config, "num_attention_heads", None),
        "parameters": sum(weight.numel() for weight in lm.network.parameters()),
        "tokens of the vocabulary": len(lm.text.tokenizer),
        "tokens that a chain may draw": len(lm.vocabulary),
        "positions": lm.usable_length + len(lm.text.prefix) + len(lm.text.suffix),
        "weights on disk (MB)": size,
    }
    return pd.Series(values, dtype=np.float64)


def training_logs(name: str) -> dict[str, pd.DataFrame]:
    """Logs of the recipe in ``data/models/train`` that lie in a model's folder.

    Parameters
    ----------
    name : str
        As for `load_model`. A hub id has none.

    Returns
    -------
    dict
        What to call the run, to its table: ``minutes`` of running, ``tokens`` seen, ``held_out_loss`` (nats), one row per
        entry, in order. ``training.csv`` is the run that made the model, ``reproduction.csv`` a second run of its recipe.
        A table of another kind that goes by one of these names is left out.
    """
    folder = model_folder(name)
    logs: dict[str, pd.DataFrame] = {}
    for file, run in LOGS.items() if folder is not None else ():
        try:
            rows = pd.read_csv(folder / file)[LOG].apply(pd.to_numeric)  # type: ignore[operator]
        except (OSError, ValueError, KeyError):
            continue
        rows = rows.dropna().reset_index(drop=True)
        if len(rows):
            logs[f"{name}{run}"] = rows
    return logs


def training_summary(log: pd.DataFrame) -> "pd.Series[float]":
    """Where a run ended: ``tokens``, ``hours``, ``first`` and ``last`` held-out loss, ``change`` over the last tenth of its tokens.

    Parameters
    ----------
    log : DataFrame
        From `training_logs`. Between its entries the loss is interpolated.
    """
    first, last = log.iloc[0], log.iloc[-1]
    before = np.interp(0.9 * last["tokens"], log["tokens"], log["held_out_loss"])
    return pd.Series(
        {
            "tokens": last["tokens"],
            "hours": last["minutes"] / 60,
            "first": first["held_out_loss"],
            "last": last["held_out_loss"],
            "change": last["held_out_loss"] - before,
        }
    )
