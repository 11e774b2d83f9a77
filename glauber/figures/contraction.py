"""Figures of the contraction chapter. Whatever was searched for is drawn as what it is: a lower bound."""

import numpy as np
import pandas as pd
import seaborn as sns
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from .style import intervals, new_figure, palette

SEARCHED = {
    "uniform": "random tokens",
    "top": "the model's likeliest",
    "greedy": "greedy search",
    "all": "best of all searches",
}
# Norm and radius can be close: the later lines leave gaps.
CRITERION_LINES = {
    "row_sum": ("row sum", "-"),
    "column_sum": ("column sum", "-"),
    "norm": ("norm", "-"),
    "radius": ("radius", "--"),
}


def influence_map(influence: xr.Dataset, decay: pd.DataFrame, temperature: float) -> Figure:
    """The influence matrix found at one temperature, and its decay with the distance of the two positions.

    Parameters
    ----------
    influence : Dataset
        From `glauber.contraction.measure`; the map shows the largest value of any scheme.
    decay : DataFrame
        From `glauber.contraction.by_distance`.
    temperature : float
        One of the grid.
    """
    figure, (left, right) = new_figure(2, height=3.9)
    matrix = influence["max"].max("scheme").sel(temperature=temperature, method="nearest").to_numpy()
    image = left.imshow(np.where(np.eye(len(matrix), dtype=bool), np.nan, matrix), cmap="viridis", vmin=0)
    left.grid(False)
    left.set(xlabel="position $j$, token changed", ylabel="position $i$, law moved")
    figure.colorbar(image, ax=left, label=rf"largest TV found, $\leq c_{{ij}}$, $\tau$ = {temperature:.3g}", shrink=0.9)
    here = decay[np.isclose(decay["temperature"], temperature)]
    colours = palette(here["scheme"].unique())
    for scheme, rows in here.groupby("scheme", sort=False):
        name = str(scheme)
        right.plot(rows["distance"], rows["largest"], color=colours[name], marker="o", ms=4, label=SEARCHED[name])
        right.plot(rows["distance"], rows["mean"], color=colours[name], linestyle=":")
    right.plot([], [], color="0.3", marker="o", ms=4, label="largest (lower bound)")
    right.plot([], [], color="0.3", linestyle=":", label="mean over substitutions")
    right.set(xlabel="distance $|i - j|$ (tokens)", ylabel="total variation", yscale="log")
    right.legend(fontsize=8, loc="lower center", bbox_to_anchor=(0.45, 1.0))  # above: the curves fill the axes
    return figure


def criteria_curves(table: pd.DataFrame, last: float) -> Figure:
    """What the best search found of each criterion, and what each search found of one of them, against temperature.

    Parameters
    ----------
    table : DataFrame
        From `glauber.contraction.lower_bounds`.
    last : float
        Largest temperature of the grid at which the spectral radius found is 1 or more, so that no criterion holds; NaN draws
        none.
    """
    figure, (left, right) = new_figure(2, height=4.2)
    best = table[table["scheme"] == table["scheme"].iloc[-1]]
    colours = palette(CRITERION_LINES)
    for name, (label, line) in CRITERION_LINES.items():
        left.plot(best["temperature"], best[name], color=colours[name], linestyle=line, marker="o", ms=3, label=label)
    _mark(left, last, "all four ruled\n out")
    left.set(ylabel="lower bound, best of all searches")
    colours = palette(table["scheme"].unique())
    for scheme, rows in table.groupby("scheme", sort=False):
        name = str(scheme)
        right.plot(rows["temperature"], rows["column_sum"], color=colours[name], marker="o", ms=3, label=SEARCHED[name])
        if rows["mean"].notna().all():
            right.plot(rows["temperature"], rows["mean"], color=colours[name], linestyle=":")
    right.plot([], [], color="0.3", linestyle=":", label="mean of one token")
    right.set(ylabel="largest column sum found")
    for axes in (left, right):
        _level(axes)
        axes.set(xscale="log", yscale="log", xlabel=r"temperature $\tau$")
        _taus(axes, table["temperature"], 5)
        # Above: the curves fill the axes.
        axes.legend(fontsize=8, loc="lower center", bbox_to_anchor=(0.45, 1.0), ncol=2, columnspacing=1)
    return figure


