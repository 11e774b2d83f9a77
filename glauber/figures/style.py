"""The one visual style, readable on a light and on a dark page."""

from collections.abc import Iterable

import matplotlib as mpl
import numpy as np
import seaborn as sns
from IPython.core.getipython import get_ipython
from IPython.core.pylabtools import select_figure_formats
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import ArrayLike

WIDTH = 7.2  # inches; the text column of the book


def use_style() -> None:
    """Set the style of all later figures of this process; in a notebook, show Figures as PNG."""
    shell = get_ipython()
    if shell is not None:
        select_figure_formats(shell, {"png"})
    sns.set_theme(context="notebook", style="ticks", palette="colorblind")
    mpl.rcParams.update(
        {
            "figure.facecolor": "white",
            "savefig.facecolor": "white",
            "figure.dpi": 110,
            "savefig.dpi": 160,
            "axes.spines.top": False,
            "axes.spines.right": False,
            "axes.grid": True,
            "grid.alpha": 0.25,
            "legend.frameon": False,
            "font.size": 11,
            "axes.titlesize": 11,
            "axes.labelsize": 11,
            "legend.fontsize": 9.5,
        }
    )


def new_figure(columns: int = 1, height: float = 3.4) -> tuple[Figure, list[Axes]]:
    """A figure of the book's width with a row of axes."""
    figure = Figure(figsize=(WIDTH, height), layout="constrained")
    axes = figure.subplots(1, columns, squeeze=False)[0]
    return figure, list(axes)


def literal(text: object) -> str:
    """A name or a text as a label shows it: its dollar signs are no mathematics."""
    return str(text).replace("$", r"\$")


def palette(names: Iterable[str]) -> dict[str, str]:
    """One fixed colour per name, in order."""
    listed = list(names)
    return dict(zip(listed, sns.color_palette("colorblind", len(listed)).as_hex(), strict=True))


def intervals(
    axes: Axes, at: ArrayLike, low: ArrayLike, high: ArrayLike, colour: str, least: ArrayLike = np.nan,
    most: ArrayLike = np.nan,
) -> None:  # fmt: skip
    """Intervals as they are: a percentile interval need not contain its estimate, and one that is NaN is not drawn.

    A known limit has a cap. An infinite one is open: an arrow at ``least`` or ``most``, as far as is known.
    """
    place, bottom, top = (np.asarray(values, dtype=np.float64) for values in (at, low, high))
    down, up = np.isneginf(bottom), np.isposinf(top)
    bottom, top = np.where(down, least, bottom), np.where(up, most, top)
    axes.vlines(place, bottom, top, color=colour, lw=1.3)
    axes.plot(np.r_[place[~down], place[~up]], np.r_[bottom[~down], top[~up]], "_", ms=6, color=colour)
    for mark, where, end in (("v", down, bottom), ("^", up, top)):
        axes.plot(place[where], end[where], linestyle="", marker=mark, ms=4, color=colour)
