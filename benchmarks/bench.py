"""Measure the sampler against its baselines, all in one process run. Writes a tidy table: benchmarks/results.csv.

Usage: python benchmarks/bench.py [--quick] [--out FILE] [PART ...]

Times are medians over alternating repetitions, so that a slow spell of the machine hits all contenders alike; ratios are
formed within a repetition and then summarised.
"""

import argparse
import platform
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import textbook
import torch
from transformers import BertConfig, BertForMaskedLM

import glauber
from glauber import MaskedLM, chain, engines
from glauber.engines import nfold
from glauber.passages import read_passages, starting_states
from glauber.provenance import versions
from glauber.randomness import Streams

THREADS = 2
Row = dict[str, object]


def base_shape(tiny: MaskedLM) -> MaskedLM:
    """BERT-base with random weights (seeded), over the embedded tokenizer; its head has BERT's 30,522 columns."""
    torch.manual_seed(0)
    return MaskedLM(BertForMaskedLM(BertConfig()), tiny.text.tokenizer, "BERT-base shape, random")


def starts(lm: MaskedLM, n: int, count: int) -> torch.Tensor:
    """Starting states (count, n); passages are used more than once where too few are long enough."""
    enough = 8 if n > 40 else min(count, 64)
    return torch.from_numpy(np.resize(starting_states(lm.text.encode, read_passages(), n, enough).states, (count, n)))


def alternate(contenders: dict[str, Callable[[], object]], repetitions: int, inner: int = 1) -> pd.DataFrame:
    """Seconds of each contender in each repetition, columns by name.

    Before it is timed, each runs once: it then finds the caches and the allocator as it would leave them itself. With
    ``inner`` calls, their mean is one repetition.
    """
    rows = []
    for _ in range(repetitions):
        row = {}
        for name, run in contenders.items():
            run()
            start = time.perf_counter()
            for _ in range(inner):
                run()
            row[name] = (time.perf_counter() - start) / inner
        rows.append(row)
    return pd.DataFrame(rows)


def median_row(where: Row, engine: str, quantity: str, values: pd.Series, unit: str) -> Row:
    """A row of the table: median over repetitions, with the range of the middle half."""
    middle = {
        "value": float(values.median()),
        "low": float(values.quantile(0.25)),
        "high": float(values.quantile(0.75)),
    }
    return {**where, "engine": engine, "quantity": quantity, **middle, "unit": unit}


def prepared(lm: MaskedLM, n: int, count: int, temperature: float) -> tuple[chain.State, Callable[[], object]]:
    """A state some steps into a run, and a step of `direct` from it with new draws at every call."""
    state = chain.init(lm, starts(lm, n, count))
    streams, tau = Streams(1, range(count), n), torch.full((count,), temperature, dtype=torch.float64)
    # A few steps first: the share of steps that move is then the one of the run, not of the passages.
    for t in range(3):
        state, _ = chain.step(lm, state, tau, streams.at(t))
    clock = iter(range(3, 10**9))
    return state, lambda: chain.step(lm, state, tau, streams.at(next(clock)))


def one_step(
    lm: MaskedLM, n: int, count: int, temperature: float, repetitions: int, one_by_one: bool, inner: int = 1
) -> list[Row]:
    """A step of `direct` beside the baselines and the bare encoder, same chains, same process."""
    state, step = prepared(lm, n, count, temperature)
    ids, banned = textbook.prepare(lm, state.tokens), textbook.banned_ids(lm)
    generator = torch.Generator().manual_seed(0)
    bare = lm.network.base_model

    def encoder() -> None:
        with torch.inference_mode():
            bare(input_ids=ids)

    contenders: dict[str, Callable[[], object]] = {
        "direct": step,
        "bare encoder": encoder,
        "textbook": lambda: textbook.step(lm, ids.clone(), banned, temperature, generator),
        "peer": lambda: textbook.peer_step(lm, ids.clone(), banned, temperature, generator),
    }
    if one_by_one:
        contenders["textbook, one chain at a time"] = lambda: textbook.step_one_by_one(
            lm, ids.clone(), banned, temperature, generator
        )
    seconds = alternate(contenders, repetitions, inner)
    where: Row = {"model": lm.name, "n": n, "chains": count, "temperature": temperature, "repetitions": repetitions}
    rows: list[Row] = []
    for name in contenders:
        rows += [
            median_row(where, name, "steps per second", count / seconds[name], "chain steps / s"),
            median_row(where, name, "time over bare encoder", seconds[name] / seconds["bare encoder"], "ratio"),
            median_row(where, name, "speed over textbook", seconds["textbook"] / seconds[name], "ratio"),
            median_row(where, name, "speed over peer", seconds["peer"] / seconds[name], "ratio"),
        ]
    return rows


