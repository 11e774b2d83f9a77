"""Figures of the transition chapter. A cell whose median lies above the budget is drawn as such, never at the budget."""

import matplotlib as mpl
import numpy as np
import pandas as pd
import seaborn as sns
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.colors import LogNorm
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullFormatter, ScalarFormatter

from .style import WIDTH, intervals, literal, new_figure, palette

TAU = r"temperature $\tau$"
KINDS = {"maximal": "maximal", "common": "common random numbers", "gumbel": "Gumbel"}


def mixing_map(medians: pd.DataFrame, crossover: pd.DataFrame, scales: float) -> Figure:
    """Median times in units of ``n log n`` over temperature and length.

    Parameters
    ----------
    medians : DataFrame
        ``n``, ``temperature``, ``median`` (steps), ``censored``, ``count``.
    crossover : DataFrame
        From `glauber.transition.crossover`; drawn as a step of the grid.
    scales : float
        Budget in units of ``n log n``.
    """
    shown = medians.assign(level=medians["median"] / (medians["n"] * np.log(medians["n"])))
    grid = shown.pivot_table(index="n", columns="temperature", values="level", dropna=False).replace(np.inf, np.nan)
    cut = shown.pivot_table(index="n", columns="temperature", values="censored", dropna=False)
    figure, (axes,) = new_figure(height=1.4 + 0.55 * len(grid))
    values = np.ma.masked_invalid(grid.to_numpy())
    colours = mpl.colormaps["viridis_r"].with_extremes(bad="0.85")
    image = axes.pcolormesh(values, cmap=colours, norm=LogNorm(1, scales), edgecolor="white", lw=1.5)
    for i, n in enumerate(grid.index):
        for k, tau in enumerate(grid.columns):
            level, share = grid.loc[n, tau], cut.loc[n, tau]
            dark = np.isfinite(level) and level > scales**0.5
            text = f"{level:.1f}" if np.isfinite(level) else f"> {scales:g}"
            text += f"\n{share:.0%} cut" if share > 0 else ""
            axes.text(k + 0.5, i + 0.5, text, ha="center", va="center", fontsize=7.5, color="white" if dark else "0.1")
    for _, row in crossover[crossover["reason"] == ""].iterrows():
        i = list(grid.index).index(row["n"])
        at = np.interp(np.log(row["tau_star"]), np.log(grid.columns.to_numpy()), np.arange(len(grid.columns)) + 0.5)
        axes.plot([at, at], [i + 0.06, i + 0.94], color="#d55e00", lw=2.5, label=r"$\tau^*(n)$" if i == 0 else None)
    axes.set_xticks(np.arange(len(grid.columns)) + 0.5, [f"{tau:g}" for tau in grid.columns])
    axes.set_yticks(np.arange(len(grid.index)) + 0.5, [str(n) for n in grid.index])
    axes.grid(False)
    axes.set(xlabel=TAU, ylabel="free positions $n$")
    figure.colorbar(image, ax=axes, label="median coupling time\n" r"($n \log n$ steps)", extend="max")
    if (crossover["reason"] == "").any():
        axes.legend(loc="lower right", bbox_to_anchor=(1.0, 1.0), fontsize=8.5)
    return figure


def median_curves(medians: pd.DataFrame, ylabel: str) -> Figure:
    """Kaplan-Meier medians with 95 % intervals against temperature, one curve per length.

    Parameters
    ----------
    medians : DataFrame
        From `glauber.survival.medians`, by ``n`` and ``temperature``.
    ylabel : str
        What is timed; the unit is added.
    """
    figure, (axes,) = new_figure(height=4.0)
    lengths = sorted(medians["n"].unique())
    _by_group(
        axes,
        medians,
        "n",
        dict(zip(lengths, sns.color_palette("viridis", len(lengths)).as_hex(), strict=True)),
        "$n$ = {}",
    )
    axes.set(xscale="log", yscale="log", xlabel=TAU, ylabel=f"{ylabel} (steps)")
    _taus(axes, medians["temperature"])
    axes.legend(fontsize=8.5, title=f"{medians['count'].min()} runs a point", title_fontsize=8.5)
    return figure


