"""Where a result comes from: model, weights, seed, device, versions, time."""

import hashlib
import importlib.metadata
import platform
import time
from collections.abc import Mapping
from typing import Any

import pandas as pd
import torch

from .models import MaskedLM
from .models.masked_row import LEVELS

PACKAGES = ("torch", "transformers", "numpy", "scipy", "pandas", "xarray")


def weights_checksum(network: torch.nn.Module) -> str:
    """SHA-256 over names, dtypes and bytes of the network's weights, first 16 hex digits.

    It is taken on the weights as computed with, hence differs between float32 and float64.
    """
    digest = hashlib.sha256()
    for name, tensor in sorted(network.state_dict().items()):
        flat = tensor.detach().cpu().contiguous().reshape(-1)
        digest.update(f"{name} {flat.dtype} {tuple(tensor.shape)}".encode())
        digest.update(flat.view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()[:16]


def versions() -> dict[str, str]:
    """Versions of Python and of the packages that results depend on."""
    return {"python": platform.python_version()} | {name: importlib.metadata.version(name) for name in PACKAGES}


def provenance(
    model: MaskedLM, parameters: Mapping[str, Any], started: float, other: MaskedLM | None = None
) -> pd.DataFrame:
    """What a notebook ran with.

    Parameters
    ----------
    model : MaskedLM
    parameters : mapping
        The notebook's parameters.
    started : float
        ``time.time()`` at its start.
    other : MaskedLM, optional
        A second model that it ran.

    Returns
    -------
    DataFrame
        ``item``, ``value``.
    """
    ran = {
        f"{what}{of}": value
        for lm, of in ((model, ""), (other, " of other"))
        if lm is not None
        for what, value in {
            "weights": f"SHA-256 {weights_checksum(lm.network)}...",
            "device": lm.device,
            "left out of a forward": LEVELS[lm.row.level],
            **lm.pinned,
        }.items()
    }
    clock = {
        "started": time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(started)),
        "seconds": f"{time.time() - started:.0f}",
    }
    items = {**parameters, **ran, **versions(), **clock}
    return pd.DataFrame({"item": list(items), "value": [str(value) for value in items.values()]})