def lazy_over_direct(lm: MaskedLM, n: int, count: int, temperature: float, repetitions: int, steps: int) -> list[Row]:
    """A whole run of `lazy` over the same run of `direct`."""
    begin, seeds = starts(lm, n, count), {engine: iter(range(1, 10**9)) for engine in engines.ENGINES}

    def runner(engine: str) -> Callable[[], object]:
        return lambda: engines.run(
            lm, begin, temperature=temperature, steps=steps, seed=next(seeds[engine]), record_every=steps, engine=engine
        )

    seconds = alternate({engine: runner(engine) for engine in engines.ENGINES}, repetitions)
    where: Row = {"model": lm.name, "n": n, "chains": count, "temperature": temperature, "repetitions": repetitions}
    ratio = seconds["lazy"] / seconds["direct"]
    return [median_row(where, "lazy", "time over direct", ratio, f"ratio, runs of {steps} steps")]


def size_of_step(
    small: MaskedLM, large: MaskedLM, n: int, count: int, temperature: float, repetitions: int, inner: int = 1
) -> list[Row]:
    """A step of `direct` of one model over that of another. The smaller one's own speed is a row of the part `steps`."""
    steps = {lm.name: prepared(lm, n, count, temperature)[1] for lm in (small, large)}
    seconds = alternate(steps, repetitions, inner)
    where: Row = {"model": large.name, "n": n, "chains": count, "temperature": temperature, "repetitions": repetitions}
    return [
        median_row(where, "direct", "steps per second", count / seconds[large.name], "chain steps / s"),
        median_row(where, "direct", f"time over {small.name}", seconds[large.name] / seconds[small.name], "ratio"),
    ]


def size_of_run(
    small: MaskedLM, large: MaskedLM, n: int, count: int, temperature: float, repetitions: int, steps: int
) -> list[Row]:
    """A whole run of `lazy` of one model over that of another: each asks for the forwards that its own chains need."""

    def runner(lm: MaskedLM) -> Callable[[], object]:
        begin, seeds = starts(lm, n, count), iter(range(1, 10**9))
        return lambda: engines.run(
            lm, begin, temperature=temperature, steps=steps, seed=next(seeds), record_every=steps
        )

    seconds = alternate({lm.name: runner(lm) for lm in (small, large)}, repetitions)
    where: Row = {"model": large.name, "n": n, "chains": count, "temperature": temperature, "repetitions": repetitions}
    ratio = seconds[large.name] / seconds[small.name]
    return [median_row(where, "lazy", f"time over {small.name}", ratio, f"ratio, runs of {steps} steps")]


def peak_share(lm: MaskedLM, n: int, count: int, repetitions: int) -> list[Row]:
    """Share of the machine's float32 matrix-product peak that a step of the base shape reaches."""
    config = lm.network.config
    length, d = n + len(lm.text.prefix) + len(lm.text.suffix), config.hidden_size
    # Multiply-adds, twice: projections and feed-forward of each layer, attention, head at one row.
    layer = length * (4 * d * d + 2 * d * config.intermediate_size) + 2 * length * length * d
    # The last layer runs at one row alone, where it does: what is left of it there is not counted.
    layers = config.num_hidden_layers - (lm.row.level == 2)
    operations = 2.0 * count * (layers * layer + d * d + d * config.vocab_size)
    a, b = torch.randn(count * length, d), torch.randn(d, config.intermediate_size)
    states = starts(lm, n, count)
    state, streams = chain.init(lm, states), Streams(1, range(count), n)
    tau, clock = torch.ones(count, dtype=torch.float64), iter(range(10**9))
    product = 2.0 * a.shape[0] * d * config.intermediate_size
    seconds = alternate(
        {
            "step": lambda: chain.step(lm, state, tau, streams.at(next(clock))),
            "product": lambda: [a @ b for _ in range(10)],
        },
        repetitions,
    )
    rate, peak = operations / seconds["step"], 10 * product / seconds["product"]
    where: Row = {"model": lm.name, "n": n, "chains": count, "temperature": 1.0, "repetitions": repetitions}
    return [
        median_row(where, "direct", "share of matrix-product peak", rate / peak, "ratio"),
        median_row(where, "direct", "matrix-product peak", peak / 1e9, "GFLOP / s"),
    ]


