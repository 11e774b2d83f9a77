"""Where a result comes from: model, weights, seed, device, versions, time."""

import hashlib
import importlib.metadata
import platform
import time
from collections.abc import Mapping
from typing import Any

import pandas as pd
import torch

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
    network: torch.nn.Module, parameters: Mapping[str, Any], started: float, other: torch.nn.Module | None = None
) -> pd.DataFrame:
    """What a notebook ran with.

    Parameters
    ----------
    network : Module
    parameters : mapping
        The notebook's parameters.
    started : float
        ``time.time()`` at its start.
    other : Module, optional
        A second network that it ran.

    Returns
    -------
    DataFrame
        ``item``, ``value``.
    """
    weights = {"weights": f"SHA-256 {weights_checksum(network)}...", "device": str(next(network.parameters()).device)}
    if other is not None:
        weights["weights of other"] = f"SHA-256 {weights_checksum(other)}..."
    clock = {
        "started": time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(started)),
        "seconds": f"{time.time() - started:.0f}",
    }
    items = {**parameters, **weights, **versions(), **clock}
    return pd.DataFrame({"item": list(items), "value": [str(value) for value in items.values()]})
