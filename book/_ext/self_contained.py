"""Keep the site self-contained: MathJax served from the site itself, and no script that would load from elsewhere."""

import importlib.metadata
import shutil
from pathlib import Path
from typing import Any

SCRIPT = "tex-svg-full.js"
DISTRIBUTION = "sphinx-mathjax-offline"


def copy_script(app: Any, error: Exception | None) -> None:
    """Put the one-file MathJax build beside the other static files."""
    if error is None and app.builder.format == "html":
        files = importlib.metadata.files(DISTRIBUTION) or []
        source = next(file for file in files if file.name == SCRIPT)
        shutil.copyfile(str(source.locate()), Path(app.outdir) / "_static" / SCRIPT)


def drop_thebe(app: Any, page: str, template: str, context: dict[str, Any], doctree: Any) -> None:
    """Take out the scripts of sphinx-thebe.

    Jupyter Book always loads that extension; it would fetch a library from another host, and it declares its constants
    twice, which is a script error on every page.
    """
    scripts = context.get("script_files", [])
    kept = [s for s in scripts if "thebe" not in f"{getattr(s, 'filename', s)} {getattr(s, 'attributes', '')}".lower()]
    context["script_files"] = kept


def setup(app: Any) -> dict[str, bool]:
    """Register with Sphinx."""
    app.config.mathjax_path = SCRIPT
    app.connect("build-finished", copy_script)
    # After sphinx-thebe has had its turn.
    app.connect("html-page-context", drop_thebe, priority=900)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