def forwards(lm: MaskedLM, n: int, count: int, temperature: float, skip: int, steps: int) -> list[Row]:
    """Forwards per step of `lazy`, after ``skip`` steps, on average and for the chains that sit in traps."""
    begin = starting_states(lm.text.encode, read_passages(), n, count).states
    given = {"temperature": temperature, "seed": 1}
    first = engines.run(lm, begin, steps=skip, record_every=skip, **given)  # type: ignore[arg-type]
    start = time.perf_counter()
    whole = engines.run(lm, begin, steps=skip + steps, record_every=skip, **given)  # type: ignore[arg-type]
    seconds = time.perf_counter() - start
    # The run goes on where the shorter one ended, its memory warm: the difference is what the later steps asked.
    each = (whole["forwards"].values - first["forwards"].values) / steps
    later = whole.isel(step=slice(skip, None))
    # In a trap: at most two positions ever change.
    changed = later["changed"].values
    sites = [np.unique(later["site"].values[changed[:, c], c]).size for c in range(count)]
    trapped = np.array(sites) <= 2
    where = {"model": lm.name, "n": n, "chains": count, "temperature": temperature, "repetitions": 1, "engine": "lazy"}
    rows: list[Row] = [
        {**where, "quantity": "forwards per step", "value": float(each.mean()), "low": float(each.min()), "high": float(each.max()),
         "unit": f"forwards, steps {skip} to {skip + steps}"},
        {**where, "quantity": "chains in traps", "value": float(trapped.sum()), "low": np.nan, "high": np.nan, "unit": "chains"},
        {**where, "quantity": "steps per second", "value": count * (skip + steps) / seconds, "low": np.nan, "high": np.nan,
         "unit": "chain steps / s"},
    ]  # fmt: skip
    if trapped.any():
        rows.append(
            {**where, "quantity": "forwards per step, in traps", "value": float(each[trapped].mean()),
             "low": float(each[trapped].min()), "high": float(each[trapped].max()), "unit": "forwards"}
        )  # fmt: skip
    return rows


def rejection_free(lm: MaskedLM, n: int, temperature: float, steps: int) -> list[Row]:
    """Simulated steps per second in a trap: rejection-free against `direct` and `lazy`."""
    begin = starting_states(lm.text.encode, read_passages(), n, 8).states
    cold = engines.run(lm, begin, temperature=0.02, steps=60 * n, seed=3, record_every=60 * n)["states"].values[-1]
    tokens, tau = torch.from_numpy(cold).long(), torch.full((8,), temperature, dtype=torch.float64)
    trap = cold[[int(nfold.Masses(lm).of(tokens, tau).mean(axis=1).argmin())]]
    speeds = {}
    for name, run, taken in (
        (
            "direct",
            lambda k: engines.run(lm, trap, temperature=temperature, steps=k, seed=1, record_every=k, engine="direct"),
            100,
        ),
        ("lazy", lambda k: engines.run(lm, trap, temperature=temperature, steps=k, seed=1, record_every=k), 20_000),
        (
            "rejection_free",
            lambda k: engines.rejection_free(lm, trap, temperature=temperature, steps=k, seed=1, moves=200),
            steps,
        ),
    ):
        start = time.perf_counter()
        done = run(taken)
        seconds = time.perf_counter() - start
        if name == "rejection_free" and done.stopped.any():
            taken = int(done.table["step"].max())  # it spent its moves before the end
        speeds[name] = taken / seconds
    where = {
        "model": lm.name,
        "n": n,
        "chains": 1,
        "temperature": temperature,
        "repetitions": 1,
        "low": np.nan,
        "high": np.nan,
    }
    rows: list[Row] = []
    for name, speed in speeds.items():
        rows.append(
            {
                **where,
                "engine": name,
                "quantity": "steps per second, in a trap",
                "value": speed,
                "unit": "chain steps / s",
            }
        )
        rows.append(
            {
                **where,
                "engine": name,
                "quantity": "speed over direct, in a trap",
                "value": speed / speeds["direct"],
                "unit": "ratio",
            }
        )
    return rows


