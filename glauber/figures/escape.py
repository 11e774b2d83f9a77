"""Figures of the escape chapter."""

from collections.abc import Mapping

import networkx as nx
import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from .style import new_figure, palette

KINDS = ["passage", "random", "chain", "adversarial"]
CEILING = 1e6  # ratios above, infinite ones included, are drawn here


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
    labels = {trap: label.replace("$", r"\$") for trap, label in labels.items()}  # no mathematics in a text
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
    for place, kind in enumerate(kinds):
        rows = ratios[(ratios["kind"] == kind) & (ratios["ratio"] > 0)]
        shift = 0.16 * (place - (len(kinds) - 1) / 2)
        axes.plot(
            rows["N"] + shift, rows["ratio"].clip(upper=CEILING), "o", markersize=3.5, alpha=0.6, color=colours[kind],
            label=f"{kind} ({len(rows):,} states)",
        )  # fmt: skip
    smallest = ratios[ratios["ratio"] > 0].groupby("N")["ratio"].min().clip(upper=CEILING)
    axes.plot(smallest.index, smallest, color="0.3", linewidth=1, label="smallest found")
    axes.axhline(1, color="0.3", linestyle="--", linewidth=1)
    if low is not None and high is not None:
        axes.axvspan(low + 0.5, high + 0.5, color=palette(["window"])["window"], alpha=0.12, linewidth=0)
    axes.set(yscale="log", xlabel="copies of the token, $N(x)$", ylabel="P(up) / P(down)")
    figure.legend(loc="outside lower center", ncol=3)
    return figure


def _side_by_side(graph: nx.Graph, seed: int) -> dict[int, tuple[float, float]]:
    """Positions of the nodes: connected parts beside each other, the largest first, each as wide as it has nodes."""
    place: dict[int, tuple[float, float]] = {}
    left = 0.0
    for part in sorted(nx.connected_components(graph), key=len, reverse=True):
        inner = nx.spring_layout(graph.subgraph(part), seed=seed, k=2.0, iterations=300)
        half = np.sqrt(len(part)) if len(part) > 1 else 0.35
        place |= {v: (left + half * (1 + x), half * y) for v, (x, y) in inner.items()}
        left += 2 * half + 0.7
    return place


def trap_graph(graph: nx.DiGraph, labels: Mapping[int, str], seed: int = 0) -> Figure:
    """Traps and the escapes between them: nodes by log holding time, edges by count.

    Parameters
    ----------
    graph : DiGraph
        From `glauber.escape.follow`.
    labels : mapping
        What to write at a node; the others get their number.
    seed : int
        Of the layout.
    """
    figure, (axes,) = new_figure(height=5.4)
    place = _side_by_side(nx.Graph(graph), seed % 2**32)  # networkx takes no larger seed
    colour = palette(["start", "met"])
    depth = np.array([graph.nodes[v]["depth"] for v in graph])
    size = 40 + 60 * np.log10(np.clip(depth, 1, 1e12))
    for started, name in ((True, "start"), (False, "met")):
        nodes = [v for v in graph if graph.nodes[v]["start"] == started]
        if nodes:
            nx.draw_networkx_nodes(
                graph, place, nodelist=nodes, node_size=[size[v] for v in nodes], node_color=colour[name], ax=axes,
                alpha=0.8, label="trap where chains began" if started else "met on the way",
            )  # fmt: skip
    counts = np.array([edge["count"] for _, _, edge in graph.edges(data=True)], dtype=np.float64)
    if len(counts):
        nx.draw_networkx_edges(
            graph, place, node_size=size.tolist(), width=(0.5 + 3 * np.sqrt(counts / counts.max())).tolist(), alpha=0.5,
            arrowsize=9, connectionstyle="arc3,rad=0.12", ax=axes,
        )  # fmt: skip
    shown = {v: labels.get(v, str(v)) for v in graph}
    box = {"facecolor": "white", "edgecolor": "none", "alpha": 0.7, "pad": 0.6}
    nx.draw_networkx_labels(graph, place, labels=shown, font_size=8, bbox=box, ax=axes)
    axes.margins(0.12)
    axes.set_axis_off()
    axes.legend(loc="upper left", bbox_to_anchor=(0, 1.08), ncol=2, markerscale=0.5)
    return figure
