"""Run directories: killed runs resume to the same arrays, and what does not fit is refused."""

import json
import os
import random
import signal
import stat
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr
from laws import LEVEL, chi_square, state_index
from test_chain import random_table

from glauber import MaskedLM, engines, exact, runs
from glauber.engines import lazy
from glauber.errors import ParameterError, RunError
from glauber.passages import read_passages, starting_states
from glauber.randomness import block

FIELDS = ("states", "site", "changed", "log_ratio", "forwards")
# For each folder it is given: the number of a process that runs into it and, after one more line, how that process ended.
# Forked from one that has imported all and run nothing, since the imports take longer than the run.
WORKER = """
import os, sys
sys.path.insert(0, sys.argv[1])
import numpy as np
from test_runs import arguments, table
from glauber import runs
for line in sys.stdin:
    child = os.fork()
    if not child:
        runs.run(line.rstrip(), table(), np.zeros((4, 3), int), **arguments())
        os._exit(0)
    print(child, flush=True)
    sys.stdin.readline()  # the number is the child's own until it is waited for
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""


def table() -> exact.Table:
    return random_table(3, 6, seed=8)


def arguments() -> dict[str, object]:
    return {"temperature": [0.3, 0.8, 1.5, 4.0], "steps": 12_000, "seed": 5, "record_every": 3, "chunk": 201}


def same(a: xr.Dataset, b: xr.Dataset) -> bool:
    return all(np.array_equal(a[name].values, b[name].values) for name in FIELDS)


def test_a_run_is_the_engines_trace(tmp_path: Path) -> None:
    wanted = engines.run(
        table(), np.zeros((4, 3), int), temperature=[0.3, 0.8, 1.5, 4.0], steps=900, seed=5, record_every=3
    )
    got = runs.run(tmp_path / "r", table(), np.zeros((4, 3), int), **(arguments() | {"steps": 900, "chunk": 100}))  # type: ignore[arg-type]
    for name in ("states", "site", "changed", "log_ratio", "temperature", "record", "step", "chain"):
        assert np.array_equal(got[name].values, wanted[name].values), name
    about = json.loads((tmp_path / "r" / "run.json").read_text("utf-8"))
    assert about["finished"]
    assert about["seed"] == 5
    assert about["versions"]["torch"]
    assert about["forwards"] == int(got["forwards"].sum())


def test_a_trace_opens_lazily(tmp_path: Path) -> None:
    trace = runs.run(tmp_path / "r", table(), np.zeros((4, 3), int), **(arguments() | {"steps": 600}))  # type: ignore[arg-type]
    assert not trace["states"].variable._in_memory
    assert trace["states"].isel(record=0).values.shape == (4, 3)


def test_killed_ten_times_ends_with_the_same_arrays(tmp_path: Path) -> None:
    wanted = runs.run(tmp_path / "whole", table(), np.zeros((4, 3), int), **arguments())  # type: ignore[arg-type]
    folder, chance, seen = tmp_path / "killed", random.Random(1), set()
    command = [sys.executable, "-c", WORKER, str(Path(__file__).parent)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None and process.stdout is not None
        for k in range(11):
            print(folder, file=process.stdin, flush=True)
            child = int(process.stdout.readline())
            if k < 10:  # the last one runs to the end
                time.sleep(chance.uniform(0.0, 0.5))
                os.kill(child, signal.SIGKILL)
            print(file=process.stdin, flush=True)
            ended = int(process.stdout.readline())
            assert ended == 0 if k == 10 else ended in (0, -signal.SIGKILL)
            if (folder / "progress.npz").exists():
                with np.load(folder / "progress.npz") as saved:
                    seen.add(int(saved["step"]))
        process.stdin.close()
    assert any(0 < step < 12_000 for step in seen), f"no kill hit the middle of the run: {sorted(seen)}"
    assert same(runs.open_run(folder), wanted)


def test_a_network_resumes_to_the_last_bit(tiny: MaskedLM, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """float32, where logits depend on the batch: a resumed run makes the same batches."""
    begin = starting_states(tiny.text.encode, read_passages(), 6, 3).states
    given = {"temperature": 0.5, "steps": 90, "seed": 2, "chunk": 30}
    wanted = runs.run(tmp_path / "whole", tiny, begin, **given)  # type: ignore[arg-type]
    saved = runs._save_progress

    def stop_after_a_chunk(folder: Path, state: object, sums: list[str], forwards: object) -> None:
        saved(folder, state, sums, forwards)  # type: ignore[arg-type]
        if len(sums) == 1:
            raise KeyboardInterrupt

    monkeypatch.setattr(runs, "_save_progress", stop_after_a_chunk)
    with pytest.raises(KeyboardInterrupt):
        runs.run(tmp_path / "stopped", tiny, begin, **given)  # type: ignore[arg-type]
    assert runs.open_run(tmp_path / "stopped").sizes["step"] == 30
    monkeypatch.setattr(runs, "_save_progress", saved)
    assert same(runs.run(tmp_path / "stopped", tiny, begin, **given), wanted)  # type: ignore[arg-type]


def test_uniforms_reused_after_a_resume_are_rejected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    small = random_table(2, 4, seed=3)
    law = np.linalg.matrix_power(exact.transition_matrix(small.tables, 1.0), 6)[0]

    def p_value(name: str) -> float:
        trace = runs.run(tmp_path / name, small, np.zeros((4000, 2), int), temperature=1.0, steps=6, seed=7, chunk=2)
        last = trace["states"].values[-1].astype(np.int64)
        return chi_square(np.bincount(state_index(last, 4), minlength=16), law)

    assert p_value("right") > LEVEL
    monkeypatch.setattr(lazy, "block", lambda seed, chain, start, steps, n: block(seed, chain, 0, steps, n))
    assert p_value("wrong") < LEVEL


def refused(tmp_path: Path, **change: object) -> str:
    with pytest.raises(RunError) as caught:
        runs.run(tmp_path / "r", table(), np.zeros((4, 3), int), **(arguments() | {"steps": 600} | change))  # type: ignore[arg-type]
    assert "\n" not in str(caught.value)
    return str(caught.value)


def contents(folder: Path) -> dict[str, bytes]:
    return {str(p): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


def test_a_directory_of_another_run_is_refused_and_left_alone(tmp_path: Path) -> None:
    runs.run(tmp_path / "r", table(), np.zeros((4, 3), int), **(arguments() | {"steps": 600}))  # type: ignore[arg-type]
    before = contents(tmp_path / "r")
    assert "its seed is 5, not 6" in refused(tmp_path, seed=6)
    assert "its steps is 600, not 700" in refused(tmp_path, steps=700)
    assert "temperature" in refused(tmp_path, temperature=1.0)
    assert "engine" in refused(tmp_path, engine="direct")
    assert contents(tmp_path / "r") == before


@pytest.mark.parametrize(("name", "value"), [("chunk", 2.5), ("chunk", 0), ("steps", "5"), ("record_every", 1.5)])
def test_what_is_no_whole_number_is_refused_before_anything_is_written(
    tmp_path: Path, name: str, value: object
) -> None:
    given: dict[str, Any] = arguments() | {name: value}
    with pytest.raises(ParameterError, match=f"^{name} = {value!r} is refused: give a whole number from 1"):
        runs.run(tmp_path / "r", table(), np.zeros((4, 3), int), **given)
    assert not (tmp_path / "r").exists()


def test_numbers_of_numpy_go_on_with_the_same_run(tmp_path: Path) -> None:
    given: dict[str, Any] = {"temperature": 1.0, "steps": 200, "seed": 3, "record_every": 100, "chunk": 50}
    plain = runs.run(tmp_path / "r", table(), np.zeros((4, 3), int), **given)
    given |= {"steps": np.uint8(200), "seed": np.int64(3), "record_every": np.int8(100), "chunk": np.int8(50)}
    assert same(runs.run(tmp_path / "r", table(), np.zeros((4, 3), int), **given), plain)
    assert same(runs.run(tmp_path / "new", table(), np.zeros((4, 3), int), **given), plain)


def test_a_directory_of_something_else_is_refused(tmp_path: Path) -> None:
    (tmp_path / "r").mkdir()
    (tmp_path / "r" / "thesis.tex").write_text("precious", "utf-8")
    assert "holds no run" in refused(tmp_path)
    assert (tmp_path / "r" / "thesis.tex").read_text("utf-8") == "precious"
    with pytest.raises(RunError, match="holds no run"):
        runs.open_run(tmp_path / "nowhere")


@pytest.mark.parametrize("damage", ["truncate", "flip", "delete"])
def test_a_damaged_chunk_is_refused(tmp_path: Path, damage: str) -> None:
    runs.run(tmp_path / "r", table(), np.zeros((4, 3), int), **(arguments() | {"steps": 600}))  # type: ignore[arg-type]
    victim = tmp_path / "r" / "trace.zarr" / "site" / "c" / "1" / "0"
    content = victim.read_bytes()
    if damage == "delete":
        victim.unlink()
    else:
        victim.write_bytes(
            content[: len(content) // 2] if damage == "truncate" else content[:-1] + bytes([content[-1] ^ 1])
        )
    message = refused(tmp_path)
    assert "chunk 1" in message
    assert "steps 202 to 402" in message


def test_a_disk_that_cannot_be_written_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(runs, "_save_progress", full)
    assert "No space left on device" in refused(tmp_path)


def test_a_read_only_directory_is_told(tmp_path: Path) -> None:
    if os.geteuid() == 0:
        # Rights do not bind the superuser; a file in the directory's place stops everyone.
        (tmp_path / "parent").write_text("", "utf-8")
        with pytest.raises(RunError, match="cannot be written"):
            runs.run(tmp_path / "parent" / "r", table(), np.zeros((4, 3), int), **arguments())  # type: ignore[arg-type]
        return
    tmp_path.chmod(stat.S_IRUSR | stat.S_IXUSR)
    try:
        assert "cannot be written" in refused(tmp_path)
    finally:
        tmp_path.chmod(stat.S_IRWXU)
