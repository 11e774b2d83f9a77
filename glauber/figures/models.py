"""Figures of the page on the models."""

from collections.abc import Mapping

import pandas as pd
from matplotlib.figure import Figure

from .style import literal, new_figure, palette


def loss_against_loss(losses: pd.DataFrame) -> Figure:
    """Each passage's loss under one model against that under another; below the diagonal the second predicts better.

    Parameters
    ----------
    losses : DataFrame
        Nats per token, one row per passage, two columns, each with its model's name.
    """
    one, two = losses.columns
    figure, (axes,) = new_figure(height=4.2)
    low, high = losses.to_numpy().min(), losses.to_numpy().max()
    room = 0.05 * (high - low) or 0.1
    ends = (low - room, high + room)
    axes.plot(ends, ends, color="0.4", lw=1, linestyle="--", label="the same loss")
    axes.plot(losses[one], losses[two], "o", ms=5, alpha=0.7, color=palette(["passage"])["passage"], label="a passage")
    axes.set(
        xlabel=f"{literal(one)}: loss (nats per token)",
        ylabel=f"{literal(two)}: loss (nats per token)",
        xlim=ends,
        ylim=ends,
    )
    axes.set_aspect("equal")
    axes.legend(loc="upper left")
    return figure


def training_curves(logs: Mapping[str, pd.DataFrame]) -> Figure:
    """Held-out loss against the tokens seen in training.

    Parameters
    ----------
    logs : mapping
        Name of the run to its table, from `glauber.models.training_logs`.
    """
    figure, (axes,) = new_figure(height=3.6)
    for (name, colour), log in zip(palette(logs).items(), logs.values(), strict=True):
        axes.plot(
            log["tokens"] / 1e6, log["held_out_loss"], marker="o", ms=3.5, lw=1.3, color=colour, label=literal(name)
        )
    # The first row of a log is the model before its training, whose loss may be far above all others: the line comes from there.
    later = pd.concat([log.loc[log["tokens"] > 0, "held_out_loss"] for log in logs.values()])
    if len(later):
        axes.set_ylim(later.min() - 0.1, later.max() + 0.3)
    axes.set(xlabel="tokens seen (millions)", ylabel="held-out loss (nats per masked token)")
    axes.legend(loc="upper right")
    return figure