LONG = """
import resource, sys, tempfile
import torch
torch.set_num_threads(1)  # small batches, and only the memory is measured
import glauber
from glauber import runs
from glauber.passages import read_passages, starting_states
lm = glauber.load_model("glauber-tiny", device="cpu")
n, steps = int(sys.argv[1]), int(sys.argv[2])
begin = starting_states(lm.text.encode, read_passages(), n, 64).states
with tempfile.TemporaryDirectory() as folder:
    trace = runs.run(folder + "/run", lm, begin, temperature=0.5, steps=steps, seed=1, record_every=n, chunk=4000)
    lazily = not trace["states"].variable._in_memory
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20, int(trace["forwards"].sum()), int(lazily))
"""


def long_run(n: int, steps: int) -> list[Row]:
    """Peak memory of a long run of 64 chains in a process of its own, and whether its trace opens lazily."""
    out = subprocess.run([sys.executable, "-c", LONG, str(n), str(steps)], capture_output=True, text=True, check=True)
    peak, spent, lazily = out.stdout.split()
    where = {"model": "glauber-tiny", "n": n, "chains": 64, "temperature": 0.5, "repetitions": 1, "engine": "lazy", "low": np.nan,
             "high": np.nan}  # fmt: skip
    return [
        {**where, "quantity": f"peak memory, {steps:,} steps", "value": float(peak), "unit": "GiB"},
        {
            **where,
            "quantity": f"forwards per step, {steps:,} steps",
            "value": int(spent) / (64 * steps),
            "unit": "forwards",
        },
        {**where, "quantity": "trace opens lazily", "value": float(lazily), "unit": "1 if so"},
    ]


def steps_part(quick: bool) -> list[Row]:
    """Steps of glauber-tiny: temperature, length, number of chains."""
    tiny, repetitions = glauber.load_model("glauber-tiny", device="cpu"), 2 if quick else 9
    rows: list[Row] = []
    for n in (16,) if quick else (16, 32, 64):
        for temperature in (1.0,) if quick else (0.2, 1.0, 5.0) if n == 32 else (1.0,):
            tell(f"glauber-tiny, n = {n}, tau = {temperature}")
            rows += one_step(tiny, n, 64, temperature, repetitions, False, inner=5)
        if not quick:
            tell(f"glauber-tiny, n = {n}, one chain at a time")
            one_by_one = one_step(tiny, n, 64, 1.0, 3, one_by_one=True)
            rows += [row for row in one_by_one if row["engine"] == "textbook, one chain at a time"]
    for count in () if quick else (1, 4, 16, 256):
        tell(f"glauber-tiny, {count} chains")
        rows += one_step(tiny, 32, count, 1.0, repetitions, False, inner=5)
    return rows


def engines_part(quick: bool) -> list[Row]:
    """Runs of `lazy` over those of `direct`, from the texts on: the hotter, the fewer contexts come back."""
    tiny, rows = glauber.load_model("glauber-tiny", device="cpu"), list[Row]()
    n, count, repetitions, steps = (16, 4, 2, 20) if quick else (32, 64, 3, 300)
    for temperature in (1.0,) if quick else (0.1, 0.2, 0.5, 1.0, 2.0):
        tell(f"lazy over direct, tau = {temperature}")
        rows += lazy_over_direct(tiny, n, count, temperature, repetitions, steps)
    return rows


def sizes_part(quick: bool) -> list[Row]:
    """What the larger of the two embedded models costs: a step of `direct`, a run of `lazy`."""
    tiny, mini = (glauber.load_model(name, device="cpu") for name in ("glauber-tiny", "glauber-mini"))
    n, repetitions, rows = 16 if quick else 32, 2 if quick else 9, list[Row]()
    for temperature in (1.0,) if quick else (0.2, 0.5, 1.0, 2.0):
        tell(f"both sizes, direct, tau = {temperature}")
        rows += size_of_step(tiny, mini, n, 4 if quick else 64, temperature, repetitions, inner=5)
    for temperature in (1.0,) if quick else (0.5, 1.0):
        tell(f"both sizes, lazy, tau = {temperature}")
        rows += size_of_run(tiny, mini, n, 4 if quick else 16, temperature, 2 if quick else 4, 10 if quick else 200)
    return rows


