"""The packaged sentence model, its cache, and every way in which loading one can fail."""

import sqlite3
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sentence_transformers.sentence_transformer.modules import Pooling
from tokenizers.normalizers import BertNormalizer

from glauber import embeddings
from glauber.embeddings import Embedder, cosine_distance, load_embedder
from glauber.errors import EmbeddingError, GlauberError

TEXTS = ["a cat sat on the mat", "the minister lost the vote", "a cat sat on the mat"]


@pytest.fixture(scope="module")
def embedder() -> Embedder:
    return load_embedder(device="cpu", cache=None)


def count_calls(embedder: Embedder, monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    asked: list[list[str]] = []
    real = embedder.network.encode

    def encode(texts: Sequence[str], **options: Any) -> Any:
        asked.append(list(texts))
        return real(texts, **options)

    monkeypatch.setattr(embedder.network, "encode", encode)
    return asked


def test_unit_vectors_equal_texts_once(embedder: Embedder, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = count_calls(embedder, monkeypatch)
    vectors = embedder(TEXTS)
    assert vectors.shape == (3, embedder.dimension) == (3, 384)
    assert np.allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-5)
    assert np.array_equal(vectors[0], vectors[2])
    assert asked == [TEXTS[:2]]
    assert embedder([]).shape == (0, 384)


def test_distance_tells_meaning_apart(embedder: Embedder) -> None:
    first, second, third = embedder(["a cat sat on the mat", "a kitten lay on a rug", "the minister lost the vote"])
    assert cosine_distance(first, second) < cosine_distance(first, third)
    assert cosine_distance(first, first) == pytest.approx(0, abs=1e-6)
    assert cosine_distance(first, -first) == pytest.approx(2, abs=1e-6)


def test_cache_holds_by_content_and_weights(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = load_embedder(device="cpu", cache=tmp_path)
    vectors = first(TEXTS)
    again = load_embedder(device="cpu", cache=tmp_path)
    asked = count_calls(again, monkeypatch)
    assert np.array_equal(again([*TEXTS, "new"])[:3], vectors)
    assert asked == [["new"]]
    with torch.no_grad():
        next(again.network.parameters()).mul_(1.5)
    again(TEXTS[:1])
    assert asked[1:] == [TEXTS[:1]]


def test_a_network_that_is_changed_later_finds_no_vectors_of_before(tmp_path: Path) -> None:
    embedder = load_embedder(device="cpu", cache=tmp_path)
    text = "a cat sat on the mat and on the rug and on the floor"
    before = embedder([text])
    pooling: Any = embedder.network[1]
    pooling.pooling_mode = "cls"
    changed = embedder([text, "new"])
    assert np.abs(changed[0] - before[0]).max() > 0.05
    fresh = load_embedder(device="cpu", cache=tmp_path)
    assert np.array_equal(fresh([text]), before)
    assert np.allclose(fresh(["new"]), load_embedder(device="cpu", cache=None)(["new"]), atol=1e-6)
    fresh.network.max_seq_length = 8
    with pytest.raises(EmbeddingError, match="pieces and embedder 'default' reads 8"):
        fresh([text])  # known or not


def test_a_damaged_cache_is_one_sentence(tmp_path: Path) -> None:
    embedder = load_embedder(device="cpu", cache=tmp_path)
    embedder(TEXTS)
    with sqlite3.connect(tmp_path / "embeddings.sqlite") as base:
        base.execute("UPDATE vectors SET vector = ?", (b"x" * 100,))
    with pytest.raises(EmbeddingError, match="vectors of another length than 384"):
        embedder(TEXTS)
    with sqlite3.connect(tmp_path / "embeddings.sqlite") as base:
        base.execute("UPDATE vectors SET vector = ?", (b"x" * 7,))
    with pytest.raises(EmbeddingError, match=r"is damaged \(buffer size"):
        embedder(TEXTS)
    with sqlite3.connect(tmp_path / "embeddings.sqlite") as base:
        base.execute("DROP TABLE vectors")
    with pytest.raises(EmbeddingError, match=r"is damaged \(no such table"):
        embedder(TEXTS)
    odd: list[Any] = ["abc", [None], [b"a"]]
    for texts in odd:
        with pytest.raises(EmbeddingError, match="give a list of texts"):
            embedder(texts)
    with pytest.raises(EmbeddingError, match="cache is empty"):
        load_embedder(device="cpu", cache="")


def variants(folder: Path) -> dict[str, Path]:
    """One encoder saved with other settings: its weights are the same in all."""
    made = {}
    for name in ("mean", "cls", "query", "limit", "cased", "short"):
        network = load_embedder(device="cpu", cache=None).network
        if name == "cls":
            network[1] = Pooling(384, pooling_mode="cls")
        elif name == "query":
            network.prompts, network.default_prompt_name = {"query": "search for this: "}, "query"
        elif name == "limit":
            network.max_seq_length = 32
        elif name == "cased":
            network.tokenizer.backend_tokenizer.normalizer = BertNormalizer(lowercase=False)
        elif name == "short":
            network.truncate_dim = 100
        made[name] = folder / name
        network.save(str(made[name]))
    return made


def test_one_cache_serves_models_that_differ_in_settings_alone(tmp_path: Path) -> None:
    texts = ["A Cat sat on the mat", "the minister lost the vote"]
    made = variants(tmp_path)
    loaded = {name: load_embedder(str(folder), device="cpu", cache=tmp_path) for name, folder in made.items()}
    loaded["short"].network.truncate_dim = 100  # no part of a saved model
    assert len({embedder.identity().split()[0] for embedder in loaded.values()}) == 1
    assert len({embedder.identity() for embedder in loaded.values()}) == len(loaded)
    kept = {name: embedder(texts) for name, embedder in loaded.items()}
    for name, vectors in kept.items():
        fresh = load_embedder(str(made[name]), device="cpu", cache=None)
        fresh.network.truncate_dim = loaded[name].network.truncate_dim
        assert np.allclose(vectors, fresh(texts), atol=1e-6), name
    assert not np.allclose(kept["mean"], kept["cls"], atol=1e-2)
    assert not np.allclose(kept["mean"], kept["query"], atol=1e-2)
    again = load_embedder(str(made["cls"]), device="cpu", cache=tmp_path)
    assert again.identity() == loaded["cls"].identity(), "a model loaded again finds its vectors"


def test_the_prompt_takes_its_share_of_the_length(embedder: Embedder) -> None:
    network = load_embedder(device="cpu", cache=None).network
    network.max_seq_length = 32
    plain = Embedder(network, "planted")
    text = "word " * 26  # 28 pieces with the two special ones
    assert plain([text]).shape == (1, 384)
    network.prompts, network.default_prompt_name = {"query": "search for this text in all : "}, "query"
    with pytest.raises(EmbeddingError, match=r"has 35 pieces with its prompt 'search .* reads 32"):
        Embedder(network, "planted")([text])


def test_cache_folder_follows_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GLAUBER_CACHE", str(tmp_path))
    load_embedder(device="cpu")(TEXTS)
    assert (tmp_path / "embeddings.sqlite").is_file()
    monkeypatch.delenv("GLAUBER_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert embeddings.cache_folder() == tmp_path / "glauber"


def test_cache_that_cannot_be_used_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a folder")
    with pytest.raises(EmbeddingError, match=r"cache .* cannot be used"):
        load_embedder(device="cpu", cache=tmp_path / "file")
    (tmp_path / "embeddings.sqlite").write_text("not a data base" * 100)
    with pytest.raises(EmbeddingError, match=r"cache .* cannot be used"):
        load_embedder(device="cpu", cache=tmp_path)


def test_failing_write_is_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = embeddings._Store(tmp_path)

    class Full:
        def executemany(self, *_: object) -> None:
            raise sqlite3.OperationalError("database or disk is full")

        def __enter__(self) -> "Full":
            return self

        def __exit__(self, *_: object) -> None: ...

        def close(self) -> None: ...

    monkeypatch.setattr(store, "_open", Full)
    with pytest.raises(EmbeddingError, match="disk is full"):
        store.put({b"k": np.zeros(3, np.float32)})


def test_long_text_is_refused_and_not_cut(embedder: Embedder) -> None:
    with pytest.raises(EmbeddingError, match=r"has 402 pieces and embedder 'default' reads 256"):
        embedder(["word " * 400])
    assert embedder(["a" * 300]).shape == (1, 384)  # many letters, few pieces


def test_weights_are_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(embeddings, "SHA256", "0" * 64)
    with pytest.raises(EmbeddingError, match="not the official"):
        load_embedder(device="cpu")


@pytest.mark.parametrize("name", ["nowhere", "a/b", "./x", "", "x/y/z"])
def test_what_is_not_there(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("glauber.hub.answers", lambda: False)
    with pytest.raises(EmbeddingError, match="check the"):
        load_embedder(name, device="cpu")


def test_folder_without_a_sentence_model(tmp_path: Path, checkpoints: dict[str, Path]) -> None:
    """An encoder alone would be given a pooling that nobody chose."""
    for folder in (tmp_path, checkpoints["bert"]):
        with pytest.raises(EmbeddingError, match=r"modules\.json"):
            load_embedder(str(folder), device="cpu")


def test_own_folder_and_damaged_folder(tmp_path: Path, embedder: Embedder) -> None:
    embedder.network.save(str(tmp_path / "mine"))
    mine = load_embedder(str(tmp_path / "mine"), device="cpu", cache=None)
    assert np.allclose(mine(TEXTS), embedder(TEXTS), atol=1e-6)
    weights = tmp_path / "mine" / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:1000])
    with pytest.raises(EmbeddingError, match="cannot be loaded"):
        load_embedder(str(tmp_path / "mine"), device="cpu")


def test_code_of_a_model_is_not_run_unasked(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[bool] = []

    def network(path: str, device: str, trust_remote_code: bool) -> None:
        seen.append(trust_remote_code)
        raise ValueError("The repository contains custom code. Please pass the argument `trust_remote_code=True`.")

    monkeypatch.setattr(embeddings, "SentenceTransformer", network)
    monkeypatch.setattr("glauber.hub.answers", lambda: True)
    monkeypatch.setattr(embeddings, "is_sentence_transformer_model", lambda name: True)
    with pytest.raises(GlauberError, match=r"only with trust_remote_code=True"):
        load_embedder("jinaai/jina-embeddings-v2-base-en", device="cpu")
    assert seen == [False]
