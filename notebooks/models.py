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
# (chapter-models)=
# # The models
#
# **Question.** What are the models of this book, how well do they predict a masked token, what does a step of each cost, and why
# do the chapters use the smaller one?
#
# Two masked language models of English travel with the repository, so that every chapter runs without a network: `glauber-tiny`
# and `glauber-mini`, which was grown from the first and trained further. This run of the page looks at {glue:text}`looked-at`.

# %% tags=["parameters", "hide-input"]
model = "glauber-tiny"
other = "glauber-mini"
passages = "embedded"
starts = 60
n = 32
max_dropped = 0.1
results = "benchmarks/results.csv"
seed = 1
device = "auto"
dtype = "float32"

# %% tags=["hide-input"]
from glauber.parameters import Parameters, validate


class ModelsParameters(Parameters):
    results: str


p = validate(ModelsParameters, globals())

# %% tags=["hide-input"]
import time

import numpy as np
import pandas as pd
from myst_nb import glue

import glauber
from glauber import figures
from glauber.margins import log_probabilities
from glauber.models import facts, training_logs, training_summary
from glauber.passages import account, read_passages, starting_states
from glauber.provenance import provenance
from glauber.report import by_model, interval, mean_interval, paired, read_results, table

started = time.time()
figures.use_style()
measured = read_results(p.results)
models, begins = {}, {}
for name in filter(None, (p.model, p.second)):
    models[name] = glauber.load_model(name, device=p.device, dtype=p.dtype)
    models[name].check_length(p.n)
    begins[name] = starting_states(
        models[name].text.encode, read_passages(p.passages), p.n, p.starts, max_dropped=p.max_dropped
    )
lm, second = models[p.model], models.get(p.second)
begin = begins[p.model]
glue("looked-at", " and ".join(models) if second else f"{p.model} alone: there is no second model", display=False)
glue("model", p.model, display=False)
glue("passages", len(begin.states), display=False)
# Two tokenizers can disagree about which passages are long enough.
glue("account", account(begins), display=False)
glue("n", p.n, display=False)
glue("dtype", p.dtype, display=False)

# %% [markdown]
# ## What they are

# %% tags=["hide-input"]
columns = {}
for name, network in models.items():
    columns[name] = {
        key: "–" if np.isnan(value) else f"{value:,.1f}" if "MB" in key else f"{value:,.0f}"
        for key, value in facts(network).items()
    }
table(by_model(columns))

# %% [markdown]
# A weight that two layers share is counted once. The positions include the special tokens around a text. On disk a weight can take
# fewer bytes than in the {glue:text}`dtype` numbers of this run.
#
# ## How well they predict a masked token
#
# Starting texts: {glue:text}`account`. Each is cut to {glue:text}`n` tokens, and every position is masked in
# turn, and the model is asked for the token that stood there, given all the others at $\tau$ = 1: the conditional that a step of the
# chain draws from. The *loss* is $-\log p$ of that token, over the tokens that a chain may draw; the *perplexity* is its
# exponential; *top-1* is the share of the positions at which the model finds that token likeliest.

# %% tags=["hide-input"]
losses, hits, columns = {}, {}, {}
for name, network in models.items():
    own, best = log_probabilities(network, begins[name].states)
    losses[name], hits[name] = -own.mean(axis=1), best.mean(axis=1)
    mean = mean_interval(losses[name], least=0)
    columns[name] = {
        "loss (nats per token)": interval(mean),
        "perplexity": interval(np.exp(mean), "{:,.1f}"),
        "top-1": interval(mean_interval(hits[name], least=0, most=1), "{:.1%}"),
        "loss of a uniform guess (nats)": f"{np.log(len(network.vocabulary)):.2f}",
        "passages": f"{len(own):,}",
        "positions": f"{own.size:,}",
    }
glue("loss", columns[p.model]["loss (nats per token)"], display=False)
glue("perplexity", columns[p.model]["perplexity"], display=False)
glue("top-1", columns[p.model]["top-1"], display=False)
glue("uniform", columns[p.model]["loss of a uniform guess (nats)"], display=False)
table(by_model(columns))

# %% tags=["hide-input"]
compared = "There is no second model to compare with."
if second:
    begin_second = begins[p.second]
    same_vocabulary = lm.text.tokenizer.get_vocab() == second.text.tokenizer.get_vocab()
    same_tokens = begin.table["id"].equals(begin_second.table["id"]) and np.array_equal(
        begin.states, begin_second.states
    )
    if not same_vocabulary or not np.array_equal(lm.vocabulary, second.vocabulary):
        compared = "The two models have different vocabularies. Their losses per token are not comparable, and no difference is given."
    elif not same_tokens:
        compared = (
            "The two models do not cut the same tokens from the same passages, so that no paired difference is formed."
        )
    else:
        points = 100 * (hits[p.second] - hits[p.model])
        compared = (
            f"{p.second} less {p.model}, passage by passage: in the loss {paired(losses[p.model], losses[p.second])} (nats per "
            f"token); in top-1 {interval(mean_interval(points), '{:+.1f}')} percentage points."
        )
        glue("figure-losses", figures.loss_against_loss(pd.DataFrame(losses)))
glue("compared", compared, display=False)