def criteria_by_length(table: pd.DataFrame, temperature: float) -> Figure:
    """Growth with the number of free positions: each criterion at one temperature, and the radius at several.

    Parameters
    ----------
    table : DataFrame
        ``n``, ``temperature`` and lower bounds as from `glauber.contraction.lower_bounds`.
    temperature : float
        That of the left panel.
    """
    figure, (left, right) = new_figure(2, height=3.8)
    taus = sorted(table["temperature"].unique())
    here = table[np.isclose(table["temperature"], temperature)]
    colours = palette(CRITERION_LINES)
    for name, (label, line) in CRITERION_LINES.items():
        left.plot(here["n"], here[name], marker="o", ms=4, color=colours[name], linestyle=line, label=label)
    shades = dict(zip(taus, sns.color_palette("viridis", len(taus)).as_hex(), strict=True))
    for tau, rows in table.groupby("temperature"):
        right.plot(rows["n"], rows["radius"], marker="o", ms=4, color=shades[tau], label=rf"$\tau$ = {tau:.3g}")
    for axes, label in ((left, rf"lower bound, $\tau$ = {temperature:.3g}"), (right, "lower bound on the radius")):
        axes.set(xscale="log", xlabel="free positions $n$", ylabel=label, ylim=(0, None))
        axes.set_xticks(sorted(table["n"].unique()), [str(n) for n in sorted(table["n"].unique())])
        axes.minorticks_off()
        _level(axes)
        axes.legend(fontsize=8, loc="lower center", bbox_to_anchor=(0.5, 1.0), ncol=2)
    return figure


def two_sided(points: pd.DataFrame, bounds: pd.DataFrame, certified: float, last: float) -> Figure:
    """What is proved and what is measured on one axis of temperature.

    Parameters
    ----------
    points : DataFrame
        From `glauber.survival.medians`, by temperature, in steps; infinite above the budget.
    bounds : DataFrame
        ``temperature`` and ``steps``, the certified bound on the mixing time.
    certified : float
        Temperature above which it is finite; 0 if that is all of them.
    last : float
        Largest temperature of the grid at which the spectral radius found is 1 or more, NaN if none.
    """
    bounds = bounds[np.isfinite(bounds["steps"])]
    figure, (axes,) = new_figure(height=4.1)
    colours = palette(["measured", "proved", "sampled"])
    low = float(points["temperature"].min()) / 1.4
    high = float(pd.concat([bounds["temperature"], points["temperature"]]).max()) * 1.2
    certified = max(certified, low)
    if certified < high:  # else it lies beyond all that is drawn
        axes.axvspan(certified, high, color=colours["proved"], alpha=0.15, lw=0)
        axes.axvline(certified, color=colours["proved"], lw=1.2)
        axes.text(certified, 0.97, " proved above\n" r" $\tau_{\mathrm{cert}}(n)$", color=colours["proved"],
                  fontsize=9, va="top", transform=axes.get_xaxis_transform())  # fmt: skip
    axes.plot(bounds["temperature"], bounds["steps"], color=colours["proved"],
              label="proved: bound on the mixing time, from every start")  # fmt: skip
    met = points[np.isfinite(points["median"])]
    axes.plot(met["temperature"], met["median"], "o", ms=5, color=colours["measured"],
              label="measured: median meeting time of two texts, 95 % interval")  # fmt: skip
    # A limit that is not known is an arrow: up to the budget, or down to the fastest time seen.
    bottom = met["low"].replace(0, -np.inf)
    intervals(
        axes, met["temperature"], bottom, met["high"], colours["measured"], met["median"].min() / 1.5, met["budget"]
    )
    cut = points[~np.isfinite(points["median"])]
    axes.plot(cut["temperature"], cut["budget"], linestyle="", marker="^", mfc="none", ms=7, color=colours["measured"],
              label="median above the budget (censored)")  # fmt: skip
    for _, row in points[points["censored"] > 0].iterrows():
        axes.annotate(f"{row['censored']:.0%}", (row["temperature"], row["budget"]), (0, 6), ha="center", fontsize=8,
                      textcoords="offset points", color=colours["measured"])  # fmt: skip
    if np.isfinite(last):
        axes.axvline(last, color=colours["sampled"], lw=1.2, linestyle="--")
        axes.text(last, 0.9, "  largest $\\tau$ at which all\n  four criteria are ruled out",
                  color=colours["sampled"], fontsize=9, va="top", transform=axes.get_xaxis_transform())  # fmt: skip
    axes.set(xscale="log", yscale="log", xlim=(low, high), xlabel=r"temperature $\tau$", ylabel="steps")
    top = max(float(points["budget"].max()), float(bounds["steps"].max()) if len(bounds) else 0.0)
    axes.set_ylim(None, 30 * top)
    axes.legend(fontsize=8, loc="upper center", bbox_to_anchor=(0.5, -0.16), ncol=1)
    return figure


def _level(axes: Axes) -> None:
    axes.axhline(1, color="0.3", linestyle="--", linewidth=1)


def _mark(axes: Axes, tau: float, label: str) -> None:
    if np.isfinite(tau):
        axes.axvline(tau, color="0.3", linewidth=1, linestyle=":")
        axes.text(tau, 0.97, f" {label}, τ = {tau:.3g}", fontsize=9, color="0.3", va="top",
                  transform=axes.get_xaxis_transform())  # fmt: skip


def _taus(axes: Axes, taus: "pd.Series[float]", most: int) -> None:
    shown = sorted(taus.unique())[:: -(-taus.nunique() // most)]
    axes.set_xticks(shown, [f"{tau:.3g}" for tau in shown])
    axes.minorticks_off()
