"""Progress of long loops: a bar on a terminal, a few plain lines in a batch log."""

import sys
import time
from types import TracebackType

from tqdm import tqdm

LINES = 10  # plain lines over a whole loop
PATIENCE = 5.0  # seconds before the first of them


class Progress:
    """Report on standard error how much of a loop is done.

    Parameters
    ----------
    total : int
        Units of work.
    label : str
        What is counted, for the reader of the log. An empty label reports nothing.
    unit : str
    """

    def __init__(self, total: int, label: str, unit: str = "step") -> None:
        self.total, self.label, self.unit = total, label, unit
        self._bar = tqdm(total=total, desc=label, unit=unit) if label and sys.stderr.isatty() else None
        self._start, self._told = time.monotonic(), 0

    def __enter__(self) -> "Progress":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar.close()

    def reach(self, done: int) -> None:
        """Say that ``done`` units are done in all."""
        if self._bar is not None:
            self._bar.update(done - self._bar.n)
        elif self.label and done - self._told >= max(1, self.total // LINES):
            elapsed = time.monotonic() - self._start
            if elapsed > PATIENCE:
                print(f"{self.label}: {done}/{self.total} {self.unit}s, {elapsed:.0f} s", file=sys.stderr, flush=True)
                self._told = done
