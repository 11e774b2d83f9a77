"""Figures of the landscape chapter."""

from collections.abc import Mapping, Sequence

import matplotlib as mpl
import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure
from numpy.typing import NDArray

from .style import WIDTH, new_figure, palette

Array = NDArray[np.float64]


def calibration(reliability: pd.DataFrame, topic: str) -> Figure:
    """Observed share against the predicted probability of a topic, on texts that the score has not seen."""
    figure, (axes,) = new_figure(height=3.4)
    colour = palette(["ours"])["ours"]
    axes.plot([0, 1], [0, 1], color="0.4", lw=1, linestyle="--", label="calibrated")
    axes.plot(reliability["predicted"], reliability["observed"], "o", ms=5, color=colour, label="held-out texts, 95 % interval")
    axes.vlines(reliability["predicted"], reliability["low"], reliability["high"], color=colour, lw=1.2)
    for _, row in reliability.iterrows():
        axes.annotate(f"{row['texts']:.0f}", (row["predicted"], row["observed"]), (6, -3), fontsize=8, textcoords="offset points")
    axes.set(xlabel=f"predicted probability of {topic}", ylabel=f"observed share of {topic}", xlim=(-0.03, 1.06), ylim=(-0.03, 1.03))
    axes.legend(fontsize=8.5, title="numbers: texts in the bin", title_fontsize=8.5)
    return figure


def topic_shares(shares: pd.DataFrame, marked: str) -> Figure:
    """Share of time on each topic, the chains beside the two nulls.

    Parameters
    ----------
    shares : DataFrame
        ``topic``, ``source``, ``share``, ``low``, ``high``; sources in order of drawing.
    marked : str
        Topic to be set off.
    """
    sources, topics = list(shares["source"].unique()), list(shares["topic"].unique())
    figure, (axes,) = new_figure(height=0.9 + 0.14 * len(topics) * max(len(sources), 2))
    colours = palette(sources)
    height = 0.8 / len(sources)
    for k, source in enumerate(sources):
        rows = shares[shares["source"] == source].set_index("topic").loc[topics]
        at = np.arange(len(topics)) + (k - (len(sources) - 1) / 2) * height
        axes.barh(at, rows["share"], height, color=colours[source], label=source)
        axes.hlines(at, rows["low"], rows["high"], color="0.15", lw=1)
    axes.set_yticks(range(len(topics)), topics)
    axes.get_yticklabels()[topics.index(marked)].set_fontweight("bold")
    axes.invert_yaxis()
    axes.grid(visible=False, axis="y")
    axes.set(xlabel="share of time (95 % interval)", xlim=(0, None))
    axes.legend(fontsize=8.5, loc="lower center", bbox_to_anchor=(0.45, 1.0), ncol=2)
    return figure


def recurrence(passages: pd.DataFrame, stays: Mapping[str, pd.DataFrame], sweep: int, topic: str, longest: int) -> Figure:
    """First passage to a topic by start, and how long a stay lasts.

    Parameters
    ----------
    passages : DataFrame
        From `glauber.basins.first_passage`.
    stays : mapping of str to DataFrame
        Name of a curve to `glauber.basins.staying`.
    sweep : int
        Steps of a sweep.
    topic : str
    longest : int
        Steps of the run.
    """
    figure, (left, right) = new_figure(2, height=3.7)
    ordered = passages.sort_values("reached")
    colour = palette(["ours"])["ours"]
    left.barh(ordered["origin"], ordered["reached"], color=colour)
    for k, row in enumerate(ordered.itertuples()):
        median = f"median {row.median / sweep:.0f} sweeps" if np.isfinite(row.median) else f"median over {longest / sweep:.0f} sweeps"
        left.text(0.02, k, median, va="center", fontsize=7.5, color="0.05",
                  bbox={"facecolor": "white", "alpha": 0.7, "lw": 0, "pad": 0.8})  # fmt: skip
    left.set(xlabel=f"share of chains that reach {topic}", xlim=(0, 1.02))
    left.grid(visible=False, axis="y")
    names = list(stays)
    for name, tint in zip(names, sns.color_palette("viridis", len(names)), strict=True):
        curve = stays[name]
        if len(curve):
            time = np.r_[0.5 * sweep, curve["time"]] / sweep
            right.step(time, np.r_[1.0, curve["survival"]], where="post", color=tint, label=name)
            right.fill_between(curve["time"] / sweep, curve["low"], curve["high"], step="post", color=tint, alpha=0.2, lw=0)
    right.set(xscale="log", yscale="linear", xlabel="time since entry (sweeps)", ylabel=f"still on {topic}", ylim=(0, 1.02))
    if any(len(curve) for curve in stays.values()):
        right.legend(fontsize=8)
    return figure


