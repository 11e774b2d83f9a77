"""Starting texts: the embedded passages, any local file, or MS MARCO from the hub."""

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from .. import hub
from ..checks import shown
from ..errors import PassageError

EMBEDDED = Path(__file__).parents[2] / "data" / "passages.jsonl"
FORMATS = (".jsonl", ".tsv", ".txt")
HEADER = re.compile(
    r"[A-Za-z_]+\t[A-Za-z_ ]*(?:text|passage|content|document|body|sentence)[A-Za-z_]*\s*", re.IGNORECASE
)
ENDINGS = ".!?:;\"'”’»)]…。！？"  # what a line that is whole may end with


@dataclass(frozen=True)
class Passage:
    """One text. ``topic`` is empty where the source names none; ``broken`` where a line of ``.txt`` goes on from the line before."""

    id: str
    topic: str
    text: str
    broken: bool = False


def read_passages(source: str = "embedded") -> Iterator[Passage]:
    """Stream passages, never holding a file in memory.

    Parameters
    ----------
    source : str
        ``embedded`` (120 passages of this project, topics in turn), ``ms-marco`` (from the hub, with the package
        ``datasets``), or a local file: ``.jsonl`` with a field ``text`` and perhaps ``id`` and ``topic``, ``.tsv`` with
        ``id<TAB>text`` as in MS MARCO's ``collection.tsv`` and no header, ``.txt`` with one passage a line.

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
        last = None
        try:
            for number, line in enumerate(file, start=1):
                if line.strip():
                    passage = parse(line.rstrip("\r\n"), f"{path.name}:{number}")
                    broken = last is not None and path.suffix == ".txt" and _goes_on(last, passage.text)
                    yield replace(passage, broken=broken)
                    last = passage.text
        except UnicodeDecodeError as error:
            raise PassageError(
                f"passages file {path.name!r} is not UTF-8 ({error.reason}): convert it first"
            ) from error
    if last is None:
        raise PassageError(f"passages file {path.name!r} is empty: give one with at least one passage")


def _goes_on(before: str, text: str) -> bool:
    """Whether a line reads as the rest of the one before, which ended within a sentence."""
    return len(before.split()) > 2 and before.rstrip()[-1] not in ENDINGS and text.lstrip()[0].islower()


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
    fields = line.split("\t")
    if len(fields) == 1:
        raise PassageError(
            f"{where} has no tab: give id<TAB>text, as in MS MARCO's collection.tsv, each passage on one line"
        )
    if len(fields) > 2:
        raise PassageError(
            f"{where} has {len(fields)} columns where id<TAB>text is wanted: keep the passage's id and text alone "
            f"(column {len(fields)} starts {shown(fields[-1][:40])})"
        )
    name, text = fields
    if where.endswith(":1") and HEADER.fullmatch(line):
        raise PassageError(f"{where} looks like a header ({shown(line[:40])}): delete that line")
    return Passage(name, "", text)


def _from_text(line: str, where: str) -> Passage:
    if where.endswith(":1") and re.match(r"""\d+\t|\{\s*["']""", line):
        raise PassageError(
            f"{where} looks like a line of another format ({shown(line[:40])}): name the file .tsv or .jsonl"
        )
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
