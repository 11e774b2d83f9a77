"""Figures of the escape chapter."""

from collections.abc import Mapping

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from .style import literal, new_figure, palette

KINDS = ["passage", "random", "chain", "adversarial"]
FLOOR, CEILING = 1e-6, 1e6  # ratios beyond, 0 and infinity included, are drawn at the edge


def arrhenius_plot(summary: pd.DataFrame, labels: Mapping[int, str]) -> Figure:
    """Mean escape times against ``1 / tau``, beside the exact holding time and over the theorem's bound.

    A bound under one step is drawn at 1: nothing is left in less than a step.

    Parameters
    ----------
    summary : DataFrame
        From `glauber.escape.summarise`.
    labels : mapping
        Name of each trap; the others are not drawn.
    """
    figure, panels = new_figure(2, height=4.4)
    labels = {trap: literal(label) for trap, label in labels.items()}
    colours = palette(labels.values())
    drawn = summary[summary["trap"].isin(labels)]
    for axes, what in zip(panels, ("state", "basin"), strict=True):
        for trap, label in labels.items():
            rows = drawn[(drawn["trap"] == trap) & (drawn["what"] == what)].sort_values("temperature")
            x, seen, colour = 1 / rows["temperature"], rows["exits"] > 0, colours[label]
            estimate = rows[seen]
            errors = np.stack([estimate["mean"] - estimate["low"], estimate["high"] - estimate["mean"]])
            axes.errorbar(
                x[seen], estimate["mean"], yerr=errors, fmt="o", capsize=3, color=colour, label=label, markersize=4
            )
            # Partly censored: hollow. Without an exit only the lower end of the interval is known: an arrow up.
            partly = seen & (rows["exits"] < rows["replicas"])
            axes.plot(x[partly], rows["mean"][partly], "o", color=colour, markerfacecolor="white", markersize=6)
            axes.plot(x[~seen], rows["low"][~seen], "^", color=colour, markerfacecolor="white", markersize=6)
            if what == "state":
                axes.plot(x, rows["exact"], color=colour, linewidth=1.2)
            axes.plot(x, rows["bound"].clip(lower=1), color=colour, linewidth=1, linestyle=":")
        axes.set(yscale="log", xlabel=r"$1/\tau$", ylim=(0.7, None))
    panels[0].set(title="leaving the state (line: exact $1/q$)", ylabel="mean time (steps)")
    panels[1].set(title="leaving its basin")
    names = dict(zip(*reversed(panels[0].get_legend_handles_labels()), strict=True))
    figure.legend(list(names.values()), list(names), loc="outside lower center", ncol=2)
    return figure


def ratio_by_count(ratios: pd.DataFrame, low: int | None = None, high: int | None = None) -> Figure:
    """Ratio of up to down against the number of copies, one point per state.

    Every state of the table is drawn and counted in the legend. A ratio of 0 (nothing can go up), or one off the axis, is a hollow
    triangle at the edge.

    Parameters
    ----------
    ratios : DataFrame
        From `glauber.escape.profile`.
    low, high : int, optional
        The window ``low < N <= high``, shaded.
    """
    figure, (axes,) = new_figure(height=3.9)
    kinds = [kind for kind in KINDS if (ratios["kind"] == kind).any()]
    colours = palette(kinds)
    ratio = ratios["ratio"]
    floor = max(FLOOR, ratio[ratio > 0].min() / 3) if (ratio > 0).any() else FLOOR
    beyond = {"v": ratio < floor, "^": ratio > CEILING}
    for place, kind in enumerate(kinds):
        own = ratios["kind"] == kind
        at = ratios["N"] + 0.16 * (place - (len(kinds) - 1) / 2)
        for mark, where in {"o": ~beyond["v"] & ~beyond["^"], **beyond}.items():
            axes.plot(
                at[own & where], ratio[own & where].clip(floor, CEILING), linestyle="", marker=mark, color=colours[kind],
                markersize=3.5 if mark == "o" else 5, alpha=0.6, mfc=None if mark == "o" else "none",
                label=f"{kind} ({own.sum():,} states)" if mark == "o" else None,
            )  # fmt: skip
    for mark, name in (("v", "ratio 0, or below the axis"), ("^", "ratio above the axis, or infinite")):
        if beyond[mark].any():
            axes.plot([], [], linestyle="", marker=mark, mfc="none", color="0.3", label=name)
    smallest = ratios.groupby("N")["ratio"].min()
    smallest = smallest.where(smallest.between(floor, CEILING))  # no line to what lies off the axis
    axes.plot(smallest.index, smallest, color="0.3", linewidth=1, label="smallest found")
    axes.axhline(1, color="0.3", linestyle="--", linewidth=1)
    if low is not None and high is not None:
        axes.axvspan(low + 0.5, high + 0.5, color=palette(["window"])["window"], alpha=0.12, linewidth=0)
    axes.set(yscale="log", xlabel="copies of the token, $N(x)$", ylabel="P(up) / P(down)")
    figure.legend(loc="outside lower center", ncol=3)
    return figure
