"""Results by grid cell, kept in a directory so that a run of hours survives a kill."""

import json
import os
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import xarray as xr

from ..errors import RunError
from ..provenance import weights_checksum

STAMP = "cell"  # attribute that holds what the cell was computed from


def cell(
    directory: str | Path | None, name: str, identity: Mapping[str, Any], compute: Callable[[], xr.Dataset]
) -> xr.Dataset:
    """The result of one cell: read if it is there, else computed and kept.

    A cell appears in the directory whole, in one move, so that a killed run leaves finished cells and nothing else that
    would be read.

    Parameters
    ----------
    directory : path or None
        Nothing is kept if None.
    name : str
        Of the cell, a folder in the directory.
    identity : mapping
        What must be equal for a kept cell to be used: values that JSON can hold.
    compute : callable

    Raises
    ------
    RunError
        If the kept cell is of other parameters, is damaged, or the directory cannot be written.
    """
    if directory is None:
        return compute()
    folder = Path(directory) / name
    stamp = json.dumps(dict(identity), sort_keys=True)
    if folder.exists():
        return _read(folder, stamp)
    result = compute().assign_attrs({STAMP: stamp})
    unfinished = folder.with_name(f"{folder.name}.unfinished-{os.getpid()}")
    try:
        result.to_zarr(unfinished, mode="w", consolidated=False)
        unfinished.rename(folder)
    except OSError as error:
        shutil.rmtree(unfinished, ignore_errors=True)
        raise RunError(
            f"directory {str(directory)!r} cannot be written ({error.strerror or error}): free space, change its rights, or "
            f"give another one"
        ) from error
    return result


def _read(folder: Path, stamp: str) -> xr.Dataset:
    try:
        kept: xr.Dataset = xr.open_zarr(folder, chunks=None, consolidated=False).load()
    except (OSError, ValueError, RuntimeError, KeyError) as error:
        raise RunError(
            f"cell {folder.name} in {str(folder.parent)!r} is damaged: delete it to compute it again"
        ) from error
    there = kept.attrs.get(STAMP, "")
    if there != stamp:
        other = json.loads(there) if there else {}
        differs = next((k for k, v in json.loads(stamp).items() if other.get(k) != v), "parameters")
        raise RunError(
            f"directory {str(folder.parent)!r} holds cell {folder.name} of another run, with other {differs}; "
            f"give another directory, or the same parameters to go on"
        )
    return kept


def fingerprint(model: Any) -> str:
    """Checksum of a model's weights; its type's name if it has none."""
    network = getattr(model, "network", None)
    return weights_checksum(network) if network is not None else type(model).__name__
