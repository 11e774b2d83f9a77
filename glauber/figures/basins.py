"""Figures of the landscape chapter."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import matplotlib as mpl
import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure
from numpy.typing import NDArray

from .style import WIDTH, literal, new_figure, palette

Array = NDArray[np.float64]
GREY = "#cccccc"


def calibration(reliability: pd.DataFrame, topic: str) -> Figure:
    """Observed share against the predicted probability of a topic, on texts that the score has not seen."""
    figure, (axes,) = new_figure(height=3.4)
    colour = palette(["ours"])["ours"]
    axes.plot([0, 1], [0, 1], color="0.4", lw=1, linestyle="--", label="calibrated")
    axes.plot(
        reliability["predicted"],
        reliability["observed"],
        "o",
        ms=5,
        color=colour,
        label="held-out texts, 95 % interval",
    )
    axes.vlines(reliability["predicted"], reliability["low"], reliability["high"], color=colour, lw=1.2)
    for _, row in reliability.iterrows():
        axes.annotate(
            f"{row['texts']:.0f}", (row["predicted"], row["observed"]), (6, -3), fontsize=8, textcoords="offset points"
        )
    axes.set(
        xlabel=f"predicted probability of {literal(topic)}",
        ylabel=f"observed share of {literal(topic)}",
        xlim=(-0.03, 1.06),
        ylim=(-0.03, 1.03),
    )
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
    axes.set_yticks(range(len(topics)), [literal(topic) for topic in topics])
    axes.get_yticklabels()[topics.index(marked)].set_fontweight("bold")
    axes.invert_yaxis()
    axes.grid(visible=False, axis="y")
    axes.set(xlabel="share of time (95 % interval)", xlim=(0, None))
    axes.legend(fontsize=8.5, loc="lower center", bbox_to_anchor=(0.45, 1.0), ncol=2)
    return figure


def recurrence(
    passages: pd.DataFrame, stays: Mapping[str, pd.DataFrame], sweep: int, topic: str, longest: int
) -> Figure:
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
    ordered = passages.sort_values("median", ascending=False)
    colour = palette(["ours"])["ours"]
    rows: Iterable[Any] = ordered.itertuples()
    for k, row in enumerate(rows):
        # A limit above the run is unknown: an arrow at its end. A median above it is an open triangle there.
        end = longest / sweep
        left.hlines(k, min(row.low / sweep, end), min(row.high / sweep, end), color=colour, lw=1.3)
        if np.isposinf(row.high):
            left.plot(end, k, marker=mpl.markers.CARETRIGHTBASE, color=colour, ms=6, clip_on=False)
        known = np.isfinite(row.median)
        left.plot(
            min(row.median, longest) / sweep,
            k,
            "o" if known else ">",
            mfc=colour if known else "none",
            color=colour,
            ms=5,
        )
        left.text(1.02, k, f"{row.reached * row.chains:.0f} of {row.chains}", va="center", fontsize=7.5,
                  transform=left.get_yaxis_transform())  # fmt: skip
    left.set_yticks(range(len(ordered)), [literal(origin) for origin in ordered["origin"]], fontsize=8)
    left.set_xscale("symlog", linthresh=1)  # a start may count as the topic already: time 0
    left.set(xlim=(-0.1, None), xlabel=f"median time to {literal(topic)} (sweeps)")
    left.set_title("reached", fontsize=8, loc="right")
    left.grid(visible=False, axis="y")
    names = list(stays)
    for name, tint in zip(names, sns.color_palette("viridis", len(names)), strict=True):
        curve = stays[name]
        if len(curve):
            time = np.r_[0.5 * sweep, curve["time"]] / sweep
            right.step(time, np.r_[1.0, curve["survival"]], where="post", color=tint, label=name)
            right.fill_between(
                curve["time"] / sweep, curve["low"], curve["high"], step="post", color=tint, alpha=0.2, lw=0
            )
    right.set(
        xscale="log",
        yscale="linear",
        xlabel="time since entry (sweeps)",
        ylabel=f"still on {literal(topic)}",
        ylim=(0, 1.02),
    )
    if any(len(curve) for curve in stays.values()):
        right.legend(fontsize=8)
    return figure


def landscape_map(
    passages: Array,
    topics: Sequence[str],
    chains: Array,
    times: Array,
    paths: Sequence[Array],
    abouts: Sequence[Sequence[str]],
    explained: Array,
) -> Figure:
    """Passages by topic over the density of chains, and a few paths by time and by topic, in the plane of two components.

    Parameters
    ----------
    passages : array, shape (passages, 2)
    topics : sequence of str
    chains : array, shape (records, 2)
        All records of all chains.
    times : array, shape (records of a path,)
        Sweeps.
    paths : sequence of array, shape (records of a path, 2)
    abouts : sequence of sequence of str
        Topic of each record of each path.
    explained : array
        Share of the variance by component.
    """
    figure, (left, middle, right) = new_figure(3, height=4.1)
    names = sorted(set(topics))
    colours = dict(zip(names, sns.color_palette("tab10", len(names)).as_hex(), strict=True))
    left.hexbin(chains[:, 0], chains[:, 1], gridsize=28, cmap="Greys", mincnt=1, bins="log", linewidths=0)
    for topic, colour in colours.items():
        here = np.array([t == topic for t in topics])
        left.plot(*passages[here].T, "o", ms=3, color=colour, mec="white", mew=0.3, label=literal(topic))
    norm = mpl.colors.Normalize(0, float(times[-1]))
    for path, about in zip(paths, abouts, strict=True):
        segments = list(np.stack([path[:-1], path[1:]], axis=1))
        middle.add_collection(LineCollection(segments, array=times[1:], cmap="viridis", norm=norm, lw=0.8, alpha=0.8))
        tints = [colours.get(name, GREY) for name in about]
        right.add_collection(LineCollection(segments, colors=GREY, lw=0.4, alpha=0.7))
        right.scatter(path[:, 0], path[:, 1], s=6, c=tints, linewidths=0, zorder=2)
        for axes in (middle, right):
            axes.plot(*path[0], "o", ms=5, color="black", mec="white", mew=0.7, zorder=3)
    for axes, title in (
        (left, "passages; density of chains"),
        (middle, f"{len(paths)} chains by time"),
        (right, "by topic"),
    ):
        axes.set(
            xlim=left.get_xlim(), ylim=left.get_ylim(), xticks=[], yticks=[], xlabel=f"component 1 ({explained[0]:.0%})"
        )
        axes.set_title(title, fontsize=9.5)
    left.set_ylabel(f"component 2 ({explained[1]:.0%} of variance)")
    figure.colorbar(mpl.cm.ScalarMappable(norm, "viridis"), ax=middle, location="bottom", label="sweeps", shrink=0.9)
    figure.legend(
        *left.get_legend_handles_labels(), fontsize=7.5, ncol=5, loc="outside lower center", handletextpad=0.1
    )
    return figure


def topic_paths(
    labels: Mapping[str, NDArray[np.int64]], classes: Sequence[str], times: Array, origins: Sequence[str], grey: str
) -> Figure:
    """The topic of every chain at every record, one panel per temperature, one row per chain.

    Parameters
    ----------
    labels : mapping of str to array (records, chains)
    classes : sequence of str
    times : array, shape (records,)
        Sweeps.
    origins : sequence of str
        Start topic of each chain; names the rows.
    grey : str
        Class that is drawn in grey.
    """
    tints = iter(sns.color_palette("tab10", len(classes)).as_hex())
    colours = [GREY if name == grey else next(tints) for name in classes]  # salad is grey, wherever it stands
    figure = Figure(figsize=(WIDTH, 1.1 + 1.75 * len(labels)), layout="constrained")
    panels = figure.subplots(len(labels), 1, sharex=True, squeeze=False)[:, 0]
    for axes, (title, values) in zip(panels, labels.items(), strict=True):
        axes.imshow(values.T, aspect="auto", cmap=mpl.colors.ListedColormap(colours), vmin=-0.5, vmax=len(classes) - 0.5,
                    interpolation="nearest", extent=(0, times[-1], len(origins) - 0.5, -0.5))  # fmt: skip
        axes.set_title(title, fontsize=9.5)
        first = [k for k, o in enumerate(origins) if k == 0 or origins[k - 1] != o]
        axes.set_yticks(first, [literal(origins[k]) for k in first], fontsize=6)
        axes.grid(False)
    panels[-1].set_xlabel("sweeps")
    handles = [mpl.patches.Patch(color=c, label=literal(name)) for c, name in zip(colours, classes, strict=True)]
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
        The table of `glauber.basins.time_scales`.
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
    shown = [literal(name) for name in names]
    sns.heatmap(
        pd.DataFrame(rates, shown, shown), ax=top, cmap="viridis", annot=np.where(counts > 0, np.char.mod("%d", counts), ""), fmt="",
        annot_kws={"fontsize": 6.5}, norm=mpl.colors.LogNorm(1e-3, 1), vmin=1e-3, vmax=1, square=False,
        cbar_kws={"label": f"probability to be there {lag} steps later"},
    )  # fmt: skip
    top.set(xlabel="to (numbers: moves counted)", ylabel="from")
    top.tick_params(axis="both", labelsize=7)
    _lag_test(figure.add_subplot(grid[1, 0]), scales)
    right = figure.add_subplot(grid[1, 1])
    right.plot(stable["clusters"], stable["rand"], "o-", ms=4)
    right.vlines(stable["clusters"], stable["low"], stable["high"], lw=1.2)
    right.set(
        xlabel="number of clusters",
        ylabel="adjusted Rand index",
        ylim=(min(0, *stable["low"], 0), 1.03),
    )
    return figure


def _lag_test(axes: Axes, scales: pd.DataFrame) -> None:
    known = scales.dropna(subset=["time_scale"])
    numbers = known[["lag", "time_scale", "low", "high"]].to_numpy(dtype=float)
    top = 2 * np.max(numbers, where=np.isfinite(numbers), initial=1.0)  # what is infinite is drawn there, open
    tints = sns.color_palette("viridis", 4)
    for k, (order, rows) in enumerate(known.groupby("order")):
        tint = tints[k % 4]
        value, low, high, lag = rows[["time_scale", "low", "high", "lag"]].to_numpy(dtype=float).T
        lag = lag * 1.05 ** (k - 1)  # side by side
        axes.plot(lag, np.minimum(value, top), "-", lw=1, color=tint, label=f"{order}.")
        axes.plot(lag[np.isfinite(value)], value[np.isfinite(value)], "o", ms=3.5, color=tint)
        axes.plot(lag[np.isinf(value)], np.full(np.isinf(value).sum(), top), "^", ms=5, mfc="none", color=tint)
        axes.vlines(lag, np.minimum(low, top), np.minimum(high, top), color=tint, lw=1.3)
        open_ended = np.isposinf(high)
        axes.plot(
            lag[open_ended], np.full(open_ended.sum(), top), ls="", marker=mpl.markers.CARETUPBASE, ms=6, color=tint
        )
    lags = np.array(sorted(scales["lag"].unique()), dtype=float)
    axes.fill_between(lags, 0, lags, color="0.85", lw=0, label="below the lag")
    axes.set(xlabel="lag (steps)", ylabel="implied time scale (steps)")
    if len(lags):  # without one there is nothing to draw, and a logarithmic axis has no limits
        axes.set(xscale="log", yscale="log")
        axes.set_ylim(lags[0] / 2, 1.6 * top)
    axes.set_xticks(lags, [f"{lag:g}" for lag in lags], fontsize=8)
    axes.minorticks_off()
    axes.legend(fontsize=7.5)