def coupling_curves(medians: pd.DataFrame, n: int) -> Figure:
    """Median coupling time of each coupling at one length.

    Parameters
    ----------
    medians : DataFrame
        From `glauber.survival.medians`, by ``kind`` and ``temperature``.
    n : int
    """
    figure, (axes,) = new_figure(height=3.8)
    kinds = list(KINDS)
    named = medians.assign(kind=medians["kind"].map(KINDS))
    _by_group(axes, named, "kind", palette([KINDS[k] for k in kinds]), "{}")
    axes.set(xscale="log", yscale="log", xlabel=TAU, ylabel=f"median coupling time, n = {n} (steps)")
    _taus(axes, medians["temperature"])
    axes.legend(fontsize=8.5, title=f"{medians['count'].min()} pairs a point", title_fontsize=8.5)
    return figure


def model_curves(medians: pd.DataFrame) -> Figure:
    """Median coupling time of each model, one panel a length.

    Parameters
    ----------
    medians : DataFrame
        From `glauber.survival.medians`, by ``model``, ``n`` and ``temperature``.
    """
    lengths = sorted(medians["n"].unique())
    figure, panels = new_figure(len(lengths), height=3.6)
    colours = palette(medians["model"].unique())
    for axes in panels[1:]:
        axes.sharey(panels[0])
    for axes, n in zip(panels, lengths, strict=True):
        here = medians[medians["n"] == n]
        _by_group(axes, here, "model", colours, "{}", shares=False)
        axes.set(xscale="log", yscale="log", xlabel=TAU, title=f"$n$ = {n}")
        _taus(axes, here["temperature"])
        axes.tick_params(axis="x", labelsize=8, rotation=50)
    panels[0].yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    panels[0].yaxis.set_major_formatter(ScalarFormatter())
    panels[0].yaxis.set_minor_formatter(NullFormatter())
    panels[0].set_ylabel("median coupling time (steps)")
    panels[0].legend(fontsize=8.5, title=f"{medians['count'].min()} pairs a point", title_fontsize=8.5)
    return figure


def _by_group(
    axes: Axes, medians: pd.DataFrame, by: str, colours: dict[str, str], label: str, shares: bool = True
) -> None:
    """Medians with intervals; open triangles at the budget where a median lies above it, with the share cut if asked for."""
    ends = medians[["median", "low"]].to_numpy(dtype=np.float64)
    floor = ends[ends > 0].min(initial=np.inf) / 1.5  # of open lower ends
    for shift, (key, rows) in enumerate(medians.groupby(by, sort=False)):
        colour = colours[key]  # type: ignore[index]
        tau = rows["temperature"] * 1.015 ** (shift - 1)  # beside each other, so that intervals can be told apart
        met = np.isfinite(rows["median"])
        some = rows[met]
        axes.plot(
            tau[met],
            some["median"],
            marker="o",
            ms=4,
            lw=1.3,
            color=colour,
            label=literal(key) if label == "{}" else label.format(key),
        )
        intervals(axes, tau[met], some["low"].replace(0, -np.inf), some["high"], colour, floor, some["budget"])
        axes.plot(tau[~met], rows.loc[~met, "budget"], linestyle="", marker="^", mfc="none", ms=6, color=colour)
        for place, (_, row) in zip(tau, rows.iterrows(), strict=True):
            if shares and row["censored"] > 0 and np.isfinite(row["median"]):
                top = min(row["high"], row["budget"])
                axes.annotate(f"{row['censored']:.0%} cut", (place, top), (0, 4), color=colour, fontsize=7,
                              ha="center", textcoords="offset points")  # fmt: skip
    if np.isposinf(medians.loc[np.isfinite(medians["median"]), "high"]).any():
        axes.plot([], [], linestyle="", marker="^", color="0.3", label="upper limit not known")
    if not np.isfinite(medians["median"]).all():
        axes.plot([], [], linestyle="", marker="^", mfc="none", color="0.3", label="median above the budget")


