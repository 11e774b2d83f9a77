"""A chain player: one HTML fragment that shows how a text changes while a chain redraws it token by token.

The fragment carries its own style, markup and script (``player.html``) and asks for nothing from outside, so the same
string works on a page of the book and in Jupyter (``IPython.display.HTML(player([...]))``).
"""

import codecs
import hashlib
import html
import json
import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tokenizers import decoders
from tokenizers.models import WordPiece

from .errors import ParameterError
from .models.text import Text

TEMPLATE = Path(__file__).with_name("player.html")
# Marks that close up to the word before them, and to the word after them; WordPiece does not keep the spaces.
CLOSING = frozenset(".,;:!?)]}%'’-/")
OPENING = frozenset("([{$'’-/")

Row = tuple[list[str], list[bool]]


@dataclass(frozen=True)
class Film:
    """One chain as it is shown; a record is a state of the chain that is kept.

    Attributes
    ----------
    title : str
        For example ``"health, τ = 1.0"``.
    steps : sequence of int, length records
        Step number of each record, in steps of the chain, strictly ascending.
    tokens : sequence of sequence of str, shape (records, n)
        The tokens as displayed, without the space before them.
    joined : sequence of sequence of bool, shape (records, n), or None
        True where a token is glued to the token before it; None puts a space before every token.
    distance : sequence of float, length records, or None
        Drawn as a curve, for example the cosine distance to the start (no unit).
    threshold : float or None
        Height of a horizontal line in the curve, in the unit of ``distance``.
    changed : sequence of sequence of bool, shape (records, n), or None
        True where a token was redrawn to another one at this record; the first row has no meaning. None takes a token
        as changed where its string differs from the record before.
    """

    title: str
    steps: Sequence[int]
    tokens: Sequence[Sequence[str]]
    joined: Sequence[Sequence[bool]] | None
    distance: Sequence[float] | None
    threshold: float | None = None
    changed: Sequence[Sequence[bool]] | None = None


def _check_table(name: str, table: Sequence[Sequence[Any]], records: int, n: int, title: str) -> None:
    if len(table) != records:
        raise ParameterError(
            f"{name} of film {title!r} has {len(table)} rows but steps has {records}: give one row per record"
        )
    for k, row in enumerate(table):
        if len(row) != n:
            raise ParameterError(
                f"{name} of film {title!r} has {len(row)} entries at record {k}, not {n}: give one per token"
            )


def _check(film: Film) -> None:
    """Refuse a film that cannot be shown."""
    title, records = film.title, len(film.steps)
    if not records:
        raise ParameterError(f"steps of film {title!r} is empty: give at least one record")
    for k, step in enumerate(film.steps):
        if step != int(step) or (k and step <= film.steps[k - 1]):
            raise ParameterError(
                f"steps of film {title!r} has {step} at record {k}: give whole numbers in strictly ascending order"
            )
    n = len(film.tokens[0]) if len(film.tokens) else 0
    _check_table("tokens", film.tokens, records, n, title)
    if not n:
        raise ParameterError(f"tokens of film {title!r} has 0 tokens per record: give at least one")
    if film.joined is not None:
        _check_table("joined", film.joined, records, n, title)
    if film.changed is not None:
        _check_table("changed", film.changed, records, n, title)
    if film.distance is not None:
        if len(film.distance) != records:
            raise ParameterError(
                f"distance of film {title!r} has {len(film.distance)} values but steps has {records}: give one per record"
            )
        for k, value in enumerate(film.distance):
            if not math.isfinite(value):
                raise ParameterError(
                    f"distance of film {title!r} is {value} at record {k}: give finite numbers, or None for no curve"
                )
    if film.threshold is not None:
        if film.distance is None:
            raise ParameterError(
                f"threshold of film {title!r} is {film.threshold} but there is no distance: give both or neither"
            )
        if not math.isfinite(film.threshold):
            raise ParameterError(f"threshold of film {title!r} is {film.threshold}: give a finite number, or None")


