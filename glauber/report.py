"""Tables and numbers as the book prints them."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from pandas.io.formats.style import Styler
from scipy import stats

from .errors import GlauberError, ParameterError

PAPER = Path(__file__).parents[1] / "data" / "paper.csv"
# Columns of the table that `make bench` writes, those that the page on speed reads.
BENCH = (
    "model", "n", "chains", "temperature", "repetitions", "engine", "low", "high", "quantity", "value", "unit", "machine",
    "threads", "measured", "torch",
)  # fmt: skip


def table(
    frame: pd.DataFrame, formats: Mapping[str, str] | None = None, units: Mapping[str, str] | None = None
) -> Styler:
    """A table for display: number formats by column, units in the header, no index.

    Texts stand as they are: tokens such as ``<!--`` are no HTML, and names such as ``run_$LR_0_1$`` no mathematics.

    Parameters
    ----------
    frame : DataFrame
    formats, units : mapping, optional
        Format string and unit of a column.
    """
    names = {column: f"{column} ({unit})" for column, unit in (units or {}).items()}
    renamed: dict[Any, Any] = {names.get(column, column): form for column, form in (formats or {}).items()}
    shown = (
        frame.rename(columns=names).style.format(renamed, na_rep="–", escape="html").format_index(escape="html", axis=1)
    )
    return shown.hide(axis="index").set_table_attributes('class="tex2jax_ignore mathjax_ignore"')


def interval(row: "pd.Series[float]", form: str = "{:.3f}", value: str = "estimate") -> str:
    """An estimate with its interval, ``0.312 [0.290, 0.335]``, from columns ``value``, ``low`` and ``high``."""
    if pd.isna(row["low"]):
        return f"{form.format(row[value])} [no interval from one sample]"
    return f"{form.format(row[value])} [{form.format(row['low'])}, {form.format(row['high'])}]"


def mean_interval(
    values: ArrayLike, level: float = 0.95, least: float = -np.inf, most: float = np.inf
) -> "pd.Series[float]":
    """Mean of independent values with Student's interval: ``estimate``, ``low``, ``high``; NaN limits for one value.

    Values that lie between ``least`` and ``most`` have a mean there, and the interval is cut to that range.
    """
    sample = np.asarray(values, dtype=np.float64)
    half = np.nan
    if len(sample) > 1:
        half = float(stats.t.ppf((1 + level) / 2, len(sample) - 1) * stats.sem(sample))
    mean = float(sample.mean())
    low, high = np.clip([mean - half, mean + half], least, most)
    return pd.Series({"estimate": mean, "low": low, "high": high})


def difference_interval(
    first: ArrayLike, second: ArrayLike, *, paired: bool, level: float = 0.95, most: float = np.inf
) -> "pd.Series[float]":
    """Mean of ``second`` less mean of ``first``, with Student's interval over pairs, or Welch's for independent samples.

    Intervals of the two means are no test of their difference: of pairs they are too wide, since pairs share what varies.

    Parameters
    ----------
    first, second : array, shape (units,)
        One value a unit, such as a chain or a passage; where paired, unit by unit.
    paired : bool
    level : float
    most : float
        Largest difference that there can be, such as 1 between shares; the interval is cut to it.

    Returns
    -------
    Series
        ``estimate``, ``low``, ``high``; NaN limits where one value, or equal ones, leave no interval.

    Raises
    ------
    ParameterError
        If pairs are incomplete.
    """
    one, two = np.asarray(first, dtype=np.float64), np.asarray(second, dtype=np.float64)
    if paired:
        if one.shape != two.shape:
            raise ParameterError(f"{len(one)} and {len(two)} values are no pairs: give both for each unit")
        found = mean_interval(two - one, level, -most, most)
        if not np.ptp(two - one):
            found[["low", "high"]] = np.nan
        return found
    low, high = np.nan, np.nan
    if min(len(one), len(two)) > 1 and (np.ptp(one) or np.ptp(two)):
        limits = stats.ttest_ind(two, one, equal_var=False).confidence_interval(level)
        low, high = np.clip([limits.low, limits.high], -most, most)
    return pd.Series({"estimate": two.mean() - one.mean(), "low": low, "high": high})


def lies(difference: "pd.Series[float]") -> str:
    """How the second mean lies to the first, by the interval of their difference: ``above``, ``below`` or ``not distinguishable from``.

    Without an interval it is ``not comparable with`` it.
    """
    if not np.isfinite(difference["low"]):
        return "not comparable with"
    if difference["low"] > 0:
        return "above"
    return "below" if difference["high"] < 0 else "not distinguishable from"


def by_model(columns: Mapping[str, Mapping[str, str]]) -> pd.DataFrame:
    """Quantities by row, one model a column, from the model's name to its quantities as text."""
    return pd.DataFrame(columns).rename_axis("quantity").reset_index()


