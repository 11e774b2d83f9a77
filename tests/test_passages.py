"""Starting texts: what is embedded, the file formats, and the cut to a given number of tokens."""

import sys
from collections import Counter
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest

from glauber import MaskedLM, ParameterError, PassageError, hub
from glauber.passages import Passage, account, common_states, read_passages, starting_states

FAR = 200_000  # bytes, well past what a text file reads ahead


def write(path: Path, *lines: str) -> str:
    path.write_text("".join(line + "\n" for line in lines), encoding="utf-8")
    return str(path)


def refusal(passages: Iterator[Passage]) -> str:
    """The message of the error that reading on must raise, a single line."""
    with pytest.raises(PassageError) as caught:
        list(passages)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_embedded_passages_cover_many_topics() -> None:
    passages = list(read_passages())
    topics = Counter(p.topic for p in passages)
    assert len(topics) >= 10 and "" not in topics
    assert min(topics.values()) >= 12
    assert len({p.id for p in passages}) == len({p.text for p in passages}) == len(passages)
    assert all(30 <= len(p.text.split()) <= 60 for p in passages)
    # Topics come in turn, so that the first few starts of a run already span them.
    assert len({p.topic for p in passages[: len(topics)]}) == len(topics)


def test_embedded_passages_fill_a_state_of_the_embedded_model(tiny: MaskedLM) -> None:
    for passage in read_passages("embedded"):
        ids, dropped = tiny.text.encode(passage.text)
        assert dropped == 0, passage.id
        assert len(ids) >= 32, passage.id


def test_jsonl(tmp_path: Path) -> None:
    source = write(
        tmp_path / "a.jsonl", '{"text": "Caf\\u00e9 au lait"}', "", '{"id": 7, "topic": "food", "text": "naïve"}'
    )
    assert list(read_passages(source)) == [Passage("a.jsonl:1", "", "Café au lait"), Passage("7", "food", "naïve")]


def test_tsv(tmp_path: Path) -> None:
    source = write(tmp_path / "collection.tsv", "0\tThe presence of communication.", "1\tAnother, with «text».", "")
    assert list(read_passages(source)) == [
        Passage("0", "", "The presence of communication."),
        Passage("1", "", "Another, with «text»."),
    ]


def test_txt(tmp_path: Path) -> None:
    source = write(tmp_path / "a.txt", "First passage.", "  ", 'Second, "quoted".')
    assert list(read_passages(source)) == [
        Passage("a.txt:1", "", "First passage."),
        Passage("a.txt:3", "", 'Second, "quoted".'),
    ]


@pytest.mark.parametrize(("name", "line"), [("a.jsonl", '{"id": "x", "text": "y"}'), ("a.tsv", "x\ty")])
def test_marks_that_windows_editors_leave(tmp_path: Path, name: str, line: str) -> None:
    path = tmp_path / name
    path.write_bytes(b"\xef\xbb\xbf" + line.encode() + b"\r\n")
    assert list(read_passages(str(path))) == [Passage("x", "", "y")]


@pytest.mark.parametrize(
    ("name", "good", "bad", "words"),
    [
        ("a.jsonl", '{"text": "good"}', '{"text": "cut off', "not a JSON object with a field 'text'"),
        ("a.jsonl", '{"text": "good"}', '{"passage": "other name"}', "not a JSON object with a field 'text'"),
        ("a.jsonl", '{"text": "good"}', '["text"]', "not a JSON object with a field 'text'"),
        ("a.jsonl", '{"text": "good"}', '{"text": null}', "None in its field 'text'"),
        ("a.jsonl", '{"text": "good"}', '{"text": "a\\ud800b"}', "holds half a character ('\\ud800'): mend"),
        ("a.jsonl", '{"text": "good"}', '{"text": "b", "id": "\\udc00"}', "half a character ('\\udc00')"),
        ("a.jsonl", '{"text": "good"}', '{"text": "b", "id": ' + "[" * 10**5 + "]" * 10**5 + "}", "nested too deeply"),
        ("a.jsonl", '{"text": "good"}', '{"text": "b", "id": ' + "9" * 5000 + "}", "a number of thousands of digits"),
        ("collection.tsv", "0\tgood", "1 no tab here", "no tab: give id<TAB>text"),
        ("collection.tsv", "0\tgood", "and goes on after a line break", "each passage on one line"),
        ("top1000.dev.tsv", "0\tgood", "7\t0\ta query\ta passage", "has 4 columns where id<TAB>text is wanted: keep"),
        ("queries.tsv", "0\tgood", "7\ta title\ta passage", "has 3 columns where id<TAB>text is wanted: keep"),
    ],
)
def test_malformed_line_is_named_once_it_is_reached(tmp_path: Path, name: str, good: str, bad: str, words: str) -> None:
    passages = read_passages(write(tmp_path / name, good, bad))
    assert next(passages).text == "good"
    message = refusal(passages)
    assert message.startswith(f"{name}:2 ") and words in message


