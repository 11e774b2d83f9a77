"""What the paper reports on the transition, beside what was measured here."""

import numpy as np
import pandas as pd
from scipy import stats

from ..report import paper_value


def beside_paper(times: pd.DataFrame, crossings: pd.DataFrame, level: float = 0.95) -> pd.DataFrame:
    """The paper's figures on speed and crossover (``data/paper.csv``), each beside its counterpart at every length.

    The paper calls mixing fast from a temperature on, without our knowing its models' lengths or its budget. The counterpart is the share
    of pairs that had not met when the budget ended, at the temperature of the grid nearest to that one on a log scale.

    Parameters
    ----------
    times : DataFrame
        ``temperature``, ``n``, ``pair``, ``time``, ``censored``, from `meeting_grid`.
    crossings : DataFrame
        From `crossover`.
    level : float
        Of Clopper and Pearson's intervals of the shares; those of the crossover are as given.

    Returns
    -------
    DataFrame
        ``quantity``, ``n``, ``paper``, ``ours`` (as text); ``temperature``, ``estimate``, ``low``, ``high``, ``count`` (pairs). The
        estimate is the share of pairs that did not meet, or the crossover.
    """
    fast = paper_value("fast_from")
    rows: list[tuple[object, ...]] = []
    for n, here in times.groupby("n"):
        taus = here["temperature"].unique()
        tau = float(taus[np.abs(np.log(taus / fast)).argmin()])
        cut = here.loc[here["temperature"] == tau]
        count, apart = len(cut), int(cut["censored"].sum())
        limits = stats.binomtest(apart, count).proportion_ci(level)
        told = (
            f"τ = {tau:g}: {apart / count:.0%} [{limits.low:.0%}, {limits.high:.0%}] of {count} pairs not met in {cut['time'].max():,.0f} "
            f"steps"
        )
        rows.append(("fast mixing", n, f"τ of about {fast:g} and above", told, tau, apart / count, *limits, count))
    span = f"τ* of about {paper_value('crossover_low'):g} to {paper_value('crossover_high'):g}, moving up with n"
    for _, row in crossings.iterrows():
        ends = ", ".join(f"{end:.2f}" if np.isfinite(end) else "open" for end in row[["low", "high"]])
        told = f"none: {row['reason']}" if row["reason"] else f"τ* = {row['tau_star']:.2f} [{ends}]"
        rows.append(("crossover", row["n"], span, told, np.nan, *row[["tau_star", "low", "high", "pairs"]]))
    columns = ["quantity", "n", "paper", "ours", "temperature", "estimate", "low", "high", "count"]
    return pd.DataFrame(rows, columns=columns)
