"""Figures of the page on speed. They read the table that ``benchmarks/bench.py`` writes."""

import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullLocator, StrMethodFormatter

from .style import new_figure, palette

CONTENDERS = ["direct", "bare encoder", "textbook", "peer"]


def _series(table: pd.DataFrame, quantity: str, **where: object) -> pd.DataFrame:
    chosen = table[table["quantity"] == quantity]
    for column, value in where.items():
        chosen = chosen[chosen[column] == value]
    return chosen


def _line(axes: Axes, rows: pd.DataFrame, x: str, name: str, colour: str) -> None:
    rows = rows.sort_values(x)
    axes.plot(rows[x], rows["value"], marker="o", color=colour, label=name)
    axes.fill_between(rows[x], rows["low"], rows["high"], color=colour, alpha=0.2, linewidth=0)


def speed_by_temperature(table: pd.DataFrame, n: int = 32) -> Figure:
    """Steps per second of `direct` and its baselines against temperature, glauber-tiny, 64 chains."""
    figure, (axes,) = new_figure()
    colours = palette(CONTENDERS)
    for name in CONTENDERS:
        rows = _series(table, "steps per second", model="glauber-tiny", n=n, chains=64, engine=name)
        if len(rows):
            _line(axes, rows, "temperature", name, colours[name])
    axes.set(xscale="log", yscale="log", xlabel=r"temperature $\tau$", ylabel="chain steps per second")
    _plain_ticks(axes, sorted(_series(table, "steps per second", engine="direct")["temperature"].unique()))
    axes.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0))
    return figure


def forwards_by_temperature(table: pd.DataFrame) -> Figure:
    """Forwards per step of `lazy` against temperature: mean and range over chains."""
    figure, (axes,) = new_figure(height=3.0)
    rows = _series(table, "forwards per step", engine="lazy").sort_values("temperature")
    colour = palette(["lazy"])["lazy"]
    axes.vlines(rows["temperature"], rows["low"], rows["high"], color=colour, alpha=0.5)
    axes.plot(rows["temperature"], rows["value"], marker="o", color=colour, label="lazy, mean and range over chains")
    axes.axhline(1, color="0.3", linestyle="--", linewidth=1, label="direct")
    axes.set(xscale="log", xlabel=r"temperature $\tau$", ylabel="forwards per step", ylim=(0, None))
    _plain_ticks(axes, sorted(rows["temperature"].unique()))
    axes.legend(loc="lower left", bbox_to_anchor=(0, 1.0), ncol=2)
    return figure


def lazy_over_direct(table: pd.DataFrame) -> Figure:
    """Time of runs of `lazy` over runs of `direct` against temperature: median and middle half."""
    figure, (axes,) = new_figure(height=3.0)
    rows = _series(table, "time over direct", engine="lazy").sort_values("temperature")
    _line(axes, rows, "temperature", "lazy", palette(["lazy"])["lazy"])
    axes.axhline(1, color="0.3", linestyle="--", linewidth=1, label="direct")
    axes.set(xscale="log", xlabel=r"temperature $\tau$", ylabel="time of a run / direct", ylim=(0, None))
    _plain_ticks(axes, sorted(rows["temperature"].unique()))
    axes.legend(loc="lower right")
    return figure


def speed_scaling(table: pd.DataFrame) -> Figure:
    """Steps per second of `direct` against the number of chains (n = 32), and time over the bare encoder against n."""
    figure, (left, right) = new_figure(2)
    tiny = _series(table, "steps per second", model="glauber-tiny", n=32, temperature=1.0)
    colours = palette(CONTENDERS)
    for name in ("direct", "textbook", "peer"):
        _line(left, tiny[tiny["engine"] == name], "chains", name, colours[name])
    left.set(xscale="log", yscale="log", xlabel="chains in a batch", ylabel="chain steps per second")
    _plain_ticks(left, sorted(tiny["chains"].unique()))
    left.legend(loc="lower right")
    over = _series(table, "time over bare encoder", engine="direct", temperature=1.0, chains=64)
    shades = palette(over["model"].unique())
    for model, rows in over.groupby("model", sort=False):
        _line(right, rows, "n", str(model), shades[str(model)])
    right.axhline(1, color="0.3", linestyle="--", linewidth=1)
    right.set(xlabel="free positions n (tokens)", ylabel="time of a step / bare encoder", ylim=(0, None))
    right.set_xticks(sorted(over["n"].unique()))
    right.legend(loc="lower right")
    sns.despine(figure)
    return figure


def _plain_ticks(axes: Axes, values: list[float]) -> None:
    axes.set_xticks(values, [f"{v:g}" for v in values])
    axes.xaxis.set_minor_locator(NullLocator())
    if axes.get_yscale() == "log":
        axes.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
        axes.yaxis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))
        axes.yaxis.set_minor_locator(NullLocator())