def paired(first: ArrayLike, second: ArrayLike) -> str:
    """The mean of ``second - first`` over pairs, and whether its 95 % Student interval leaves 0 out, in words."""
    change = difference_interval(first, second, paired=True)
    if not np.isfinite(change["low"]):
        pairs = np.size(first)
        return (
            "no difference can be told from one pair"
            if pairs == 1
            else (f"{change['estimate']:+.3f}, the same in all {pairs} pairs")
        )
    verdict = "holds 0" if change["low"] <= 0 <= change["high"] else "leaves 0 out"
    return f"{interval(change, '{:+.3f}')}, which {verdict}"


def round_up(value: float, digits: int = 0) -> float:
    """The next number of so many decimals that is not below ``value``: for bounds, which rounding must not make false."""
    return float(np.ceil(value * 10**digits) / 10**digits)


def read_results(path: str) -> pd.DataFrame:
    """The table that ``make bench`` writes.

    Raises
    ------
    ParameterError
        If there is no such file, or it is another one.
    """
    if not Path(path).is_file():
        raise ParameterError(
            f"results = {path!r}: no such file; run make bench, or give the path from the repository's root"
        )
    try:
        measured = pd.read_csv(path)
        missing = [column for column in BENCH if column not in measured]
    except ValueError:  # pandas' own errors and those of the encoding are of this kind
        missing = list(BENCH)
    if missing or measured.empty:
        lacks = f"it lacks {', '.join(missing)}" if missing else "it is empty"
        raise ParameterError(f"results = {path!r} is no table of make bench: {lacks}")
    return measured


def beside_paper(ours: Mapping[str, pd.DataFrame], paper: Mapping[str, str], column: str) -> pd.DataFrame:
    """Our statistics, one source a row, with the paper's printed figure in a last column of its own.

    Parameters
    ----------
    ours : mapping
        Name of the source to a table with ``statistic``, ``unit``, ``estimate``, ``low``, ``high``.
    paper : mapping
        Name of the paper's model to its figure as printed.
    column : str
        Head of the paper's column.
    """
    rows: list[dict[str, str]] = []
    for source, summary in ours.items():
        cells = {"source": source}
        for _, row in summary.iterrows():
            head = f"{row['statistic']} ({row['unit']})" if row["unit"] else str(row["statistic"])
            tiny, share = 0 < abs(row["estimate"]) < 1e-3, str(row["statistic"]).startswith("share")
            cells[head] = interval(row, "{:.2%}" if share else "{:.0e}" if tiny else "{:.3f}")
        rows.append(cells)
    rows += [{"source": source, column: figure} for source, figure in paper.items()]
    return pd.DataFrame(rows).fillna("–")


def paper_value(quantity: str) -> float:
    """A figure that the paper reports, from ``data/paper.csv``.

    Raises
    ------
    GlauberError
        If the paper's table has no such quantity.
    """
    values = pd.read_csv(PAPER).set_index("quantity")["value"]
    if quantity not in values:
        raise GlauberError(f"quantity {quantity!r} is not in data/paper.csv: it has {', '.join(values.index)}")
    return float(values[quantity])
