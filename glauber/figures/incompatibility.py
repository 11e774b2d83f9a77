"""Figures of the incompatibility chapter."""

import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.figure import Figure

from .style import literal, new_figure, palette

SMALLEST = 1e-9  # nats; anything below, an exact 0 included, is drawn here


def discrepancy_distribution(series: dict[str, pd.Series], floor: float) -> Figure:
    """Distribution of ``|D|`` of several models on one logarithmic axis.

    Parameters
    ----------
    series : dict of Series
        ``D`` in nats by name of the model or run.
    floor : float
        Noise floor in nats, drawn as a line; one below `SMALLEST`, 0 included, is drawn there.
    """
    figure, (axes,) = new_figure(height=3.9)
    table = pd.concat(
        [pd.DataFrame({"size": np.log10(d.abs().clip(lower=SMALLEST)), "source": name}) for name, d in series.items()],
        ignore_index=True,
    )
    table["source"] = table["source"] + table["source"].map({n: f" ({len(d):,} rectangles)" for n, d in series.items()})
    table["source"] = table["source"].map(literal)
    colours = palette(table["source"].unique())
    sns.histplot(
        table, x="size", hue="source", stat="density", common_norm=False, element="step", bins=80, ax=axes,
        palette=colours, alpha=0.35,
    )  # fmt: skip
    line, label = np.log10(max(floor, SMALLEST)), " noise floor" if floor >= SMALLEST else " noise floor or less"
    axes.axvline(line, color="0.3", linestyle="--", linewidth=1)
    axes.text(line, 0.55 * axes.get_ylim()[1], label, ha="left", fontsize=9, color="0.3")
    low, high = int(np.floor(table["size"].min())), int(np.ceil(table["size"].max()))
    ticks = list(range(low, high + 1, max(1, (high - low) // 8)))
    first = np.log10(SMALLEST)
    labels = [rf"$\leq 10^{{{t}}}$" if t == first else f"$10^{{{t}}}$" for t in ticks]
    axes.set_xticks(ticks, labels)
    axes.set(xlabel="$|D|$ (nats)", ylabel="density per decade")
    sns.move_legend(axes, "lower left", title=None, bbox_to_anchor=(0, 1.0), ncol=1)
    return figure


def discrepancy_by_distance(table: pd.DataFrame) -> Figure:
    """Mean ``|D|`` against the distance of the two positions, with 95 % intervals over passages.

    Parameters
    ----------
    table : DataFrame
        ``distance``, ``mean |D|`` (nats) and ``scheme``, one row per passage, distance and scheme.
    """
    figure, (axes,) = new_figure()
    table = table.assign(distance=table["distance"].cat.remove_unused_categories())
    sns.pointplot(
        table, x="distance", y="mean |D|", hue="scheme", errorbar=("ci", 95), seed=0, dodge=0.3, ax=axes,
        palette=palette(table["scheme"].unique()), linewidth=1.5, markersize=5,
    )  # fmt: skip
    axes.set(xlabel="distance between the two positions (tokens)", ylabel="mean $|D|$ (nats)", ylim=(0, None))
    axes.legend(title="candidate tokens")
    return figure


def production_curve(table: pd.DataFrame, windows: pd.DataFrame) -> Figure:
    """Entropy production per step against temperature, and in windows along the chains.

    Parameters
    ----------
    table : DataFrame
        From `glauber.incompatibility.entropy_production`.
    windows : DataFrame
        From `glauber.incompatibility.production_windows`.
    """
    figure, (left, right) = new_figure(2, height=3.6)
    colours = palette([f"{t:g}" for t in table["temperature"]])
    errors = np.stack([table["sigma"] - table["low"], table["high"] - table["sigma"]])
    left.errorbar(table["temperature"], table["sigma"], yerr=errors, marker="o", capsize=3, color="0.3")
    left.set(xlabel=r"temperature $\tau$", ylabel=r"$\hat\sigma$ (nats per step)")
    left.set_xscale("log", base=2)
    left.set_xticks(table["temperature"], [f"{t:g}" for t in table["temperature"]])
    for tau, rows in windows.groupby("temperature"):
        errors = np.stack([rows["sigma"] - rows["low"], rows["high"] - rows["sigma"]])
        right.errorbar(
            (rows["first"] + rows["last"]) / 2, rows["sigma"], yerr=errors, marker="o", ms=4, capsize=2,
            color=colours[f"{tau:g}"], label=f"τ = {tau:g}",
        )  # fmt: skip
    right.set(
        xlabel="middle of the window (steps)", ylabel=r"$\hat\sigma$ in the window (nats per step)", xlim=(0, None)
    )
    right.legend(loc="upper center", bbox_to_anchor=(0.5, 1.22), ncol=2)
    for axes in (left, right):
        axes.axhline(0, color="0.3", linewidth=1, linestyle="--")
    return figure
