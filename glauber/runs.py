"""Run directories: long runs that survive a kill.

A run directory holds ``run.json`` (what runs, with which weights and versions), ``trace.zarr`` (the trace, one zarr chunk for
each chunk of steps) and ``progress.npz`` (the state at the end of the last whole chunk, and a checksum of each). Chunks are
written before the progress that counts them, and progress is replaced in one move, so that a process killed at any moment
leaves a directory that resumes to the same result. Memory is bounded by a chunk, whatever the length of the run.
"""

import hashlib
import json
import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
import xarray as xr
import zarr
from numpy.typing import ArrayLike, NDArray

from . import engines
from .chain import State
from .checks import whole
from .engines import Chunk, Setup
from .errors import RunError
from .progress import Progress
from .provenance import versions, weights_checksum

FIELDS = ("site", "changed", "log_ratio")


def run(
    directory: str | Path,
    model: Any,
    states: ArrayLike | torch.Tensor,
    *,
    temperature: ArrayLike,
    steps: int,
    seed: int,
    record_every: int = 1,
    chunk: int = 2000,
    chains: Sequence[int] | None = None,
    engine: str = "lazy",
    label: str = "",
) -> xr.Dataset:
    """Start a run in a directory, or go on with the one that is there.

    Parameters
    ----------
    directory : path
        Made if it is not there.
    chunk : int
        Steps between two writes, rounded up to a multiple of ``record_every``.
    model, states, temperature, steps, seed, record_every, chains, engine, label
        As for `glauber.engines.run`.

    Returns
    -------
    xarray.Dataset
        The whole trace as `glauber.engines.run` returns it, read from disk as it is used.

    Raises
    ------
    ParameterError
        If a parameter is outside its range.
    RunError
        If the directory holds a run of other parameters, weights or versions of the engine, a chunk is damaged, or it
        cannot be written. Nothing is overwritten then.
    """
    given = engines.setup(model, states, temperature, seed, chains)
    steps, record_every, _ = engines.check_steps(steps, record_every)
    advance = engines.advance(engine)
    chunk = -(-whole("chunk", chunk) // record_every) * record_every
    folder = Path(directory)
    identity = _identity(given, steps, record_every, chunk, engine)
    try:
        store = _open(folder, given, identity)
        state, sums, forwards = _resume(folder, given)
        _verify(store, sums, chunk, steps, record_every)
        with Progress(steps, label) as report:
            while state.step < steps:
                part = advance(given, state, min(chunk, steps - state.step), record_every)
                sums.append(_write(store, part, state.step, record_every))
                state, forwards = part.state, forwards + part.forwards
                _save_progress(folder, state, sums, forwards)
                report.reach(state.step)
        store["forwards"][:] = forwards
        _finish(folder, int(forwards.sum()))
    except OSError as error:
        raise RunError(
            f"run directory {str(folder)!r} cannot be written ({error.strerror or error}): what is there stays as it was, "
            f"so free space or change its rights and start again"
        ) from error
    return open_run(folder)


def open_run(directory: str | Path) -> xr.Dataset:
    """Open the trace of a run lazily, up to the last whole chunk if it is not finished.

    Raises
    ------
    RunError
        If the directory holds no run.
    """
    folder = Path(directory)
    if not (folder / "run.json").is_file() or not (folder / "progress.npz").is_file():
        raise RunError(f"directory {str(folder)!r} holds no run: check the path")
    described = json.loads((folder / "run.json").read_text("utf-8"))
    with np.load(folder / "progress.npz") as progress:
        done = int(progress["step"])
    trace: xr.Dataset = xr.open_zarr(folder / "trace.zarr", chunks=None, consolidated=False)
    trace = trace.isel(step=slice(done), record=slice(done // described["record_every"] + 1))
    return trace.assign_attrs(seed=described["seed"], engine=described["engine"])


def _identity(given: Setup, steps: int, record_every: int, chunk: int, engine: str) -> dict[str, Any]:
    """What must be equal for a run to go on."""
    network = getattr(given.model, "network", None)
    start = given.start.tokens.cpu().numpy()
    return {
        "model": str(getattr(given.model, "name", type(given.model).__name__)),
        "weights": weights_checksum(network) if network is not None else "",
        "steps": steps,
        "record_every": record_every,
        "chunk": chunk,
        "engine": engine,
        "seed": given.seed,
        "chains": [int(c) for c in given.chains],
        "temperature": given.temperature.tolist(),
        "starts": hashlib.sha256(start.tobytes() + str(start.shape).encode()).hexdigest()[:16],
    }


def _open(folder: Path, given: Setup, identity: dict[str, Any]) -> Any:
    """The store of a new run, or of the same run begun before."""
    described = folder / "run.json"
    if described.is_file():
        _refuse_other(folder, json.loads(described.read_text("utf-8")), identity)
        if (folder / "progress.npz").is_file():
            return zarr.open_group(folder / "trace.zarr", mode="r+")
    elif folder.exists() and any(folder.iterdir()):
        raise RunError(f"directory {str(folder)!r} is not empty and holds no run: give another one")
    folder.mkdir(parents=True, exist_ok=True)
    about = {"device": str(given.model.device), "versions": versions(), "started": _now(), "finished": None}
    _replace(described, json.dumps({**identity, **about}, indent=1).encode())
    store = _template(folder, given, identity)
    _save_progress(folder, given.start, [], np.zeros(len(given.chains), dtype=np.int64))
    return store


def _refuse_other(folder: Path, there: dict[str, Any], identity: dict[str, Any]) -> None:
    for name, value in identity.items():
        if there.get(name) != value:
            shown = [_short(there.get(name)), _short(value)]
            raise RunError(
                f"run directory {str(folder)!r} holds another run: its {name} is {shown[0]}, not {shown[1]}; "
                f"give another directory, or the same parameters to go on"
            )


def _short(value: object) -> str:
    text = str(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def _template(folder: Path, given: Setup, identity: dict[str, Any]) -> Any:
    """Arrays of the whole run, of which nothing is on disk but their shapes."""
    count, n = given.start.tokens.shape
    steps, every, chunk = identity["steps"], identity["record_every"], identity["chunk"]
    store: Any = zarr.open_group(folder / "trace.zarr", mode="w")

    def make(name: str, shape: tuple[int, ...], chunks: tuple[int, ...], kind: str, dims: tuple[str, ...]) -> Any:
        # A value that was never written reads as a plain 0, which is why progress.npz says how far to read.
        return store.create_array(name, shape=shape, chunks=chunks, dtype=kind, dimension_names=dims, fill_value=0)

    make("states", (steps // every + 1, count, n), (chunk // every, count, n), "int32", ("record", "chain", "position"))
    for name, kind in zip(FIELDS, ("int16", "bool", "float64"), strict=True):
        make(name, (steps, count), (chunk, count), kind, ("step", "chain"))
    for name, kind, values in (
        ("temperature", "float64", given.temperature.numpy()),
        ("forwards", "int64", np.zeros(count, dtype=np.int64)),
        ("chain", "uint64", np.array(given.chains, dtype=np.uint64)),
    ):
        make(name, (count,), (count,), kind, ("chain",))[:] = values
    make("record", (steps // every + 1,), (steps // every + 1,), "int64", ("record",))[:] = (
        np.arange(steps // every + 1) * every
    )
    make("step", (steps,), (steps,), "int64", ("step",))[:] = np.arange(1, steps + 1)
    store["states"][0] = given.start.tokens.cpu().numpy().astype(np.int32)
    store.attrs["coordinates"] = "chain record step"
    return store


def _write(store: Any, part: Chunk, first: int, record_every: int) -> str:
    """Write one chunk and return its checksum."""
    steps, records = len(part.site), len(part.records)
    for name in FIELDS:
        store[name][first : first + steps] = getattr(part, name)
    before = first // record_every
    store["states"][before + 1 : before + 1 + records] = part.records
    return _checksum([*(getattr(part, name) for name in FIELDS), part.records])


def _checksum(arrays: list[NDArray[Any]]) -> str:
    digest = hashlib.blake2b(digest_size=16)
    for array in arrays:
        digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()


def _verify(store: Any, sums: list[str], chunk: int, steps: int, record_every: int) -> None:
    """Read back every chunk that progress counts."""
    for number, wanted in enumerate(sums):
        first, last = number * chunk, min((number + 1) * chunk, steps)
        try:
            arrays = [store[name][first:last] for name in FIELDS]
            arrays.append(store["states"][first // record_every + 1 : last // record_every + 1])
            intact = _checksum(arrays) == wanted
        except (RuntimeError, ValueError):  # the codec cannot read a truncated file
            intact = False
        if not intact:
            raise RunError(
                f"chunk {number} of the trace (steps {first + 1} to {last}) is damaged: restore it from a copy, "
                f"or start the run again in another directory"
            )


def _resume(folder: Path, given: Setup) -> tuple[State, list[str], NDArray[np.int64]]:
    with np.load(folder / "progress.npz") as saved:
        tokens = torch.from_numpy(saved["tokens"]).to(given.start.tokens.device)
        return State(tokens, int(saved["step"])), [str(s) for s in saved["sums"]], saved["forwards"]


def _save_progress(folder: Path, state: State, sums: list[str], forwards: NDArray[np.int64]) -> None:
    temporary = folder / "progress.tmp.npz"
    np.savez(
        temporary,
        tokens=state.tokens.cpu().numpy(),
        step=state.step,
        sums=np.array(sums, dtype="U32"),
        forwards=forwards,
    )
    os.replace(temporary, folder / "progress.npz")


def _finish(folder: Path, forwards: int) -> None:
    described = folder / "run.json"
    about = json.loads(described.read_text("utf-8"))
    if about["finished"] is None:
        _replace(described, json.dumps({**about, "finished": _now(), "forwards": forwards}, indent=1).encode())


def _replace(path: Path, content: bytes) -> None:
    temporary = path.with_suffix(".tmp")
    temporary.write_bytes(content)
    os.replace(temporary, path)


def _now() -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
