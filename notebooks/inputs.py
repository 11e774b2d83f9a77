"""What a notebook is made of, so that a build repeats the notebooks that a change touches and no others. The Snakefile calls it."""

import ast
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import nbformat


def _files(name: str, root: Path) -> list[Path]:
    """Source of a module of this repository and of the packages it is in; nothing for other names."""
    parts, found = name.split("."), []
    for k in range(1, len(parts) + 1):
        path = root.joinpath(*parts[:k])
        found += [source for source in (path / "__init__.py", path.with_suffix(".py")) if source.is_file()]
    return found


def _imports(code: str, package: str = "") -> Iterator[str]:
    """Names that code imports, also inside functions; those after ``from`` may be modules and are named too."""
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = package.split(".")[: len(package.split(".")) - node.level + 1] if node.level else []
            origin = ".".join([*above, *([node.module] if node.module else [])])
            yield from (f"{origin}.{alias.name}" for alias in node.names)


def modules(code: str, root: Path) -> set[Path]:
    """Source files of ``glauber`` that code imports, directly or through others.

    Parameters
    ----------
    code : str
        Python source.
    root : Path
        Folder of the repository.
    """
    found: set[Path] = set()
    waiting = [source for name in _imports(code) if name.split(".")[0] == "glauber" for source in _files(name, root)]
    while waiting:
        path = waiting.pop()
        if path not in found:
            found.add(path)
            package = ".".join(path.parent.relative_to(root).parts)
            names = [name for name in _imports(path.read_text("utf-8"), package) if name.split(".")[0] == "glauber"]
            waiting += [source for name in names for source in _files(name, root)]
    return found


def inputs(notebook: Path, values: Mapping[str, object], root: Path) -> list[str]:
    """Files of the repository that a notebook is made of, besides data: modules, their pages of HTML, tables it is given.

    Parameters
    ----------
    notebook : Path
        The ``.ipynb``.
    values : mapping
        Parameters of the profile, which come before the notebook's own.
    root : Path
        Folder of the repository; the answer is relative to it.
    """
    cells: list[Any] = [cell for cell in nbformat.read(notebook, as_version=4).cells if cell.cell_type == "code"]
    found = modules("\n".join(cell.source for cell in cells), root)
    found |= {path.with_suffix(".html") for path in found if path.with_suffix(".html").is_file()}
    (own,) = [cell.source for cell in cells if "parameters" in cell.metadata.get("tags", [])]
    given = {s.targets[0].id: ast.literal_eval(s.value) for s in ast.parse(own).body if isinstance(s, ast.Assign)}  # type: ignore[attr-defined]
    found |= {root / v for v in {**given, **values}.values() if isinstance(v, str) and (root / v).is_file()}
    return sorted(str(path.relative_to(root)) for path in found)
