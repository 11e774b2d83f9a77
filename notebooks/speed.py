# ---
# jupyter:
#   jupytext:
#     formats: ipynb,py:percent
#     text_representation:
#       extension: .py
#       format_name: percent
#       format_version: '1.3'
#       jupytext_version: 1.19.6
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# (chapter-speed)=
# # Speed
#
# **What was measured.** With 64 chains of 32 tokens at $\tau$ = 1, a step of the sampler took {glue:text}`over-bare` times the
# encoder's forward pass for glauber-tiny and {glue:text}`over-bare-base` times for the shape of BERT-base (brackets: the middle half of
# the repetitions). The lazy engine asked for {glue:text}`lazy-cold` forwards per step at $\tau$ = 0.2 (brackets: the range over
# chains).
#
# This page runs no model. It shows a table that `make bench` wrote on one machine; run that command to replace it with yours.

# %% tags=["parameters", "hide-input"]
results = "benchmarks/results.csv"

# %% tags=["hide-input"]
from glauber.parameters import NotebookParameters, validate


class SpeedParameters(NotebookParameters):
    results: str


p = validate(SpeedParameters, globals())

# %% tags=["hide-input"]
import numpy as np
import pandas as pd
from myst_nb import glue

from glauber import figures
from glauber.report import read_results, table

measured = read_results(p.results)
figures.use_style()


def value(model="glauber-tiny", n=32, chains=64, temperature=1.0, engine="direct", quantity="", column="value"):
    """One figure of the table."""
    chosen = measured[
        (measured["model"] == model)
        & (measured["n"] == n)
        & (measured["chains"] == chains)
        & (measured["temperature"] == temperature)
        & (measured["engine"] == engine)
        & (measured["quantity"] == quantity)
    ]
    return float(chosen[column].iloc[0]) if len(chosen) else float("nan")


def told(form, **where):
    """A figure with its low and high columns, or a dash where it was not measured."""
    middle, low, high = (value(column=column, **where) for column in ("value", "low", "high"))
    if np.isnan(middle):
        return "–"
    ends = "" if np.isnan(low) else f" [{form.format(low)}, {form.format(high)}]"
    return form.format(middle) + ends


BASE = "BERT-base shape, random"
glue("machine", str(measured["machine"].iloc[0]), display=False)
glue("threads", int(measured["threads"].iloc[0]), display=False)
days = sorted(measured["measured"].unique())
glue("measured-on", " to ".join(dict.fromkeys([str(days[0]), str(days[-1])])), display=False)
glue("torch", str(measured["torch"].iloc[0]), display=False)
glue("repetitions", int(measured["repetitions"].max()), display=False)

# %% [markdown]
# ## How it was measured
#
# On {glue:text}`machine` with {glue:text}`threads` threads, torch {glue:text}`torch`, {glue:text}`measured-on`. All contenders
# of a row run in one process, in turn, up to {glue:text}`repetitions` times; ratios are formed within a turn, and the table holds
# their median with the middle half in the columns `low` and `high`; for the forwards of the lazy engine these are the range over
# chains. The baselines:
#
# - **textbook**: the loop that one writes first, with the logits at every position, `torch.multinomial`, and one site shared
#   by all chains (which makes its chains dependent; ours have a site each);
# - **textbook, one chain at a time**: the same without a batch;
# - **peer**: the loop of public Gibbs samplers for BERT, written here in their manner: one site shared by all chains, the logits and
#   log-probabilities at every position, a multinomial draw;
# - **bare encoder**: the forward pass of the encoder alone on the same batch, no head, no draw.
#
# The BERT-base-shaped model has random weights: its speed is that of the shape.

# %% tags=["hide-input"]
targets = pd.DataFrame(
    [
        ("glauber-tiny: speed over peer", "at least", 6.5, value(quantity="speed over peer")),
        ("glauber-tiny: step over bare encoder", "at most", 1.0, value(quantity="time over bare encoder")),
        (
            "glauber-mini: step over bare encoder",
            "at most",
            0.95,
            value("glauber-mini", quantity="time over bare encoder"),
        ),
        ("BERT-base shape: speed over peer", "at least", 1.4, value(BASE, quantity="speed over peer")),
        ("BERT-base shape: step over bare encoder", "at most", 0.97, value(BASE, quantity="time over bare encoder")),
        ("run of lazy over direct", "at most", 1.05, value(engine="lazy", quantity="time over direct")),
        (
            "tau = 2: run of lazy over direct",
            "at most",
            1.05,
            value(temperature=2.0, engine="lazy", quantity="time over direct"),
        ),
        (
            "tau = 0.2: forwards per step of lazy (direct: 1)",
            "at most",
            1 / 3,
            value(chains=16, temperature=0.2, engine="lazy", quantity="forwards per step"),
        ),
        (
            "tau = 0.2: the same in traps",
            "at most",
            1 / 30,
            value(chains=16, temperature=0.2, engine="lazy", quantity="forwards per step, in traps"),
        ),
        (
            "tau = 0.1, in a trap: rejection-free over direct",
            "at least",
            1000.0,
            value(chains=1, temperature=0.1, engine="rejection_free", quantity="speed over direct, in a trap"),
        ),
        (
            "peak memory of 100,000 steps, GiB",
            "at most",
            2.0,
            value(n=8, temperature=0.5, engine="lazy", quantity="peak memory, 100,000 steps"),
        ),
    ],
    columns=["figure (n = 32, 64 chains, tau = 1 unless said)", "aim", "bound", "measured"],
)
met = (targets["measured"] >= targets["bound"]).where(
    targets["aim"] == "at least", targets["measured"] <= targets["bound"]
)
targets["met"] = met.map({True: "yes", False: "no"}).where(targets["measured"].notna(), "not measured")
glue("targets", len(targets), display=False)
glue("targets-met", int((targets["met"] == "yes").sum()), display=False)
table(targets, {"bound": "{:,.4g}", "measured": "{:,.4g}"})

