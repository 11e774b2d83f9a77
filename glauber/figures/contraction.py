"""Figures of the contraction chapter. Whatever was searched for is drawn as what it is: a lower bound."""

import numpy as np
import pandas as pd
import seaborn as sns
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from .style import new_figure, palette

SEARCHED = {
    "uniform": "random tokens",
    "top": "the model's likeliest",
    "greedy": "greedy search",
    "all": "best of all searches",
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


def alpha_curves(table: pd.DataFrame, last: float) -> Figure:
    """The ``alpha`` found by each search, and the mean influence, against temperature.

    Parameters
    ----------
    table : DataFrame
        From `glauber.contraction.alpha`.
    last : float
        Largest temperature of the grid at which the best search found 1 or more; NaN draws none.
    """
    figure, (axes,) = new_figure(height=3.9)
    colours = palette(table["scheme"].unique())
    for scheme, rows in table.groupby("scheme", sort=False):
        name = str(scheme)
        best = name == "all"
        label = f"{SEARCHED[name]}: lower bound on $\\alpha$"
        axes.plot(rows["temperature"], rows["columns"], color=colours[name], marker="o", ms=4, lw=2 if best else 1.2,
                  label=label)  # fmt: skip
        if rows["mean"].notna().all():
            axes.plot(rows["temperature"], rows["mean"], color=colours[name], linestyle=":",
                      label=f"{SEARCHED[name]}: mean influence")  # fmt: skip
    _level(axes)
    _mark(axes, last, "largest $\\tau$ with $\\alpha \\geq 1$ found")
    axes.set(
        xscale="log", yscale="log", xlabel=r"temperature $\tau$", ylabel=r"$\max_j \sum_{i \neq j}$ of what was found"
    )
    _taus(axes, table["temperature"])
    axes.legend(fontsize=8, loc="lower left")
    return figure


def alpha_by_length(table: pd.DataFrame) -> Figure:
    """Growth with the number of free positions.

    Parameters
    ----------
    table : DataFrame
        ``n``, ``temperature``, ``columns`` (a lower bound on ``alpha``) and ``mean`` (mean influence).
    """
    figure, (left, right) = new_figure(2, height=3.8)
    taus = sorted(table["temperature"].unique())
    colours = dict(zip(taus, sns.color_palette("viridis", len(taus)).as_hex(), strict=True))
    for axes, column, label in ((left, "columns", r"lower bound on $\alpha$"), (right, "mean", "mean influence")):
        for tau, rows in table.groupby("temperature"):
            axes.plot(rows["n"], rows[column], marker="o", ms=4, color=colours[tau], label=rf"$\tau$ = {tau:.3g}")
        axes.set(xscale="log", xlabel="free positions $n$", ylabel=label, ylim=(0, None))
        axes.set_xticks(sorted(table["n"].unique()), [str(n) for n in sorted(table["n"].unique())])
        axes.minorticks_off()
    _level(left)
    right.legend(fontsize=8, loc="lower center", bbox_to_anchor=(0.45, 1.0), ncol=2)
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
        Temperature above which it holds; 0 if that is all of them.
    last : float
        Largest temperature of the grid at which the search found ``alpha`` of 1 or more, NaN if none.
    """
    bounds = bounds[np.isfinite(bounds["steps"])]
    figure, (axes,) = new_figure(height=4.1)
    colours = palette(["measured", "proved", "sampled"])
    low = float(points["temperature"].min()) / 1.4
    high = float(pd.concat([bounds["temperature"], points["temperature"]]).max()) * 1.2
    certified = max(certified, low)
    axes.axvspan(certified, high, color=colours["proved"], alpha=0.15, lw=0)
    axes.plot(bounds["temperature"], bounds["steps"], color=colours["proved"],
              label="proved: bound on the mixing time, from every start")  # fmt: skip
    met = points[np.isfinite(points["median"])]
    # A limit above the budget is drawn up to it: the point's label gives the censored share. One pair has no limits.
    reach = met["high"].clip(upper=met["budget"])
    fall = met["median"] - met["low"].where(np.isfinite(met["low"]), met["median"])
    axes.errorbar(met["temperature"], met["median"], yerr=np.stack([fall, reach - met["median"]]),
                  fmt="o", ms=5, capsize=3, color=colours["measured"],
                  label="measured: median meeting time of two texts, 95 % interval")  # fmt: skip
    cut = points[~np.isfinite(points["median"])]
    axes.plot(cut["temperature"], cut["budget"], linestyle="", marker="^", mfc="none", ms=7, color=colours["measured"],
              label="median above the budget (censored)")  # fmt: skip
    for _, row in points[points["censored"] > 0].iterrows():
        axes.annotate(f"{row['censored']:.0%}", (row["temperature"], row["budget"]), (0, 6), ha="center", fontsize=8,
                      textcoords="offset points", color=colours["measured"])  # fmt: skip
    axes.axvline(certified, color=colours["proved"], lw=1.2)
    axes.text(certified, 0.97, r" $\tau_{\mathrm{cert}}$: fast above, proved", color=colours["proved"], fontsize=9,
              va="top", transform=axes.get_xaxis_transform())  # fmt: skip
    if np.isfinite(last):
        axes.axvline(last, color=colours["sampled"], lw=1.2, linestyle="--")
        axes.text(last, 0.9, "  largest $\\tau$ with $\\alpha \\geq 1$ found:\n  the theorem is silent here",
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


def _taus(axes: Axes, taus: "pd.Series[float]") -> None:
    shown = sorted(taus.unique())[:: max(1, taus.nunique() // 8)]
    axes.set_xticks(shown, [f"{tau:.3g}" for tau in shown])
    axes.minorticks_off()