@pytest.mark.parametrize(
    "line", ["id\ttext", "pid\tpassage", "docid\tText ", "pid\tpassage_text", "doc_id\tDocument body"]
)
def test_a_header_is_no_passage(tmp_path: Path, line: str) -> None:
    message = refusal(read_passages(write(tmp_path / "a.tsv", line, "0\tgood")))
    assert message.startswith("a.tsv:1 looks like a header") and message.endswith("delete that line")
    assert next(read_passages(write(tmp_path / "b.tsv", "0\tgood", "1\ttext"))).text == "good"


@pytest.mark.parametrize("line", ["7\tone two", '{"text": "one two"}'])
def test_a_txt_file_of_another_format_is_told(tmp_path: Path, line: str) -> None:
    assert "name the file .tsv or .jsonl" in refusal(read_passages(write(tmp_path / "a.txt", line)))


def test_lines_that_break_a_sentence_are_counted(tmp_path: Path) -> None:
    lines = [
        "The first passage was broken by",
        "an editor that wraps its lines.",
        "A second one is whole.",
        "and this one too",
    ]
    passages = list(read_passages(write(tmp_path / "a.txt", *lines)))
    assert [passage.broken for passage in passages] == [False, True, False, False]

    def words(text: str) -> tuple[list[int], int]:
        return [hash(word) for word in text.split()], 0

    starts = starting_states(words, passages, 4, 4)
    assert starts.broken == 1
    assert "1 start in the middle of a sentence" in starts.account()


@pytest.mark.parametrize("lines", [[], ["", "  "]])
def test_empty_file(tmp_path: Path, lines: list[str]) -> None:
    message = refusal(read_passages(write(tmp_path / "a.jsonl", *lines)))
    assert message == "passages file 'a.jsonl' is empty: give one with at least one passage"


@pytest.mark.parametrize("name", ["a.txt", "collection.tsv", "a.jsonl"])
def test_files_are_streamed(tmp_path: Path, name: str) -> None:
    line = {"a.txt": "{text}", "collection.tsv": "0\t{text}", "a.jsonl": '{{"text": "{text}"}}'}[name]
    path = tmp_path / name
    path.write_bytes(line.format(text="first").encode() + b"\n" + line.format(text="x" * FAR).encode() + b"\xff\n")
    passages = read_passages(str(path))
    assert next(passages).text == "first"  # what is wrong far off is not yet read
    assert f"'{name}' is not UTF-8" in refusal(passages)


def test_missing_file_and_unknown_format(tmp_path: Path) -> None:
    absent, table = str(tmp_path / "absent.jsonl"), write(tmp_path / "a.csv", "text", "good")
    with pytest.raises(PassageError, match=r"absent\.jsonl' is not there: check the path$"):
        read_passages(absent)
    with pytest.raises(
        PassageError, match=r"a\.csv' are unknown: give embedded, ms-marco, or a file ending in \.jsonl"
    ):
        read_passages(table)
    with pytest.raises(PassageError, match="'ms_marco' are unknown"):
        read_passages("ms_marco")


class NotFoundError(Exception):
    """Stands for the error of `datasets`, which is no OSError."""


def fake_datasets(monkeypatch: pytest.MonkeyPatch, rows: Iterator[dict[str, object]]) -> list[tuple[object, ...]]:
    """Put a module in the place of `datasets`; the calls of its `load_dataset` are recorded."""
    calls: list[tuple[object, ...]] = []

    def load_dataset(*names: object, **options: object) -> Iterator[dict[str, object]]:
        calls.append((*names, options))
        return rows

    monkeypatch.setattr(hub, "answers", lambda: True)
    module = ModuleType("datasets")
    module.__dict__.update(load_dataset=load_dataset, exceptions=SimpleNamespace(DatasetNotFoundError=NotFoundError))
    monkeypatch.setitem(sys.modules, "datasets", module)
    return calls