def landscape_map(
    passages: Array, topics: Sequence[str], chains: Array, times: Array, paths: Sequence[Array], explained: Array
) -> Figure:
    """Passages by topic, the density of chains, and some paths coloured by time, in the plane of two components.

    Parameters
    ----------
    passages : array, shape (passages, 2)
    topics : sequence of str
    chains : array, shape (records, 2)
        All records of all chains.
    times : array, shape (records of a path,)
        Sweeps.
    paths : sequence of array, shape (records of a path, 2)
    explained : array
        Share of the variance by component.
    """
    figure, (left, right) = new_figure(2, height=4.9)
    colours = dict(zip(sorted(set(topics)), sns.color_palette("tab10", len(set(topics))).as_hex(), strict=True))
    left.hexbin(chains[:, 0], chains[:, 1], gridsize=32, cmap="Greys", mincnt=1, bins="log", linewidths=0)
    for topic, colour in colours.items():
        here = np.array([t == topic for t in topics])
        left.plot(*passages[here].T, "o", ms=3.5, color=colour, mec="white", mew=0.4, label=topic)
    left.set_title("passages by topic, chains as density", fontsize=9.5)
    left.legend(fontsize=7, ncol=3, loc="upper center", bbox_to_anchor=(0.5, -0.17), handletextpad=0.1, columnspacing=0.7)
    norm = mpl.colors.Normalize(0, float(times[-1]))
    for path in paths:
        segments = np.stack([path[:-1], path[1:]], axis=1)
        lines = LineCollection(list(segments), array=times[1:], cmap="viridis", norm=norm, lw=0.7, alpha=0.7)
        right.add_collection(lines)
        right.plot(*path[0], "o", ms=5, color="#d55e00", mec="white", mew=0.6)
    right.set(xlim=left.get_xlim(), ylim=left.get_ylim())
    right.set_title(f"{len(paths)} chains, from their starts (dots)", fontsize=9.5)
    figure.colorbar(mpl.cm.ScalarMappable(norm, "viridis"), ax=right, location="bottom", label="sweeps", shrink=0.8)
    for axes in (left, right):
        axes.set(xlabel=f"component 1 ({explained[0]:.0%} of variance)", ylabel=f"component 2 ({explained[1]:.0%})")
        axes.set_xticks([])
        axes.set_yticks([])
    return figure


def topic_paths(labels: Mapping[str, NDArray[np.int64]], classes: Sequence[str], times: Array, origins: Sequence[str]) -> Figure:
    """The topic of every chain at every record, one panel per temperature, one row per chain.

    Parameters
    ----------
    labels : mapping of str to array (records, chains)
    classes : sequence of str
    times : array, shape (records,)
        Sweeps.
    origins : sequence of str
        Start topic of each chain; names the rows.
    """
    colours = [*sns.color_palette("tab10", len(classes) - 1).as_hex(), "#dddddd"]
    figure = Figure(figsize=(WIDTH, 1.1 + 1.75 * len(labels)), layout="constrained")
    panels = figure.subplots(len(labels), 1, sharex=True, squeeze=False)[:, 0]
    for axes, (title, values) in zip(panels, labels.items(), strict=True):
        axes.imshow(values.T, aspect="auto", cmap=mpl.colors.ListedColormap(colours), vmin=-0.5, vmax=len(classes) - 0.5,
                    interpolation="nearest", extent=(0, times[-1], len(origins) - 0.5, -0.5))  # fmt: skip
        axes.set_title(title, fontsize=9.5)
        first = [k for k, o in enumerate(origins) if k == 0 or origins[k - 1] != o]
        axes.set_yticks(first, [origins[k] for k in first], fontsize=6)
        axes.grid(False)
    panels[-1].set_xlabel("sweeps")
    handles = [mpl.patches.Patch(color=c, label=name) for c, name in zip(colours, classes, strict=True)]
    figure.legend(handles=handles, fontsize=7.5, ncol=6, loc="outside lower center")
    return figure


def basin_moves(counts: Array, names: Sequence[str], scales: pd.DataFrame, stable: pd.DataFrame, lag: int) -> Figure:
    """Moves between clusters, the lag test of the Markov model, and how stable the clusters are.

    Parameters
    ----------
    counts : array, shape (clusters, clusters)
        From `glauber.basins.transition_counts`.
    names : sequence of str
    scales : DataFrame
        From `glauber.basins.time_scales`.
    stable : DataFrame
        From `glauber.basins.stability`.
    lag : int
        Steps, of the counts.
    """
    figure = Figure(figsize=(WIDTH, 7.4), layout="constrained")
    grid = figure.add_gridspec(2, 2, height_ratios=[1.7, 1])
    top = figure.add_subplot(grid[0, :])
    total = counts.sum(axis=1, keepdims=True)
    rates = np.divide(counts, total, out=np.full_like(counts, np.nan), where=total > 0)
    sns.heatmap(
        pd.DataFrame(rates, names, names), ax=top, cmap="viridis", annot=np.where(counts > 0, np.char.mod("%d", counts), ""), fmt="",
        annot_kws={"fontsize": 6.5}, norm=mpl.colors.LogNorm(1e-3, 1), square=False,
        cbar_kws={"label": f"probability to be there {lag} steps later"},
    )  # fmt: skip
    top.set(xlabel="to (numbers: moves counted)", ylabel="from")
    top.tick_params(axis="both", labelsize=7)
    _lag_test(figure.add_subplot(grid[1, 0]), scales)
    right = figure.add_subplot(grid[1, 1])
    right.plot(stable["clusters"], stable["rand"], "o-", ms=4)
    right.vlines(stable["clusters"], stable["low"], stable["high"], lw=1.2)
    right.set(xlabel="number of clusters", ylabel="adjusted Rand, two halves", ylim=(0, 1.03))
    return figure


def _lag_test(axes: Axes, scales: pd.DataFrame) -> None:
    known = scales.dropna(subset=["time_scale"])
    for (order, rows), tint in zip(known.groupby("order"), sns.color_palette("viridis", 4), strict=False):
        axes.plot(rows["lag"], rows["time_scale"], "o-", ms=3.5, color=tint, label=f"{order}.")
        axes.fill_between(rows["lag"], rows["low"], rows["high"], color=tint, alpha=0.2, lw=0)
    lags = np.array(sorted(scales["lag"].unique()), dtype=float)
    axes.fill_between(lags, 0, lags, color="0.85", lw=0, label="below the lag")
    axes.set(xscale="log", yscale="log", xlabel="lag (steps)", ylabel="implied time scale (steps)")
    axes.set_ylim(lags[0] / 2, None)
    axes.legend(fontsize=7.5)