def level_curve(level: pd.DataFrame, crossover: pd.DataFrame, paper: tuple[float, float], scales: float) -> Figure:
    """``C(tau)`` with its interval; where each length crosses over, and where the paper puts the crossover.

    Parameters
    ----------
    level, crossover : DataFrame
        From `glauber.transition`.
    paper : tuple of float
        The paper's range of temperatures.
    scales : float
        Budget in units of ``n log n``.
    """
    figure, (left, right) = new_figure(2, height=3.9)
    colours = palette(["ours", "paper", "star"])
    known = level.dropna(subset=["C"])
    left.axvspan(*paper, color=colours["paper"], alpha=0.18, lw=0, label="crossover in the paper\n(larger models)")
    left.plot(known["temperature"], known["C"], marker="o", ms=4.5, color=colours["ours"],
              label=r"fitted $C(\tau)$, 95 % interval")  # fmt: skip
    intervals(left, known["temperature"], known["low"], known["high"], colours["ours"])
    left.axhline(scales, color="0.4", lw=1, linestyle=":", label="budget of a run")
    none = level[level["C"].isna()]
    left.plot(none["temperature"], np.full(len(none), scales), linestyle="", marker="^", mfc="none", color=colours["ours"],
              label="fewer than 5 pairs met")  # fmt: skip
    left.set(xscale="log", yscale="log", xlabel=TAU, ylabel=r"$C(\tau)$, times in $n \log n$ steps")
    _taus(left, level["temperature"])
    left.legend(fontsize=7.5, loc="lower left")
    found = crossover[crossover["reason"] == ""]
    right.axhspan(*paper, color=colours["paper"], alpha=0.18, lw=0)
    taus = level["temperature"]
    right.plot(found["n"], found["tau_star"], marker="D", ms=5, color=colours["star"])
    intervals(right, found["n"], found["low"], found["high"], colours["star"], taus.min(), taus.max())
    right.set(xscale="log", xlabel="free positions $n$", ylabel=r"crossover $\tau^*(n)$, 95 % interval")
    right.set_xticks(crossover["n"], [str(n) for n in crossover["n"]])
    right.minorticks_off()
    return figure


def residual_plot(residuals: pd.DataFrame) -> Figure:
    """Residuals of ``C(tau) n log n`` by length: a slope would be growth of another order. Censored ones point up."""
    figure, (axes,) = new_figure(height=3.6)
    taus = sorted(residuals["temperature"].unique())
    colours = dict(zip(taus, sns.color_palette("viridis", len(taus)).as_hex(), strict=True))
    place = {tau: 2 ** (0.6 * (k - (len(taus) - 1) / 2) / max(len(taus), 1)) for k, tau in enumerate(taus)}
    for tau, rows in residuals.groupby("temperature"):
        key = float(tau)  # type: ignore[arg-type]
        at = rows["n"] * place[key]
        cut = rows["censored"].astype(bool)
        axes.plot(
            at[~cut], rows.loc[~cut, "residual"], ".", ms=4, alpha=0.6, color=colours[key], label=rf"$\tau$ = {key:g}"
        )
        axes.plot(at[cut], rows.loc[cut, "residual"], "^", ms=4, mfc="none", alpha=0.6, color=colours[key])
        medians = rows.assign(at=at).groupby("at")["residual"].median()
        axes.plot(medians.index, medians, "_", ms=11, mew=2, color=colours[key])
    axes.axhline(0, color="0.4", lw=1)
    axes.plot([], [], "^", mfc="none", color="0.3", label="censored: at least")
    axes.set(
        xscale="log",
        xlabel="free positions $n$ (temperatures side by side)",
        ylabel="standardised residual of $\\log T$",
    )
    axes.set_xticks(sorted(residuals["n"].unique()), [str(n) for n in sorted(residuals["n"].unique())])
    axes.minorticks_off()
    axes.legend(fontsize=8, loc="center left", bbox_to_anchor=(1.0, 0.5))
    return figure