def test_ms_marco_is_streamed(monkeypatch: pytest.MonkeyPatch) -> None:
    def rows() -> Iterator[dict[str, object]]:
        for query in range(10**9):  # nobody could hold them all
            yield {"query_id": query, "passages": {"passage_text": [f"{query} a", f"{query} b"], "url": ["", ""]}}

    calls = fake_datasets(monkeypatch, rows())
    assert list(islice(read_passages("ms-marco"), 3)) == [
        Passage("0-0", "", "0 a"),
        Passage("0-1", "", "0 b"),
        Passage("1-0", "", "1 a"),
    ]
    assert calls == [("microsoft/ms_marco", "v2.1", {"split": "validation", "streaming": True})]


@pytest.mark.parametrize("error", [ConnectionError, NotFoundError])
def test_ms_marco_out_of_reach(monkeypatch: pytest.MonkeyPatch, error: type[Exception]) -> None:
    def rows() -> Iterator[dict[str, object]]:
        raise error("no route")
        yield {}

    fake_datasets(monkeypatch, rows())
    assert "cannot be reached on the hub: connect, or give a local file" in refusal(read_passages("ms-marco"))


def test_ms_marco_offline_is_told_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = fake_datasets(monkeypatch, iter([]))
    monkeypatch.setattr(hub, "answers", lambda: False)
    assert "cannot be reached on the hub: connect, or give a local file" in refusal(read_passages("ms-marco"))
    assert not calls


def test_ms_marco_without_datasets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "datasets", None)
    assert "need the package datasets: pip install datasets" in refusal(read_passages("ms-marco"))


def numbers(text: str) -> tuple[list[int], int]:
    """An encoding that tells itself: each number is an id, all else is dropped."""
    words = text.split()
    return [int(word) for word in words if word.isdigit()], sum(not word.isdigit() for word in words)


def test_states_are_cut_to_the_length() -> None:
    texts = ["1 2", "1 2 3", "4 x 5 y", "4 x 5 y 6 7", "8 9 10", "never read"]
    passages = (Passage(str(k), "t", text) for k, text in enumerate(texts))
    starts = starting_states(numbers, passages, n=3, count=3, max_dropped=0.3)
    assert starts.states.dtype == np.int64
    assert starts.states.tolist() == [[1, 2, 3], [4, 5, 6], [8, 9, 10]]
    assert starts.too_short == 2
    assert starts.table["id"].tolist() == ["1", "3", "4"]
    assert starts.table["topic"].tolist() == ["t", "t", "t"]
    assert starts.table["text"].tolist() == [texts[1], texts[3], texts[4]]
    assert starts.table["dropped"].tolist() == [0, 2, 0]
    assert next(passages).text == "never read"  # no more is taken than what is asked for


def test_too_few_passages() -> None:
    passages = [Passage("a", "", "1 2 3"), Passage("b", "", "1")]
    with pytest.raises(
        PassageError, match=r"^only 1 of 2 different passages have 3 tokens or more \(1 are shorter\): ask for fewer"
    ):
        starting_states(numbers, passages, n=3, count=2)


@pytest.mark.parametrize(("name", "value"), [("n", 0), ("n", -1), ("n", 2.5), ("count", 0), ("count", -2)])
def test_bad_sizes(name: str, value: Any) -> None:
    with pytest.raises(ParameterError, match=f"^{name} = {value} is refused: give a whole number from 1$"):
        starting_states(numbers, [Passage("a", "", "1 2 3")], **{"n": 3, "count": 1, name: value})


def test_states_of_the_embedded_model_are_the_start_of_each_text(tiny: MaskedLM) -> None:
    starts = starting_states(tiny.text.encode, read_passages(), n=32, count=12)
    for state, text in zip(starts.states, starts.table["text"], strict=True):
        assert tiny.text.tokenizer.encode(text)[1:33] == state.tolist()


