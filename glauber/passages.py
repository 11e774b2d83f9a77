"""Starting texts: the embedded passages, any local file, or MS MARCO from the hub."""

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from . import hub
from .checks import whole
from .errors import PassageError

EMBEDDED = Path(__file__).parents[1] / "data" / "passages.jsonl"
FORMATS = (".jsonl", ".tsv", ".txt")


@dataclass(frozen=True)
class Passage:
    """One text. ``topic`` is empty where the source names none."""

    id: str
    topic: str
    text: str


@dataclass(frozen=True)
class Starts:
    """Starting states and where they come from.

    Attributes
    ----------
    states : array of int64, shape (count, n)
        Token ids.
    table : DataFrame
        Columns ``id``, ``topic``, ``text``, ``dropped``, one row per state; ``dropped`` counts pieces of the text that
        the dynamics may not emit (such as ``[UNK]``) and that were left out.
    too_short : int
        Passages that were read but have fewer than ``n`` tokens.
    """

    states: NDArray[np.int64]
    table: pd.DataFrame
    too_short: int


def read_passages(source: str = "embedded") -> Iterator[Passage]:
    """Stream passages, never holding a file in memory.

    Parameters
    ----------
    source : str
        ``embedded`` (120 passages of this project, topics in turn), ``ms-marco`` (from the hub, with the package
        ``datasets``), or a local file: ``.jsonl`` with a field ``text`` and perhaps ``id`` and ``topic``, ``.tsv`` with
        ``id<TAB>text`` as in MS MARCO's ``collection.tsv``, ``.txt`` with one passage a line.

    Raises
    ------
    PassageError
        If the source is unknown, missing, empty, not UTF-8, or a line is malformed.
    """
    if source == "ms-marco":
        return _ms_marco()
    path = EMBEDDED if source == "embedded" else Path(source).expanduser()
    if path.suffix not in FORMATS:
        raise PassageError(
            f"passages {source!r} are unknown: give embedded, ms-marco, or a file ending in {', '.join(FORMATS)}"
        )
    if not path.is_file():
        raise PassageError(f"passages file {source!r} is not there: check the path")
    return _lines(path)


def _lines(path: Path) -> Iterator[Passage]:
    parse = {".jsonl": _from_json, ".tsv": _from_tsv, ".txt": _from_text}[path.suffix]
    with path.open(encoding="utf-8-sig") as file:  # Windows editors put a byte-order mark first
        found = False
        try:
            for number, line in enumerate(file, start=1):
                if line.strip():
                    found = True
                    yield parse(line.rstrip("\r\n"), f"{path.name}:{number}")
        except UnicodeDecodeError as error:
            raise PassageError(
                f"passages file {path.name!r} is not UTF-8 ({error.reason}): convert it first"
            ) from error
    if not found:
        raise PassageError(f"passages file {path.name!r} is empty: give one with at least one passage")


def _from_json(line: str, where: str) -> Passage:
    try:
        fields = json.loads(line)
        name, topic, text = str(fields.get("id", where)), str(fields.get("topic", "")), fields["text"]
        f"{name}{topic}{text}".encode()
    except UnicodeEncodeError as error:
        raise PassageError(f"{where} holds half a character ({error.object[error.start]!r}): mend that line") from error
    except RecursionError as error:
        raise PassageError(f"{where} is nested too deeply to be read: mend that line") from error
    except (json.JSONDecodeError, KeyError, AttributeError) as error:
        raise PassageError(f"{where} is not a JSON object with a field 'text': mend that line") from error
    except ValueError as error:  # Python converts no longer ones
        raise PassageError(f"{where} holds a number of thousands of digits: write it as text, in quotes") from error
    if not isinstance(text, str):  # null would become the passage "None"
        raise PassageError(f"{where} has {text!r} in its field 'text', which is no text: mend that line")
    return Passage(name, topic, text)


def _from_tsv(line: str, where: str) -> Passage:
    name, tab, text = line.partition("\t")
    if not tab:
        raise PassageError(f"{where} has no tab: give id<TAB>text, as in MS MARCO's collection.tsv")
    return Passage(name, "", text)


def _from_text(line: str, where: str) -> Passage:
    return Passage(where, "", line)


def _ms_marco() -> Iterator[Passage]:
    try:
        import datasets
    except ImportError as error:
        raise PassageError("passages 'ms-marco' need the package datasets: pip install datasets") from error
    unreachable = PassageError("passages 'ms-marco' cannot be reached on the hub: connect, or give a local file")
    if not hub.answers():  # datasets would retry for half a minute
        raise unreachable
    try:
        rows: Iterable[Any] = datasets.load_dataset("microsoft/ms_marco", "v2.1", split="validation", streaming=True)
        for row in rows:
            for k, text in enumerate(row["passages"]["passage_text"]):
                yield Passage(f"{row['query_id']}-{k}", "", str(text))
    except (OSError, datasets.exceptions.DatasetNotFoundError) as error:
        raise unreachable from error


Encode = Callable[[str], tuple[list[int], int]]


def starting_states(encode: Encode, passages: Iterable[Passage], n: int, count: int) -> Starts:
    """The first ``count`` passages of at least ``n`` tokens, cut to exactly ``n``.

    Parameters
    ----------
    encode : callable
        From a text to its ids and the number of pieces left out (`glauber.models.Text.encode`).
    passages : iterable of Passage
    n : int
        Free positions.
    count : int
        States wanted.

    Raises
    ------
    ParameterError
        If ``n`` or ``count`` is no whole number from 1.
    PassageError
        If the source ends before ``count`` long enough passages are found.
    """
    return common_states([encode], passages, n, count)[0]


def common_states(encodes: Sequence[Encode], passages: Iterable[Passage], n: int, count: int) -> list[Starts]:
    """The same passages for several models: the first ``count`` that have at least ``n`` tokens under every encoding.

    Parameters, return value of each and errors are those of `starting_states`. Where the encodings differ, the ``n`` tokens are
    not the same stretch of text.
    """
    n, count = whole("n", n), whole("count", count)
    states: list[list[list[int]]] = [[] for _ in encodes]
    rows: list[list[tuple[str, str, str, int]]] = [[] for _ in encodes]
    too_short = 0
    for passage in passages:
        cut = [encode(passage.text) for encode in encodes]
        if min(len(ids) for ids, _ in cut) < n:
            too_short += 1
            continue
        for k, (ids, dropped) in enumerate(cut):
            states[k].append(ids[:n])
            rows[k].append((passage.id, passage.topic, passage.text, dropped))
        if len(states[0]) == count:
            names = ["id", "topic", "text", "dropped"]
            return [
                Starts(np.array(kept), pd.DataFrame(about, columns=names), too_short)
                for kept, about in zip(states, rows, strict=True)
            ]
    raise PassageError(
        f"only {len(states[0])} of {count} passages have {n} tokens or more ({too_short} are shorter): "
        f"ask for fewer passages, a smaller n, or give another source"
    )