def order_panels(order: pd.DataFrame, stars: "pd.Series[float]") -> Figure:
    """Order parameters against temperature, one panel each, one curve per length; crossovers as thin lines.

    Parameters
    ----------
    order : DataFrame
        From `glauber.transition.order_parameters`.
    stars : Series
        ``tau*`` by ``n``.
    """
    quantities = order[["quantity", "unit"]].drop_duplicates().to_numpy().tolist()
    figure = Figure(figsize=(WIDTH, 2.35 * -(-len(quantities) // 2)), layout="constrained")
    panels = figure.subplots(-(-len(quantities) // 2), 2, squeeze=False).ravel()
    lengths = sorted(order["n"].unique())
    colours = dict(zip(lengths, sns.color_palette("viridis", len(lengths)).as_hex(), strict=True))
    for axes, (name, unit) in zip(panels, quantities, strict=False):
        here = order[order["quantity"] == name]
        for n, rows in here.groupby("n"):
            axes.plot(rows["temperature"], rows["mean"], marker="o", ms=3, lw=1.1, color=colours[n], label=f"$n$ = {n}")
            intervals(axes, rows["temperature"], rows["low"], rows["high"], colours[n])
            if np.isfinite(stars.get(n, np.nan)):
                axes.axvline(stars[n], color=colours[n], lw=0.9, linestyle=":")
        axes.set(xscale="log", title=name, ylabel=unit, xlabel=TAU)
        if name == "autocorrelation time" and (here["mean"] > 0).any():
            axes.set_yscale("log")
        _taus(axes, order["temperature"])
        axes.tick_params(axis="x", labelsize=7.5)
    for axes in panels[len(quantities) :]:
        axes.axis("off")
    panels[0].legend(fontsize=8)
    return figure


def trajectories(series: dict[str, xr.DataArray], threshold: float, n: int, quantile: float) -> Figure:
    """Semantic distance to the start along single chains, one panel per temperature.

    Parameters
    ----------
    series : dict
        Title of the panel to distances (record, chain).
    threshold : float
        From `glauber.transition.drift_threshold`.
    n : int
        Free positions, for the axis in sweeps.
    quantile : float
        Of the distances of unrelated passages, that the threshold is.
    """
    figure, panels = new_figure(len(series), height=2.9)
    highest = 1.03 * max(float(distance.max()) for distance in series.values())
    for axes, (title, distance) in zip(panels, series.items(), strict=True):
        for chain in range(distance.sizes["chain"]):
            axes.plot(distance["record"] / n, distance.isel(chain=chain), lw=0.9, alpha=0.75)
        axes.axhline(
            threshold, color="0.2", lw=1, linestyle="--", label=f"{quantile:.0%} quantile of\nunrelated passages"
        )
        axes.set(title=title, xlabel="sweeps", ylim=(-0.03, highest))
    panels[0].set_ylabel("cosine distance to the start")
    panels[-1].legend(fontsize=8, loc="lower right")
    return figure


def ground_truth(decay: pd.DataFrame, relaxation: pd.DataFrame, profiles: pd.DataFrame) -> Figure:
    """What is known exactly on small spaces: domination by the coupling, slowing down, and the shape of the decay.

    Parameters
    ----------
    decay : DataFrame
        From `glauber.transition.coupling_against_exact`.
    relaxation : DataFrame
        ``space``, ``temperature``, ``relaxation`` (steps).
    profiles : DataFrame
        ``n``, ``scaled``, ``d``.
    """
    figure, (left, middle, right) = new_figure(3, height=3.3)
    first, second = palette(["exact", "coupling"]).values()
    left.plot(decay["step"], decay["TV"], color=first, label="exact TV")
    left.plot(decay["step"], decay["apart"], color=second, label=r"$P(T_c > t)$")
    left.fill_between(decay["step"], decay["low"], decay["high"], color=second, alpha=0.25, lw=0)
    left.set(xlabel="step $t$", ylabel="probability", ylim=(0, 1.03))
    left.legend(fontsize=7.5)
    for _, rows in relaxation.groupby("space"):
        middle.plot(rows["temperature"], rows["relaxation"], marker="o", ms=2.5, lw=1)
    middle.set(xscale="log", yscale="log", xlabel=TAU, ylabel="1 / spectral gap (steps)")
    _taus(middle, relaxation["temperature"], 3)
    lengths = sorted(profiles["n"].unique())
    for colour, n in zip(sns.color_palette("viridis", len(lengths)), lengths, strict=True):
        rows = profiles[profiles["n"] == n]
        right.plot(rows["scaled"], rows["d"], color=colour, label=f"$n$ = {n}")
    right.set(xlabel=r"$t / t_{\mathrm{mix}}$", ylabel="$d(t)$", xlim=(0, 3))
    right.legend(fontsize=7.5)
    return figure


def _taus(axes: Axes, taus: "pd.Series[float]", most: int = 8) -> None:
    shown = sorted(taus.unique())
    kept = shown if len(shown) <= most else shown[:: -(-len(shown) // most)]
    axes.set_xticks(kept, [f"{tau:.3g}" for tau in kept])
    axes.minorticks_off()
