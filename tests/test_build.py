"""What the book is built from: a notebook is repeated when what it is made of changes, and only then."""

import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
NAMES = [path.stem for path in NOTEBOOKS]
ROOMS = ["incompatibility", "contraction", "escape", "transition", "basins"]
sys.path.insert(0, str(ROOT / "notebooks"))
import inputs  # noqa: E402


def test_imports_are_followed(tmp_path: Path) -> None:
    room = tmp_path / "glauber" / "room"
    room.mkdir(parents=True)
    files = {
        "__init__.py": "",
        "alone.py": "",
        "deep.py": "import glauber.other.last",
        "room/__init__.py": "from ..ground import f as g, h",
        "room/part.py": "def late():\n    from . import near\n    from .. import deep",
        "room/near.py": "import glauber.room.part",
        "ground.py": "import numpy",
        "other/__init__.py": "",
        "other/last.py": "",
    }
    for name, text in files.items():
        (tmp_path / "glauber" / name).parent.mkdir(exist_ok=True)
        (tmp_path / "glauber" / name).write_text(text)
    found = inputs.modules("from glauber.room import part", tmp_path)
    assert {str(path.relative_to(tmp_path / "glauber")) for path in found} == set(files) - {"alone.py"}
    assert inputs.modules("import glauberish, numpy", tmp_path) == set()


@pytest.mark.parametrize("name", NAMES)
def test_chapters_do_not_depend_on_each_other(name: str) -> None:
    listed = inputs.inputs(ROOT / "notebooks" / f"{name}.ipynb", {}, ROOT)
    others = [room for room in ROOMS if room != name]
    assert not [path for path in listed if path.split("/")[1] in others]
    # `glauber.figures` itself imports the figures of incompatibility.
    drawn = {Path(path).stem for path in listed if path.startswith("glauber/figures/")} - {"incompatibility"}
    assert not drawn & set(others)


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the repository in which each notebook has just been executed, as far as times of files tell."""
    root = tmp_path_factory.mktemp("built")
    for name in ("glauber", "notebooks", "book", "benchmarks"):
        shutil.copytree(ROOT / name, root / name, ignore=shutil.ignore_patterns("__pycache__", ".ipynb_checkpoints"))
    for name in ("Snakefile", "_config.yml", "_toc.yml", "requirements.lock"):
        shutil.copy2(ROOT / name, root / name)
    (root / "data").symlink_to(ROOT / "data")
    (root / "build" / "book" / "notebooks").mkdir(parents=True)
    for name in NAMES:
        (root / "build" / "book" / "notebooks" / f"{name}.ipynb").touch()
    return root


@pytest.mark.parametrize(
    ("changed", "repeated"),
    [
        ("glauber/basins/visits.py", {"basins"}),
        ("glauber/player.html", {"basins"}),
        ("glauber/coupling/kinds.py", {"contraction", "transition"}),
        ("glauber/chain.py", set(NAMES)),
        ("notebooks/escape.ipynb", {"escape"}),
        ("benchmarks/results.csv", {"models", "speed"}),
    ],
)
def test_a_change_repeats_the_notebooks_it_touches(built: Path, changed: str, repeated: set[str]) -> None:
    path, now = built / changed, time.time()
    before = path.stat().st_mtime
    for name in NAMES:
        os.utime(built / "build" / "book" / "notebooks" / f"{name}.ipynb", (now, now))
    os.utime(path, (now + 2, now + 2))  # a clock of files may be coarse
    plan = subprocess.run(
        [sys.executable, "-m", "snakemake", "--dry-run", "--nolock", "--cores", "1", "--rerun-triggers", "mtime"],
        cwd=built, capture_output=True, text=True, check=True,
    )  # fmt: skip
    os.utime(path, (before, before))
    assert set(re.findall(r"output: build/book/notebooks/(\w+)\.ipynb", plan.stderr + plan.stdout)) == repeated