# %% [markdown]
# {glue:text}`targets-met` of the {glue:text}`targets` aims are met on this machine. The aims are this project's own.
#
# ## Steps per second

# %% tags=["hide-input"]
figure = figures.speed_by_temperature(measured)
glue("figure-speed", figure)

# %% tags=["hide-input"]
glue("direct-speed", told("{:,.0f}", quantity="steps per second"), display=False)
glue("textbook-speed", told("{:,.0f}", engine="textbook", quantity="steps per second"), display=False)
glue("over-bare", told("{:.2f}", quantity="time over bare encoder"), display=False)
glue("over-bare-base", told("{:.2f}", model=BASE, quantity="time over bare encoder"), display=False)
glue("peak-share", told("{:.0%}", model=BASE, quantity="share of matrix-product peak"), display=False)
glue("peak", told("{:.0f}", model=BASE, quantity="matrix-product peak"), display=False)
glue("bare", told("{:.2f}", engine="bare encoder", quantity="speed over textbook"), display=False)
glue("bare-base", told("{:.2f}", model=BASE, engine="bare encoder", quantity="speed over textbook"), display=False)
glue("gain", told("{:.2f}", quantity="speed over textbook"), display=False)
glue("gain-base", told("{:.2f}", model=BASE, quantity="speed over textbook"), display=False)

# %% [markdown]
# With 64 chains of 32 tokens at $\tau$ = 1, glauber-tiny takes {glue:text}`direct-speed` chain steps per second against
# {glue:text}`textbook-speed` of the textbook loop; a step takes {glue:text}`over-bare` times the bare encoder. For the
# BERT-base shape it is {glue:text}`over-bare-base` times, and a step reaches {glue:text}`peak-share` of this machine's
# float32 matrix-product rate of {glue:text}`peak` GFLOP/s. What is saved: the last layer, the head's
# dense layer and the vocabulary projection at all positions but the masked one, and the normalised probabilities that a multinomial draw
# wants. The bare encoder alone was
# {glue:text}`bare` times (glauber-tiny) and {glue:text}`bare-base` times (BERT-base shape) as fast as the textbook loop here, the
# sampler {glue:text}`gain` and {glue:text}`gain-base` times. The bare encoder runs its last layer at all positions, so that
# a step with head and draw can take less time than it.
#
# ## Forwards per step

# %% tags=["hide-input"]
figure = figures.forwards_by_temperature(measured)
glue("figure-forwards", figure)

# %% tags=["hide-input"]
lazy = measured[(measured["engine"] == "lazy") & (measured["quantity"] == "forwards per step")]
cold = {"chains": 16, "temperature": 0.2, "engine": "lazy"}
glue("lazy-chains", f"{lazy['chains'].max():.0f}" if len(lazy) else "–", display=False)
# The unit says which steps were counted: those before are the warm-up.
glue("lazy-steps", str(lazy["unit"].iloc[0]).rpartition(", ")[2] if len(lazy) else "steps not measured", display=False)
glue("lazy-cold", told("{:.3f}", **cold, quantity="forwards per step"), display=False)
glue("lazy-traps", told("{:.0f}", **cold, quantity="chains in traps"), display=False)
glue("lazy-in-traps", told("{:.4f}", **cold, quantity="forwards per step, in traps"), display=False)
jumps = {"chains": 1, "temperature": 0.1, "engine": "rejection_free"}
glue("nfold", told("{:,.0f}", **jumps, quantity="speed over direct, in a trap"), display=False)
kept = {"n": 8, "temperature": 0.5, "engine": "lazy"}
glue("memory", told("{:.2f}", **kept, quantity="peak memory, 100,000 steps"), display=False)

# %% [markdown]
# Means over {glue:text}`lazy-chains` chains, with the range over chains in brackets, over {glue:text}`lazy-steps`: the steps before are a
# warm-up, in which the engine fills its memory, and are not counted. At $\tau$ = 0.2 a step of `lazy` asks for
# {glue:text}`lazy-cold` forwards, where `direct` asks for one. "In traps" are the chains in which at most two
# positions changed over the steps counted: {glue:text}`lazy-traps` of the {glue:text}`lazy-chains` here, which ask for {glue:text}`lazy-in-traps`. Chains that still wander ask
# most, since they seldom meet a context twice. In one trap at $\tau$ = 0.1 `rejection_free` simulates
# {glue:text}`nfold` times as many steps per second as `direct` (measured once). A run of 100,000 steps of 64 chains (n = 8, $\tau$ = 0.5),
# written to disk as it goes, peaked at {glue:text}`memory` GiB, the libraries included.
#
# ## Lazy against direct
#
# Runs from the texts on, where the memory is empty at first. A chain that changes a token at most steps meets few contexts twice, and the
# engine then keeps nothing of it.

# %% tags=["hide-input"]
figure = figures.lazy_over_direct(measured)
glue("figure-lazy", figure)

# %% [markdown]
# ## More chains, longer texts

# %% tags=["hide-input"]
figure = figures.speed_scaling(measured)
glue("figure-scaling", figure)

# %% [markdown]
# ## All figures

# %% tags=["hide-input", "hide-output"]
table(
    measured[["model", "n", "chains", "temperature", "engine", "quantity", "value", "low", "high", "unit"]],
    {"value": "{:,.4g}", "low": "{:,.4g}", "high": "{:,.4g}", "temperature": "{:g}"},
)