# %% [markdown]
# For *{glue:text}`model`* the loss is {glue:text}`loss` nats per token, which is a perplexity of {glue:text}`perplexity`, where a uniform
# guess would lose {glue:text}`uniform` nats. It finds the true token likeliest at {glue:text}`top-1` of the positions.
# {glue:text}`compared` Brackets are 95 % Student intervals over passages; those of the perplexity are the limits of the loss,
# exponentiated. The figures belong to these passages and this $n$. Held-out text of the kind that the two models of the repository were trained on
# is scored in their model cards, `data/models/glauber-tiny/README.md` and `data/models/glauber-mini/README.md`.
#
# ## How they were trained
#
# The recipe of the two models of the repository is `data/models/train/README.md`. It writes a log with the loss on fixed held-out batches. There
# several tokens are masked at once and some of the others are wrong, so that it is not the loss of the table above.

# %% tags=["hide-input"]
logs = {run: log for name in models for run, log in training_logs(name).items()}
runs = pd.DataFrame([training_summary(log) for log in logs.values()], index=list(logs))
sentences = [
    f"{run}: {row['last']:.3f} nats after {row['tokens'] / 1e6:.1f} million tokens and {row['hours']:.1f} hours"
    for run, row in runs.iterrows()
]
falls = [f"{run} {row['change']:+.3f} nats" for run, row in runs.iterrows()]
glue("trained", "; ".join(sentences) if logs else "no model of this run has a log in its folder", display=False)
glue("falls", ", ".join(falls) if logs else "nothing to tell", display=False)
if logs:
    glue("figure-training", figures.training_curves(logs))

# %% [markdown]
# The last held-out loss, by run: {glue:text}`trained`. Over the last tenth of the tokens it changed by: {glue:text}`falls`. The hours are
# those of that run on its machine, beside other work; the tokens are those of the run alone, not of the model that it started from. In the
# log of glauber-mini the learning rate goes up more than once; the loss rises there. A line that enters the figure from above begins out of its range.
#
# ## What a step costs

# %% tags=["hide-input"]
cost = measured[(measured["model"] == "glauber-mini") & (measured["quantity"] == "time over glauber-tiny")]


def ratio(engine):
    """Time over glauber-tiny at temperature 1, or a dash where it was not measured."""
    rows = cost[(cost["engine"] == engine) & (cost["temperature"] == 1.0)]
    return interval(rows.iloc[0], "{:.2f}", value="value") if len(rows) else "–"


glue("cost-direct", ratio("direct"), display=False)
glue("cost-lazy", ratio("lazy"), display=False)
glue("machine", str(cost["machine"].iloc[0]) if len(cost) else "–", display=False)
glue("threads", int(cost["threads"].iloc[0]) if len(cost) else "–", display=False)
glue("measured-on", str(cost["measured"].iloc[0]) if len(cost) else "–", display=False)
shown = cost[["engine", "temperature", "chains", "n", "repetitions"]].rename(columns={"temperature": "τ"})
# The unit of a run says after a comma how long it was; that of a step says no more.
shown.insert(1, "timed", cost["unit"].str.partition(", ")[2].replace("", "a step"))
ratios = [interval(row, "{:.2f}", value="value") for _, row in cost.iterrows()]
table(shown.assign(**{"time of glauber-mini over glauber-tiny": ratios}), {"τ": "{:g}"})

# %% [markdown]
# From the table that `make bench` writes, measured on {glue:text}`machine` with {glue:text}`threads` threads, {glue:text}`measured-on`,
# for the two models of the repository, whichever this page is run with. For `direct` it is the time of one step, for `lazy` that of a
# whole run, in which each model asks for the forwards that its own chains need. Both models run in one process, in turn; ratios are formed within
# a turn, and brackets are the middle half of the repetitions. At $\tau$ = 1 a step of `direct` takes glauber-mini {glue:text}`cost-direct`
# times as long as glauber-tiny, and a run of `lazy` {glue:text}`cost-lazy` times. The page on [speed](speed.ipynb) has the rest of the table.
#
# ## The choice
#
# The book's own chapters use `glauber-tiny`. Their precision is bought with steps: more chains and longer ones make the intervals narrower.
# At $\tau$ = 1 glauber-mini takes {glue:text}`cost-direct` times as long for a step of `direct`, and {glue:text}`cost-lazy` times for a run of
# `lazy`, the default engine; in the same time it takes that many times fewer steps. What a chapter finds belongs to its model, so each has a section "A second
# model", which repeats the main measurement on glauber-mini. This build found:
#
# - [Incompatibility](incompatibility.ipynb): {glue:text}`incompatibility.ipynb::difference:s`
# - [Contraction](contraction.ipynb): {glue:text}`contraction.ipynb::difference:s`
# - [Escape](escape.ipynb): {glue:text}`escape.ipynb::compared:s`
# - [Transition](transition.ipynb): {glue:text}`transition.ipynb::crossovers:s`
# - [Basins](basins.ipynb): {glue:text}`basins.ipynb::compared:s`
#
# The two models differ in their size and in their training, and none of this can say which of these is the reason for a difference. Any chapter
# runs on the larger model with `-p model glauber-mini`: see [re-execute for your model](../book/rerun.md).
#
# ## Provenance

# %% tags=["hide-input"]
table(provenance(lm, p.model_dump(), started, second))