def _short(value: float) -> float:
    """Four digits: more than the curve or its readout can show."""
    return float(f"{value:.4g}")


def _pack(film: Film) -> dict[str, Any]:
    """The first record, then only what differs: a chain changes one token at a time, so a long film stays small.

    A token is one number, ``4 * word + 2 * changed + joined``; a record after the first is ``[position, number, ...]``.
    """
    index: dict[str, int] = {}
    n = len(film.tokens[0])
    before: list[int] = []
    changes: list[list[int]] = []
    for k, row in enumerate(film.tokens):
        glued = film.joined[k] if film.joined is not None else [False] * n
        now = [2 * index.setdefault(str(token), len(index)) + bool(j) for token, j in zip(row, glued, strict=True)]
        if before:
            flags = (
                film.changed[k]
                if film.changed is not None
                else [a // 2 != b // 2 for a, b in zip(now, before, strict=True)]
            )
            record: list[int] = []
            for i, (old, new, flag) in enumerate(zip(before, now, flags, strict=True)):
                if flag or old != new:
                    record += [i, 4 * (new // 2) + 2 * bool(flag) + new % 2]
            changes.append(record)
        else:
            first = [4 * (new // 2) + new % 2 for new in now]
        before = now
    return {
        "title": film.title,
        "steps": [int(step) for step in film.steps],
        "words": list(index),
        "first": first,
        "changes": changes,
        "distance": None if film.distance is None else [_short(float(value)) for value in film.distance],
        "threshold": None if film.threshold is None else _short(float(film.threshold)),
    }


def _line(film: Film, k: int) -> str:
    """Text of one record."""
    glued = film.joined[k] if film.joined is not None else [False] * len(film.tokens[k])
    parts = [("" if i == 0 or j else " ") + str(t) for i, (t, j) in enumerate(zip(film.tokens[k], glued, strict=True))]
    return "".join(parts)


def _plain(film: Film) -> str:
    """What a reader without JavaScript sees."""
    ends = dict.fromkeys((0, len(film.steps) - 1))
    texts = [f"<p><b>Step {film.steps[k]:,}:</b> {html.escape(_line(film, k))}</p>" for k in ends]
    return f"<p><b>{html.escape(film.title)}</b></p>\n" + "\n".join(texts)


def player(films: Sequence[Film], *, label: str = "Chain player", distance_label: str = "semantic distance") -> str:
    """HTML fragment that plays chains: the text, what changed in it, and its distance to the start.

    Parameters
    ----------
    films : sequence of Film
        The chains; the reader picks one where there are several.
    label : str
        Name of the player for screen readers.
    distance_label : str
        Label of the vertical axis of the curve.

    Returns
    -------
    str
        Self-contained HTML. Equal arguments give equal text; several players, also equal ones, may share a page.

    Raises
    ------
    ParameterError
        If there is no film, lengths do not match, steps do not ascend, or a distance or threshold is not finite.
    """
    if not films:
        raise ParameterError("films is empty: give player at least one film")
    for one in films:
        _check(one)
    payload = {"label": label, "distance": distance_label, "films": [_pack(one) for one in films]}
    data = json.dumps(payload, separators=(",", ":"))
    parts = {
        # A `<` could end the script element that holds the data.
        "DATA": data.replace("<", "\\u003c"),
        "ID": "glauber-player-" + hashlib.sha256(data.encode()).hexdigest()[:12],
        "LABEL": html.escape(label),
        "PLAIN": "\n".join(_plain(one) for one in films),
    }
    # One pass: a placeholder's name that turns up in a text is left alone.
    return re.sub(r"@(DATA|ID|LABEL|PLAIN)@", lambda found: parts[found[1]], TEMPLATE.read_text("utf-8"))


def _words(row: list[str]) -> Row:
    """WordPiece: ``##`` continues a word; the spaces around punctuation are lost and set as prose sets them."""
    shown = [token[2:] if token.startswith("##") and len(token) > 2 else token for token in row]
    joined = []
    for i, token in enumerate(row):
        last, two = row[i - 1] if i else "", row[i - 2] if i > 1 else ""
        decimals = last in {".", ","} and two[-1:].isdigit() and token[:1].isdigit()
        joined.append(i > 0 and (token != shown[i] or token in CLOSING or last in OPENING or decimals))
    return shown, joined


def _spaced(row: list[str]) -> Row:
    """SentencePiece: ``▁`` stands for the space before a token."""
    return [t.removeprefix("▁").replace("▁", " ") for t in row], [i > 0 and t[:1] != "▁" for i, t in enumerate(row)]


def _byte_letters() -> dict[str, int]:
    """The letter by which a byte-level vocabulary writes each byte, as GPT-2 laid it down."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    rest = [byte for byte in range(256) if byte not in printable]
    return {chr(b): b for b in printable} | {chr(256 + i): b for i, b in enumerate(rest)}


BYTES = _byte_letters()


def _bytewise(row: list[str]) -> Row:
    """Byte-level BPE: a letter of several bytes is shown at the token that completes it."""
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    texts = []
    for i, token in enumerate(row):
        raw = b"".join(bytes([BYTES[c]]) if c in BYTES else c.encode() for c in token)
        texts.append(decoder.decode(raw, final=i == len(row) - 1))
    return [t.removeprefix(" ") for t in texts], [i > 0 and t[:1] != " " for i, t in enumerate(texts)]


def _layout(text: Text) -> Callable[[list[str]], Row]:
    """How tokens of this tokenizer are put side by side."""
    backend = getattr(text.tokenizer, "backend_tokenizer", None)
    if isinstance(getattr(backend, "decoder", None), decoders.ByteLevel):
        return _bytewise
    pieces = isinstance(getattr(backend, "model", None), WordPiece)
    return _spaced if not pieces and any("▁" in token for token in text.tokenizer.get_vocab()) else _words


def film(
    text: Text,
    states: NDArray[np.integer[Any]],
    steps: Sequence[int],
    title: str,
    distance: Sequence[float] | None = None,
    threshold: float | None = None,
) -> Film:
    """Make a film of a chain's states.

    Parameters
    ----------
    text : Text
        Of the model that the chain ran on.
    states : array of int, shape (records, n)
        Token ids without the special tokens around them.
    steps : sequence of int, length records
        Step number of each record, in steps of the chain, strictly ascending.
    title : str
    distance : sequence of float, length records, optional
        Drawn as a curve.
    threshold : float, optional
        Height of a horizontal line in the curve, in the unit of ``distance``.

    Returns
    -------
    Film
        With words put together and punctuation closed up, so that it reads as prose.

    Raises
    ------
    ParameterError
        If ``states`` is not such an array, or what `player` would refuse.
    """
    ids = np.asarray(states)
    if ids.ndim != 2 or not np.issubdtype(ids.dtype, np.integer):
        raise ParameterError(f"states has shape {ids.shape} and type {ids.dtype}: give integers of shape (records, n)")
    size = len(text.tokenizer)
    if ids.size and not 0 <= ids.min() <= ids.max() < size:
        raise ParameterError(
            f"states holds ids {ids.min()} to {ids.max()}: give ids of this tokenizer, 0 to {size - 1}"
        )
    distinct: list[int] = np.unique(ids).tolist()
    names = dict(zip(distinct, text.tokens(distinct), strict=True))
    layout = _layout(text)
    rows = [layout([names[i] for i in row]) for row in ids.tolist()]
    # From the ids, since two tokens can look alike ("ing" and "##ing"), and a neighbour can move a space.
    changed = np.zeros(ids.shape, dtype=bool)
    changed[1:] = ids[1:] != ids[:-1]
    made = Film(
        title=title,
        steps=[*steps],
        tokens=[shown for shown, _ in rows],
        joined=[joined for _, joined in rows],
        distance=None if distance is None else [*distance],
        threshold=threshold,
        changed=changed.tolist(),
    )
    _check(made)
    return made
