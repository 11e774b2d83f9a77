"""Progress of long loops: a bar on a terminal, a few plain lines in a batch log."""

import sys
import time
from collections.abc import Iterable, Iterator
from typing import TypeVar

from tqdm import tqdm

T = TypeVar("T")
LINES = 10  # plain lines over a whole loop


def progress(items: Iterable[T], total: int, label: str, unit: str = "step") -> Iterator[T]:
    """Yield from ``items``, reporting progress on standard error.

    Parameters
    ----------
    items : iterable
        What to loop over.
    total : int
        Number of items.
    label, unit : str
        What is counted, for the reader of the log. An empty label reports nothing.
    """
    if not label or total == 0:
        yield from items
    elif sys.stderr.isatty():
        yield from tqdm(items, total=total, desc=label, unit=unit)
    else:
        start, every = time.monotonic(), max(1, total // LINES)
        for done, item in enumerate(items, start=1):
            yield item
            if done % every == 0 and time.monotonic() - start > 5:
                print(f"{label}: {done}/{total} {unit}s, {time.monotonic() - start:.0f} s", file=sys.stderr, flush=True)