def mini_part(quick: bool) -> list[Row]:
    """Steps of glauber-mini beside the baselines."""
    tell("glauber-mini")
    mini = glauber.load_model("glauber-mini", device="cpu")
    rows = one_step(mini, 16 if quick else 32, 4 if quick else 64, 1.0, 2 if quick else 9, False)
    # Its own speed is a row of the part `sizes`.
    return [row for row in rows if (row["engine"], row["quantity"]) != ("direct", "steps per second")]


def base_part(quick: bool) -> list[Row]:
    """Steps of the BERT-base shape."""
    base, rows = base_shape(glauber.load_model("glauber-tiny", device="cpu")), list[Row]()
    count = 4 if quick else 64
    for n in (16,) if quick else (16, 32, 64):
        tell(f"base shape, n = {n}")
        main = not quick and n == 32
        rows += one_step(base, n, count, 1.0, 5 if main else 2, one_by_one=main)
    return rows + peak_share(base, 16 if quick else 32, count, 2 if quick else 3)


def forwards_part(quick: bool) -> list[Row]:
    """Forwards per step of the lazy engine, and the rejection-free engine in a trap."""
    tiny, rows = glauber.load_model("glauber-tiny", device="cpu"), list[Row]()
    n, count, skip, steps = (16, 4, 50, 50) if quick else (32, 16, 1000, 2000)
    for temperature in (0.2,) if quick else (0.1, 0.2, 0.5, 1.0):
        tell(f"forwards, tau = {temperature}")
        rows += forwards(tiny, n, count, temperature, skip, steps)
    tell("rejection-free")
    return rows + rejection_free(tiny, n, 0.1, 10**6 if quick else 10**9)


def long_part(quick: bool) -> list[Row]:
    """A long run of 64 chains."""
    tell("long run")
    return long_run(8, 200 if quick else 100_000)


PARTS: dict[str, Callable[[bool], list[Row]]] = {
    "steps": steps_part,
    "engines": engines_part,
    "sizes": sizes_part,
    "mini": mini_part,
    "base": base_part,
    "forwards": forwards_part,
    "long": long_part,
}


def tell(what: str) -> None:
    """Say where the measurement is."""
    print(f"{time.strftime('%H:%M:%S')} {what}", file=sys.stderr, flush=True)


def measure(part: str, quick: bool) -> pd.DataFrame:
    """One part as a tidy table, with what it was measured on."""
    torch.set_num_threads(THREADS)
    table = pd.DataFrame(PARTS[part](quick))
    about = {
        "part": part,
        "machine": machine(),
        "threads": str(THREADS),
        "measured": time.strftime("%Y-%m-%d", time.gmtime()),
    }
    for name, value in {**about, **versions()}.items():
        table[name] = value
    table["process_peak_gib"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    return table


def save(table: pd.DataFrame, out: Path) -> None:
    """Put a part into the file in place of its older figures, in one move."""
    if out.is_file():
        older = pd.read_csv(out)
        table = pd.concat([older[older["part"] != table["part"].iloc[0]], table])
    temporary = out.with_suffix(".tmp")
    table.to_csv(temporary, index=False, float_format="%.6g")
    temporary.replace(out)


def machine() -> str:
    """The processor, as it names itself."""
    try:
        lines = Path("/proc/cpuinfo").read_text("utf-8").splitlines()
        return next(line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor() or platform.machine()


def main() -> None:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="seconds instead of minutes; figures of no meaning")
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results.csv")
    parser.add_argument("parts", nargs="*", help=f"of {', '.join(PARTS)}; all by default")
    arguments = parser.parse_args()
    unknown = sorted(set(arguments.parts) - set(PARTS))
    if unknown:
        parser.error(f"part {unknown[0]!r} is unknown: give some of {', '.join(PARTS)}")
    for part in arguments.parts or PARTS:
        save(measure(part, arguments.quick), arguments.out)
    print(f"wrote {arguments.out.name}")


if __name__ == "__main__":
    main()