def test_models_start_from_passages_that_all_of_them_can_cut() -> None:
    def halves(text: str) -> tuple[list[int], int]:
        ids, dropped = numbers(text)
        return ids[::2], dropped

    passages = [Passage(name, "", text) for name, text in (("a", "1 2 3 4"), ("b", "5 6"), ("c", "7 8 9 x 10"))]
    one, two = common_states([numbers, halves], passages, 2, 2, max_dropped=0.2)
    assert one.table["id"].tolist() == two.table["id"].tolist() == ["a", "c"]
    assert one.states.tolist() == [[1, 2], [7, 8]]
    assert two.states.tolist() == [[1, 3], [7, 9]]
    assert one.too_short == two.too_short == 1  # b has two tokens for one of them only
    assert one.table["dropped"].tolist() == [0, 1]
    with pytest.raises(PassageError, match="only 2 of 3 different passages have 2 tokens or more"):
        common_states([numbers, halves], passages, 2, 3, max_dropped=0.2)
    assert starting_states(numbers, passages, 2, 3, max_dropped=0.2).table["id"].tolist() == ["a", "b", "c"]


def test_repeats_are_used_once_and_counted() -> None:
    """Twenty-four lines of two texts are two passages, not twenty-four."""
    passages = [Passage(str(k), "", ("1 2 3 4", "5 6 7")[k % 2]) for k in range(24)] + [Passage("x", "", "1 2 3 9")]
    starts = starting_states(numbers, passages, n=3, count=2)
    assert starts.states.tolist() == [[1, 2, 3], [5, 6, 7]]
    with pytest.raises(
        PassageError, match=r"only 2 of 3 different passages have 3 tokens or more \(0 are shorter, 23 repeat another\)"
    ):
        starting_states(numbers, passages, n=3, count=3)
    both = common_states([numbers, lambda text: (numbers(text)[0][::-1], 0)], passages, 3, 3)
    assert both[0].repeated == 22  # the last one begins alike for one model only
    assert "22 that began as one before were used once" in both[0].account()


CYRILLIC = "Глава государства выступил перед парламентом с речью"
PROTEIN = "MKTAYIAKQRQISFVKSHFSRQLEERLGLIEVQ"


def letters_spaced(text: str) -> tuple[list[int], int]:
    """A vocabulary of single capital letters, as of a protein model whose letters stand apart."""
    words = text.split()
    known = [word for word in words if len(word) == 1 and word.isupper()]
    return [ord(word) for word in known], len(words) - len(known)


@pytest.mark.parametrize(
    ("text", "remedy"),
    [
        (PROTEIN, "with spaces between their letters"),
        (PROTEIN.lower(), "in upper case with spaces between their letters"),
        (" ".join(PROTEIN.lower()), "in upper case"),
        ("... --- ...", "another model"),
    ],
)
def test_unknown_pieces_are_refused_with_their_cause(text: str, remedy: str) -> None:
    with pytest.raises(PassageError) as told:
        starting_states(letters_spaced, [Passage("a", "", text)], n=4, count=1)
    assert str(told.value).startswith(
        "100 % of the pieces of the first 1 passages are unknown to the model (such as in "
    )
    assert remedy in str(told.value) and "\n" not in str(told.value)


def test_unknown_pieces_of_a_real_tokenizer(tiny: MaskedLM) -> None:
    passages = [Passage(str(k), "", f"{CYRILLIC} {k}") for k in range(100)]
    taken = iter(passages)
    with pytest.raises(PassageError, match=r"% of the pieces of the first 20 passages are unknown .*'Глава'"):
        starting_states(tiny.text.encode, taken, n=4, count=50)
    assert len(list(taken)) == 80, "told as soon as it is sure"
    some = [Passage("a", "", "the head of state spoke to the парламент and to all who came to hear it there")]
    assert "5.9 % of their pieces are unknown" in starting_states(tiny.text.encode, some, n=8, count=1).account()
    with pytest.raises(PassageError, match="max_dropped allows 1 %"):
        starting_states(tiny.text.encode, some, n=8, count=1, max_dropped=0.01)


def test_nothing_dropped_is_said(tiny: MaskedLM) -> None:
    starts = starting_states(tiny.text.encode, read_passages(), n=16, count=4)
    assert (starts.repeated, starts.broken, starts.dropped) == (0, 0, 0.0)
    assert starts.account() == "4 passages, cut to 16 tokens; the model knows all of their pieces"


def test_models_that_read_alike_have_one_account(tiny: MaskedLM) -> None:
    one = starting_states(tiny.text.encode, read_passages(), n=16, count=4)
    assert account({"a": one, "b": one}) == one.account()
    other = starting_states(tiny.text.encode, read_passages(), n=16, count=5)
    assert account({"a": one, "b": other}) == f"For a: {one.account()}. For b: {other.account()}"
