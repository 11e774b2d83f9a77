"""Results by grid cell, kept in a directory so that a run of hours survives a kill."""

import json
import os
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import xarray as xr

from ..errors import RunError
from ..provenance import weights_checksum

STAMP = "cell"  # attribute that holds what the cell was computed from


def cells(
    directory: str | Path | None,
    wanted: Sequence[tuple[str, Mapping[str, Any]]],
    compute: Callable[[list[int]], Iterable[xr.Dataset]],
) -> list[xr.Dataset]:
    """The results of some cells: read where they are there, the others computed together and kept.

    A cell appears in the directory whole, in one move, so that a killed run leaves finished cells and nothing else that
    would be read.

    Parameters
    ----------
    directory : path or None
        Nothing is kept if None.
    wanted : sequence of (str, mapping)
        Name of each cell, a folder in the directory, and its identity, which must be equal for a kept cell to be used: values
        that JSON can hold.
    compute : callable
        Takes the places in ``wanted`` of the cells that are not there and gives their results in that order. Each is kept
        as soon as it is given. Not called if all are there.

    Raises
    ------
    RunError
        If a kept cell is of other parameters, is damaged, or the directory cannot be written.
    """
    if directory is None:
        return list(compute(list(range(len(wanted))))) if wanted else []
    folders = [Path(directory) / name for name, _ in wanted]
    stamps = [json.dumps(dict(identity), sort_keys=True) for _, identity in wanted]
    results = {k: _read(folder, stamps[k]) for k, folder in enumerate(folders) if folder.exists()}
    missing = [k for k in range(len(wanted)) if k not in results]
    if missing:
        with _writing(directory):  # said before hours of computing, not after
            Path(directory).mkdir(parents=True, exist_ok=True)
        for k, result in zip(missing, compute(missing), strict=True):
            # Two temperatures can have one name, to six digits: the second finds the first.
            results[k] = _read(folders[k], stamps[k]) if folders[k].exists() else _keep(folders[k], stamps[k], result)
    return [results[k] for k in range(len(wanted))]


def _keep(folder: Path, stamp: str, result: xr.Dataset) -> xr.Dataset:
    result = result.assign_attrs({STAMP: stamp})
    unfinished = folder.with_name(f"{folder.name}.unfinished-{os.getpid()}")
    with _writing(folder.parent):
        try:
            result.to_zarr(unfinished, mode="w", consolidated=False)
            unfinished.rename(folder)
        except OSError:
            shutil.rmtree(unfinished, ignore_errors=True)
            raise
    return result


@contextmanager
def _writing(directory: str | Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise RunError(
            f"directory {str(directory)!r} cannot be written ({error.strerror or error}): free space, change its rights, or "
            f"give another one"
        ) from error


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
