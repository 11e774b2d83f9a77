"""Check the sampler on a device: its law, its trajectories, its precision, its memory, its speed. Prints a table to paste.

Usage: python benchmarks/check_gpu.py [--device cuda] [--model NAME]

On a CPU it runs the same on small sizes; what a CPU does not have is said to be left out. Exit code 1 if a check fails.
"""

import argparse
import sys
import time
from collections.abc import Callable

import numpy as np
import pandas as pd
import torch
from scipy import stats

import glauber
from glauber import MaskedLM, chain, engines
from glauber.devices import resolve_device
from glauber.passages import read_passages, starting_states
from glauber.randomness import Streams

LEVEL = 1e-4  # of the test of the law: a correct sampler fails it once in ten thousand runs
Result = tuple[bool | None, str]  # passed (None: left out), and what was found


def starts(lm: MaskedLM, n: int, count: int) -> torch.Tensor:
    """Starting states (count, n), passages used more than once."""
    return torch.from_numpy(np.resize(starting_states(lm.text.encode, read_passages(), n, 8).states, (count, n)))


class Check:
    """The checks of one device.

    Parameters
    ----------
    device, name : str
        Device, and model that is checked.
    """

    def __init__(self, device: str, name: str) -> None:
        self.device, self.name = device, name
        self.cuda = torch.device(device).type == "cuda"

    def load(self, dtype: str = "float32", device: str | None = None, compile_mode: str = "") -> MaskedLM:
        """The model on the device."""
        return glauber.load_model(self.name, device=device or self.device, dtype=dtype, compile_mode=compile_mode)

    def law(self) -> Result:
        """One step of many chains from one text, all at one site, against the softmax of the logits on the CPU."""
        lm, rows = self.load(), 200_000 if self.cuda else 4000
        text = starts(lm, 8, 1)
        state, counts = chain.init(lm, text), np.zeros(len(lm.vocabulary))
        logits = self.load("float64", "cpu").conditional_logits(text, torch.tensor([3]))
        law = (logits / 0.7).softmax(dim=1)[0].numpy()
        for s in range(0, rows, 2000):
            draws = Streams(5, range(s, s + 2000), 8).at(0)
            where, now = torch.full((2000,), 3), int(state.tokens[0, 3])
            one = chain.logits_at(lm, state.tokens, where[:1].to(lm.device)).expand(2000, -1)
            current = torch.full((2000,), int(np.searchsorted(lm.vocabulary, now)), device=one.device)
            after = chain.redraw(one, current, torch.full((2000,), 0.7, device=one.device, dtype=torch.float64), draws)
            counts += np.bincount(after.cpu().numpy(), minlength=len(counts))
        common = rows * law >= 5
        seen, wanted = np.append(counts[common], counts[~common].sum()), np.append(law[common], law[~common].sum())
        p = float(stats.chisquare(seen, rows * wanted / wanted.sum()).pvalue)
        return p > LEVEL, f"{rows:,} draws, p = {p:.2g}"

    def engines(self) -> Result:
        """Lazy and direct, and the device and the CPU, token for token in float64."""
        steps, tau, traces = 300, np.repeat([0.2, 0.5, 1.5], 4), []
        for device, engine in ((None, "direct"), (None, "lazy"), ("cpu", "direct")):
            lm = self.load("float64", device)
            traces.append(
                engines.run(lm, starts(lm, 8, 12), temperature=tau, steps=steps, seed=3, engine=engine)["states"]
            )
        equal = [bool((trace == traces[0]).all()) for trace in traces[1:]]
        return all(equal), f"{steps} steps: lazy is direct {equal[0]}, device is CPU {equal[1]}"

    def precision(self) -> Result:
        """Logits of each precision against float64 on the CPU."""
        exact = self.load("float64", "cpu")
        states, sites = starts(exact, 16, 32), torch.arange(32) % 16
        wanted, found, good = exact.conditional_logits(states, sites), list[str](), True
        scale = float(wanted.abs().max())
        for dtype, allowed in (("float32", 1e-3), ("bfloat16", 0.05)):
            try:
                lm = self.load(dtype)
            except glauber.ParameterError:
                found.append(f"{dtype} left out")
                continue
            gap = float((lm.conditional_logits(states, sites).cpu().double() - wanted).abs().max())
            found.append(f"{dtype} off by {gap:.1e} nats")
            good &= gap < allowed * max(scale, 1.0)
        return good, ", ".join(found)

    def memory(self) -> Result:
        """Batches that do not fit are halved, and the logits are the same."""
        lm = self.load()
        rows, limit = (4096, 0) if self.cuda else (64, 20)
        states, sites = starts(lm, 32, rows), torch.arange(rows) % 32
        wanted, forward = lm.conditional_logits(states, sites).cpu(), lm._forward
        lm.budget = 2**50
        before = lm.rows_per_batch(32)
        if self.cuda:
            torch.cuda.empty_cache()
            taken, whole = torch.cuda.memory_allocated(), torch.cuda.get_device_properties(lm.device).total_memory
            torch.cuda.set_per_process_memory_fraction(min(1.0, (taken + wanted.nbytes) / whole))
        else:

            def small(states: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
                if len(states) > limit:
                    raise torch.OutOfMemoryError("as if the memory were full")
                return forward(states, positions)

            lm._forward = small  # type: ignore[method-assign]
        try:
            gap = float((lm.conditional_logits(states, sites).cpu() - wanted).abs().max())
        finally:
            if self.cuda:
                torch.cuda.set_per_process_memory_fraction(1.0)
        halved = lm.rows_per_batch(32) < before
        return halved and gap < 1e-3, f"batches halved {halved}, logits off by {gap:.1e} nats"

    def compiled(self) -> Result:
        """CUDA graphs give the same logits."""
        if not self.cuda:
            return None, "compile_mode needs CUDA"
        plain, fast = self.load(), self.load(compile_mode="reduce-overhead")
        states, sites = starts(plain, 32, 256), torch.arange(256) % 32
        gap = max(
            float((fast.conditional_logits(states, sites) - plain.conditional_logits(states, sites)).abs().max())
            for _ in range(3)
        )
        speed = [self.steps_per_second(lm, 256) for lm in (plain, fast)]
        return (
            gap < 1e-2,
            f"logits off by {gap:.1e} nats; {speed[1] / speed[0]:.2f} times the steps of plain, 256 chains",
        )

    def speed(self) -> Result:
        """Steps per second of a large batch, and the peak of memory."""
        lm, count = self.load(), 4096 if self.cuda else 64
        if self.cuda:
            torch.cuda.reset_peak_memory_stats()
        rate = self.steps_per_second(lm, count)
        peak = f", peak {torch.cuda.max_memory_allocated() / 2**30:.2f} GiB" if self.cuda else ""
        return True, f"{rate:,.0f} chain steps per second, {count} chains of n = 32{peak}"

    def steps_per_second(self, lm: MaskedLM, count: int) -> float:
        """Of `direct`, after a few steps that are not counted."""
        state, tau = chain.init(lm, starts(lm, 32, count)), torch.ones(count, dtype=torch.float64)
        streams, steps = Streams(1, range(count), 32, block=64), 50 if self.cuda else 10
        for t in range(steps + 5):
            if t == 5:
                begin = time.perf_counter()
            state, info = chain.step(lm, state, tau, streams.at(t))
        info.changed.cpu()  # waits for the device
        return count * steps / (time.perf_counter() - begin)


def report(device: str, name: str) -> pd.DataFrame:
    """All checks as a table: ``check``, ``passed`` (yes, NO, left out), ``found``, ``seconds``."""
    check, rows = Check(device, name), []
    parts: dict[str, Callable[[], Result]] = {
        "law of a draw": check.law,
        "trajectories": check.engines,
        "precision": check.precision,
        "out of memory": check.memory,
        "compile_mode": check.compiled,
        "speed": check.speed,
    }
    for what, run in parts.items():
        begin = time.perf_counter()
        try:
            passed, found = run()
        except Exception as error:  # a check that breaks is one that fails; the others go on
            passed, found = False, f"{type(error).__name__}: {str(error).splitlines()[0][:100] if str(error) else ''}"
        word = {True: "yes", False: "NO", None: "left out"}[passed]
        rows.append((what, word, found, round(time.perf_counter() - begin, 1)))
    return pd.DataFrame(rows, columns=["check", "passed", "found", "seconds"])


def main() -> None:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--model", default="glauber-tiny")
    given = parser.parse_args()
    device = resolve_device(given.device)
    machine = torch.cuda.get_device_name(device) if device.type == "cuda" else device.type
    table = report(str(device), given.model)
    print(f"{machine}, torch {torch.__version__}, {given.model}\n")
    print(table.to_string(index=False))
    sys.exit(int((table["passed"] == "NO").any()))


if __name__ == "__main__":
    main()
