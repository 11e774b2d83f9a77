"""Starting states: passages cut to a number of tokens, with an account of what was left out."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ..checks import shown, whole
from ..errors import PassageError
from .reading import Passage

MAX_DROPPED = 0.1  # share of unknown pieces from which a text is no longer the one that was given
SURE = 20  # passages after which the share is known well enough
# Ways to write a text that some tokenizers need.
VARIANTS: dict[str, Callable[[str], str]] = {
    "in lower case": str.lower,
    "in upper case": str.upper,
    "with spaces between their letters": lambda text: " ".join("".join(text.split())),
    "in upper case with spaces between their letters": lambda text: " ".join("".join(text.split())).upper(),
}


Encode = Callable[[str], tuple[list[int], int]]


@dataclass(frozen=True)
class Starts:
    """Starting states and where they come from.

    Attributes
    ----------
    states : array of int64, shape (count, n)
        Token ids.
    table : DataFrame
        Columns ``id``, ``topic``, ``text``, ``dropped``, one row per state; ``dropped`` counts pieces and letters of the text that
        the dynamics may not emit (such as ``[UNK]``) and that were left out.
    too_short : int
        Passages that were read but have fewer than ``n`` tokens.
    repeated : int
        Passages that were read and left out, since the ``n`` tokens were there already: they would count one text twice.
    broken : int
        Passages kept that look like the rest of the line before them, as in a ``.txt`` file with a passage on several lines.
    dropped : float
        Share of the pieces of the passages read that were left out.
    """

    states: NDArray[np.int64]
    table: pd.DataFrame
    too_short: int
    repeated: int
    broken: int
    dropped: float

    def account(self) -> str:
        """What was read, used and left out, as one sentence."""
        count, n = self.states.shape
        parts = [f"{count} passages, cut to {n} tokens"]
        parts += [f"{self.too_short} more were shorter"] if self.too_short else []
        parts += [f"{self.repeated} that began as one before were used once"] if self.repeated else []
        parts += [f"{self.broken} start in the middle of a sentence, as broken lines do"] if self.broken else []
        known = f"{100 * self.dropped:.2g} % of their pieces are unknown to the model and were dropped"
        return "; ".join([*parts, known if self.dropped else "the model knows all of their pieces"])


def starting_states(
    encode: Encode, passages: Iterable[Passage], n: int, count: int, *, max_dropped: float = MAX_DROPPED
) -> Starts:
    """The first ``count`` different passages of at least ``n`` tokens, cut to exactly ``n``.

    Parameters
    ----------
    encode : callable
        From a text to its ids and the number of pieces left out (`glauber.models.Text.encode`).
    passages : iterable of Passage
    n : int
        Free positions.
    count : int
        States wanted.
    max_dropped : float
        Most of the pieces that may be left out, as a share of all.

    Raises
    ------
    ParameterError
        If ``n`` or ``count`` is no whole number from 1.
    PassageError
        If the source ends before ``count`` long enough passages are found, or a larger share of the pieces is unknown.
    """
    return common_states([encode], passages, n, count, max_dropped=max_dropped)[0]


def common_states(
    encodes: Sequence[Encode], passages: Iterable[Passage], n: int, count: int, *, max_dropped: float = MAX_DROPPED
) -> list[Starts]:
    """The same passages for several models: the first ``count`` different ones of at least ``n`` tokens under every encoding.

    Parameters, return value of each and errors are those of `starting_states`. Where the encodings differ, the ``n`` tokens are
    not the same stretch of text.
    """
    n, count = whole("n", n), whole("count", count)
    tallies = [_Tally(encode) for encode in encodes]
    rows: list[Passage] = []
    seen: set[tuple[tuple[int, ...], ...]] = set()
    too_short = repeated = 0
    for passage in passages:
        cut = [tally.read(passage.text) for tally in tallies]
        start = tuple(tuple(ids[:n]) for ids, _ in cut)
        if min(len(ids) for ids in start) < n:
            too_short += 1
        elif start in seen:
            repeated += 1
        else:
            seen.add(start)
            rows.append(passage)
            for tally, (ids, dropped) in zip(tallies, cut, strict=True):
                tally.keep(ids[:n], dropped)
        for tally in tallies:
            tally.check(max_dropped, enough=len(rows) == count)
        if len(rows) == count:
            about = [(row.id, row.topic, row.text) for row in rows]
            return [
                Starts(
                    np.array(tally.states),
                    pd.DataFrame(about, columns=["id", "topic", "text"]).assign(dropped=tally.dropped),
                    too_short,
                    repeated,
                    sum(row.broken for row in rows),
                    tally.share,
                )
                for tally in tallies
            ]
    for tally in tallies:
        tally.check(max_dropped, enough=True)
    same = f", {repeated} repeat another" if repeated else ""
    lost = max(tally.share for tally in tallies)
    same += f", and {100 * lost:.2g} % of their pieces are unknown to the model" if lost else ""
    raise PassageError(
        f"only {len(rows)} of {count} different passages have {n} tokens or more ({too_short} are shorter{same}): "
        f"ask for fewer passages, a smaller n, or give another source"
    )


def account(starts: Mapping[str, Starts]) -> str:
    """What was read for some models, from their names: once where it is the same for all."""
    told = {name: each.account() for name, each in starts.items()}
    if len(set(told.values())) == 1:
        return next(iter(told.values()))
    return ". ".join(f"For {name}: {text}" for name, text in told.items())


class _Tally:
    """What one encoding made of the passages read so far."""

    def __init__(self, encode: Encode) -> None:
        self.encode = encode
        self.states: list[list[int]] = []
        self.dropped: list[int] = []
        self.pieces = self.unknown = self.texts = 0
        self.example = ""

    def read(self, text: str) -> tuple[list[int], int]:
        ids, dropped = self.encode(text)
        self.pieces, self.unknown, self.texts = self.pieces + len(ids) + dropped, self.unknown + dropped, self.texts + 1
        self.example = self.example or (text if dropped else "")
        return ids, dropped

    def keep(self, ids: list[int], dropped: int) -> None:
        self.states.append(ids)
        self.dropped.append(dropped)

    @property
    def share(self) -> float:
        return self.unknown / self.pieces if self.pieces else 0.0

    def check(self, most: float, enough: bool) -> None:
        """Refuse too large a share of unknown pieces, once enough texts are read to know it."""
        if self.share <= most or not (enough or self.texts >= SURE):
            return
        words = self.example.split()
        piece = next((word for word in words if self.encode(word)[1]), self.example)
        raise PassageError(
            f"{100 * self.share:.0f} % of the pieces of the first {self.texts} passages are unknown to the model (such as in "
            f"{shown(piece[:40])}), and max_dropped allows {100 * most:g} %: {self._remedy()}"
        )

    def _remedy(self) -> str:
        for what, change in VARIANTS.items():
            ids, dropped = self.encode(change(self.example))
            if len(ids) > 4 * dropped:
                return f"the model knows them {what}, so write the passages that way"
        return "give passages in the language that its tokenizer was made for, another model, or a larger max_dropped"
