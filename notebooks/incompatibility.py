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
# (chapter-incompatibility)=
# # Incompatibility: no joint law fits
#
# **Claim.** A masked language model gives one conditional law for each position. If they came from one joint law over
# sentences, then going round a rectangle of tokens by two routes would give the same log ratio
# ({prf:ref}`theorem-rectangle`). For every masked model that the paper tested it does not; for a causal model it does.
#
# Here the rectangle test is run on one masked model and on a causal control, and three further questions are asked that
# the paper does not ask: how irreversible is the chain where it lives, does the order of the updates matter, and how far
# is the nearest joint law?

# %% tags=["parameters", "hide-input"]
model = "glauber-tiny"
other = "glauber-mini"
control = ""
passages = "embedded"
starts = 24
n = 32
max_dropped = 0.1
temperature = 1.0
pairs = 20
candidates = 5
chains = 16
steps = 6000
windows = 5
seed = 1
device = "auto"
dtype = "float32"

# %% tags=["hide-input"]
from typing import Annotated, Self

from pydantic import Field, model_validator

from glauber.parameters import Count, Parameters, Temperature, validate


class IncompatibilityParameters(Parameters):
    control: str
    temperature: Temperature
    pairs: Count
    candidates: Annotated[int, Field(ge=2)]
    chains: Count
    steps: Count
    windows: Count

    @model_validator(mode="after")
    def windows_fit(self) -> Self:
        if self.windows > self.steps:
            raise ValueError(f"windows = {self.windows} must be at most steps = {self.steps}")
        return self


p = validate(IncompatibilityParameters, globals())

# %% tags=["hide-input"]
import time

import numpy as np
import pandas as pd
from IPython.display import Markdown, display
from myst_nb import glue
from scipy import stats

import glauber
from glauber import engines, exact, figures
from glauber import incompatibility as inc
from glauber.passages import account, common_states, read_passages, starting_states
from glauber.provenance import provenance
from glauber.report import beside_paper, by_model, interval, mean_interval, paired, paper_value, table

started = time.time()
figures.use_style()
lm = glauber.load_model(p.model, device=p.device, dtype=p.dtype)
lm.check_length(p.n)
causal = glauber.load_control(p.control, lm.text.tokenizer, device=p.device, dtype=p.dtype, seed=p.seed)
causal.check_length(p.n)
second = glauber.load_model(p.second, device=p.device, dtype=p.dtype) if p.second else None
if second:
    second.check_length(p.n)
both = [lm] + ([second] if second else [])
begin, *rest = common_states(
    [m.text.encode for m in both], read_passages(p.passages), p.n, p.starts, max_dropped=p.max_dropped
)
begin_second = rest[0] if rest else begin
begin_causal = starting_states(causal.text.encode, read_passages(p.passages), p.n, p.starts, max_dropped=p.max_dropped)
glue("model", p.model, display=False)
glue("control", causal.name, display=False)
glue("passages", len(begin.states), display=False)
glue(
    "account",
    account(dict(zip([m.name for m in both], [begin, *rest], strict=True)) | {causal.name: begin_causal}),
    display=False,
)
glue("n", p.n, display=False)
glue("tau", p.temperature, display=False)
glue("k", p.candidates, display=False)

# %% [markdown]
# ## The rectangle test
#
# Starting texts: {glue:text}`account`. Each of {glue:text}`passages` passages gives
# random pairs of positions, and each position of a pair gets {glue:text}`k` candidate tokens. Which candidates is a
# choice that the number depends on, so three are shown: drawn from the model's own conditional at
# $\tau$ = {glue:text}`tau`, its likeliest, and drawn uniformly from the vocabulary.

# %% tags=["hide-input"]
grids = {
    scheme: inc.measure(
        lm, begin.states, pairs=p.pairs, candidates=p.candidates, scheme=scheme, temperature=p.temperature, seed=p.seed
    )
    for scheme in inc.SCHEMES
}
rectangles = {scheme: inc.rectangle_table(grid, p.temperature) for scheme, grid in grids.items()}

# %% [markdown]
# **What rounding alone can do.** The masked model's own $D$ is computed a second time in float64 (where it is float64 already, one row
# a batch), on some of the same rectangles. The largest difference seen is the noise floor: the largest of these rectangles, no bound.
#
# **What the control checks.** The causal control is *{glue:text}`control`*. Both routes round a rectangle read $\log p$ of the same four
# texts, so that its $D$ vanishes identically, as it would for any function of the text in place of $\log p$, trained or not. A $D$
# of 0 there says that the signs, indices and sums of the test are right. It is no evidence that rounding is small, and the noise
# floor does not rest on it.

# %% tags=["hide-input"]
control_pairs = max(1, p.pairs // 10)
control_grids = inc.measure(
    causal, begin_causal.states, pairs=control_pairs, candidates=p.candidates, temperature=p.temperature, seed=p.seed
)
control_rectangles = inc.rectangle_table(control_grids, p.temperature)
few = grids["conditional"].take(np.arange(len(grids["conditional"].i)) % p.pairs < control_pairs)
lm64 = glauber.load_model(p.model, device="cpu", dtype="float64")
double = p.dtype == "float64"
compared = f"{p.dtype} against float64" + (", one row a batch" if double else "")
again = glauber.load_model(p.model, device="cpu", dtype="float64", budget=1) if double else lm64
few64 = inc.remeasure(again, begin.states, few)
noise = inc.noise_floor(few, few64, compared)
floor = float(noise["max"].iloc[0]) / p.temperature
glue("floor", f"{floor:.1e} nats" if floor else "0 nats (no rounding seen)", display=False)
glue("floor-rectangles", f"{int(noise['rectangles'].iloc[0]):,}", display=False)
table(noise, {"median": "{:.1e}", "max": "{:.1e}", "rectangles": "{:,}"}, {"median": "nats", "max": "nats"})

# %% tags=["hide-input"]
figure = figures.discrepancy_distribution(
    {
        f"{p.model}, {p.dtype}": rectangles["conditional"]["D"],
        f"{p.model}, {compared}": (inc.rectangle_table(few)["D"] - inc.rectangle_table(few64)["D"]) / p.temperature,
        f"{causal.name}, {p.dtype}": control_rectangles["D"],
    },
    floor,
)
glue("figure-discrepancy", figure)

# %% tags=["hide-input"]
summaries = {
    f"{p.model}, {scheme} candidates": inc.summarise(rows, floor, seed=p.seed) for scheme, rows in rectangles.items()
}
summaries[f"control: {causal.name}"] = inc.summarise(control_rectangles, floor, seed=p.seed)
main = summaries[f"{p.model}, conditional candidates"].set_index("statistic")
for key, name in {
    "mean-D": "mean |D|",
    "median-D": "median |D|",
    "share": "share above the noise floor",
    "delta-mean": "normalised, mean of ratios",
    "delta-ratio": "normalised, ratio of means",
}.items():
    glue(key, interval(main.loc[name], "{:.2%}" if key == "share" else "{:.3f}"), display=False)
glue("rectangles", f"{int(main['rectangles'].iloc[0]):,}", display=False)
CLEAR = 10  # times the floor: what we call far above it
size = rectangles["conditional"]["D"].abs()
clear = float((size > CLEAR * floor).mean())
median = main.loc["median |D|", "estimate"]
glue("clear-times", CLEAR, display=False)
glue("clear", f"{clear:.2%}", display=False)
glue(
    "above",
    f"{median / floor:,.0f} times that floor" if floor else "not to be compared with a floor of 0",
    display=False,
)
verdict = "its conditionals fit no joint law, at any temperature"
if not clear:
    verdict = f"no rectangle is over {CLEAR} times the noise floor, so that the test does not decide"
glue("verdict", verdict, display=False)
glue("control-D", float(control_rectangles["D"].abs().max()), display=False)
glue("control-rectangles", f"{len(control_rectangles):,}", display=False)

# %% [markdown]
# The figure shows how far apart the two are. On {glue:text}`rectangles` rectangles of *{glue:text}`model`* the mean $|D|$
# is {glue:text}`mean-D` nats (brackets: 95 % bootstrap intervals over passages) and the median
# {glue:text}`median-D` nats. The noise floor is {glue:text}`floor`, seen on {glue:text}`floor-rectangles` of them:
# {glue:text}`share` of the rectangles lie above it, {glue:text}`clear` above {glue:text}`clear-times` times it, and the median is
# {glue:text}`above`. The largest $|D|$ of the control on {glue:text}`control-rectangles` rectangles is
# {glue:text}`control-D:.1e` nats. One rectangle is enough to show that no joint law has these conditionals, if
# its $|D|$ is so far above what rounding did here that no rounding can account for it; the argument rests on that margin, since the floor
# is no bound. And since $D_\tau = D/\tau$, no finite temperature repairs it.
#
# ## Beside the paper
#
# The paper prints one $\delta$ per model, and we do not know which normalisation it uses, so all are shown here. Its figures
# are for other models.

# %% tags=["hide-input"]
paper = {
    "paper: BERT-base, RoBERTa, ModernBERT": f"{paper_value('delta_low'):.2f} to {paper_value('delta_high'):.2f}",
    "paper: GPT-2": f"{paper_value('delta_control'):g}",
}
candidates_of = [summaries[f"{p.model}, {scheme} candidates"] for scheme in inc.SCHEMES]
glue(
    "against-paper",
    inc.normalised_against(candidates_of, paper_value("delta_low"), paper_value("delta_high")),
    display=False,
)
table(beside_paper(summaries, paper, "δ printed by the paper"))

# %% [markdown]
# The two normalised forms of *{glue:text}`model`* over the three choices of candidates are {glue:text}`against-paper` by the paper for its models. In nats
# the mean $|D|$ is {glue:text}`near-D` at distance {glue:text}`near-label` (below). Whether the paper's $\delta$ is one of these, we cannot tell.

# %% [markdown]
# ## Two rectangles, worked
#
# The first has the median $|D|$ of all rectangles, the second the 99th percentile: neither is the most extreme.

# %% tags=["hide-input"]
ranked = rectangles["conditional"].assign(size=lambda t: t["D"].abs()).sort_values("size", ignore_index=True)
for label, quantile in {"Median": 0.5, "99th percentile": 0.99}.items():
    row = ranked.iloc[int(quantile * (len(ranked) - 1))]
    display(Markdown(f"**{label}:** *D* = {row['D']:+.3f} nats"))
    display(Markdown("> " + inc.worked_text(grids["conditional"], row, begin.states, lm.text)))
    display(table(inc.worked_rectangle(grids["conditional"], row, lm.text, p.temperature), {"nats": "{:+.3f}"}))

# %% [markdown]
# Both routes lead from the same text to the same text. If the model's conditionals came from one joint law, both sums
# would be the log ratio of the two texts' probabilities.
#
# ## Near and far positions

# %% tags=["hide-input"]
distances = pd.concat([inc.by_distance(rows).assign(scheme=scheme) for scheme, rows in rectangles.items()])
by_bin = list(distances[distances["scheme"] == "conditional"].groupby("distance", observed=True))


def mean_of(rows):
    """Mean |D| of a bin with its interval over passages and its sample size."""
    counts = f"{len(rows)} passages, {int(rows['rectangles'].sum()):,} rectangles"
    return f"{interval(mean_interval(rows['mean |D|'], least=0), '{:.2f}')} nats ({counts})"


glue("near-label", str(by_bin[0][0]), display=False)
glue("near-D", mean_of(by_bin[0][1]), display=False)
glue("far-label", str(by_bin[-1][0]), display=False)
glue("far-D", mean_of(by_bin[-1][1]), display=False)
figure = figures.discrepancy_by_distance(distances)
glue("figure-distance", figure)

# %% [markdown]
# With tokens drawn from the conditionals, the mean $|D|$ goes from {glue:text}`near-D` at distance
# {glue:text}`near-label` to {glue:text}`far-D` at distance {glue:text}`far-label` (95 % Student intervals over the passages that have such a
# pair). As far as the two differ, a mean over random pairs depends on $n$: longer texts have more far pairs.
#
# ## Entropy production: irreversible where it lives
#
# *Our addition.* Round a rectangle, $D/\tau$ is the log ratio of forward to backward transition probabilities, so the chain
# is reversible iff every rectangle vanishes ({prf:ref}`theorem-reversible`). The stationary entropy production per step is
# therefore 0 iff the conditionals are compatible, and it weighs rectangles by how often the chain meets them. Cold chains
# may not have reached their stationary law within this run: read the left of the figure as the production *along these
# chains*.

# %% tags=["hide-input"]
grid_of_tau = p.temperature * np.array([0.5, 1.0, 2.0, 4.0])
copies = -(-p.chains // len(begin.states))
begin_chains = np.tile(begin.states, (copies, 1))[: p.chains]
trace = engines.run(
    lm,
    np.tile(begin_chains, (len(grid_of_tau), 1)),
    temperature=np.repeat(grid_of_tau, p.chains),
    steps=p.steps,
    record_every=p.steps,
    seed=p.seed,
    label="chains",
)
burn_in = p.steps // 2
production = inc.entropy_production(trace, burn_in=burn_in)
in_windows = inc.production_windows(trace, p.windows)
for key, row in {"hot": production.iloc[-1], "base": production.iloc[1]}.items():
    glue(f"sigma-{key}", interval(row, "{:.4f}", value="sigma"), display=False)
    glue(f"tau-{key}", float(row["temperature"]), display=False)
glue("chains", p.chains, display=False)
glue("kept-steps", int(production["steps"].iloc[0]), display=False)
glue("burn-in", burn_in, display=False)
glue("kept-from", burn_in + 1, display=False)
glue("trend", inc.trend(inc.production_trend(trace, burn_in)), display=False)
glue("kept-to", p.steps, display=False)
figure = figures.production_curve(production, in_windows)
glue("figure-production", figure)

# %% [markdown]
# Means over {glue:text}`chains` chains of {glue:text}`kept-steps` steps each, after {glue:text}`burn-in` steps of
# burn-in, with 95 % Student intervals over chains. Along these chains, over steps {glue:text}`kept-from` to {glue:text}`kept-to`, which are not known to
# be stationary, the production is {glue:text}`sigma-hot` nats per step at $\tau$ = {glue:text}`tau-hot:g` and
# {glue:text}`sigma-base` at $\tau$ = {glue:text}`tau-base:g`. The right panel cuts the whole run, burn-in included, into
# windows of equal length, since a start far from equilibrium adds to the production: {glue:text}`trend`.
#
# ## The order of the updates matters
#
# *Our addition.* On a small space everything is exact: three neighbouring positions of a passage are free, each restricted
# to the tokens that the model finds likeliest there, and the rest is clamped. Compatible conditionals have the same
# stationary law whether sites are updated at random, left to right or right to left.

# %% tags=["hide-input"]
middle = [p.n // 2 - 1, p.n // 2, p.n // 2 + 1] if p.n > 2 else [0, 1]
k_small = min(4, p.candidates)
rows, both_ways = [], ["end_of_sweep", "phase_averaged"]
for name, source, texts in ((p.model, lm64, begin.states), (causal.name, causal, begin_causal.states)):
    for number, text in enumerate(texts[:6]):
        small = exact.restrict(source, text, middle, k=k_small)
        tables = exact.conditional_tables(small, len(middle))
        sigma = exact.entropy_production(tables, p.temperature)
        rows.append(exact.scan_order(tables, p.temperature).assign(model=name, passage=number, sigma=sigma))
scans = pd.concat(rows)
glue("small-states", k_small ** len(middle), display=False)
means = scans.groupby(["model", "first", "second"], sort=False)[[*both_ways, "sigma"]].mean().reset_index()
turned = scans[(scans["first"] == "forward") & (scans["second"] == "backward")].set_index("model")
glue("scan-end", interval(mean_interval(turned.loc[[p.model], "end_of_sweep"], least=0, most=1)), display=False)
glue("scan-phase", interval(mean_interval(turned.loc[[p.model], "phase_averaged"], least=0, most=1)), display=False)
glue("scan-control", float(turned.loc[[causal.name], both_ways].to_numpy().mean()), display=False)
glue("scan-passages", int(scans["passage"].nunique()), display=False)
table(
    means.rename(columns={"end_of_sweep": "end of sweep", "phase_averaged": "phase-averaged", "sigma": "σ exact"}),
    dict.fromkeys(["end of sweep", "phase-averaged", "σ exact"], "{:.1e}"),
    {"end of sweep": "TV", "phase-averaged": "TV", "σ exact": "nats per step"},
)

# %% [markdown]
# Total variation between the stationary laws of the scans, and the exact entropy production of random scan, averaged over
# {glue:text}`scan-passages` passages on spaces of {glue:text}`small-states` states. At the end of a sweep left to right and right to left
# differ by {glue:text}`scan-end` for *{glue:text}`model`* (95 % Student interval over passages). Part of that is not order but phase: a
# systematic scan has one stationary law after each of its updates, and the two scans end their sweeps at different sites. Averaged over the phases they differ by
# {glue:text}`scan-phase`; the control, whose conditionals come from one law, by {glue:text}`scan-control:.0e` either way. "The"
# stationary law of a masked model is a law of the model *and the scan*, and for a systematic scan of the phase too.
#
# ## The nearest joint law
#
# *Our addition.* On each grid of tokens, the joint law whose conditionals are nearest to the model's (least summed
# Kullback–Leibler divergence, a convex problem, solved up to the optimiser's tolerance) still misses them by some total variation. The
# conditionals are renormalised to the {glue:text}`k` candidate tokens of each position: what the model gives to all other tokens plays no part.

# %% tags=["hide-input"]
left_over = inc.nearest_joints(
    grids["conditional"].take(np.arange(len(grids["conditional"].i)) % p.pairs < 5), p.temperature
)
shown = (
    left_over[["kl", "tv_mean", "tv_max"]].quantile([0.5, 0.9, 0.99]).rename_axis("quantile over grids").reset_index()
)
by_passage = left_over.set_index("passage")["tv_mean"]
median_tv = pd.Series({"estimate": by_passage.median(), "low": np.nan, "high": np.nan})
if len(by_passage.index.unique()) > 1:
    limits = stats.bootstrap(
        (by_passage.index.unique().to_numpy(),), lambda chosen: by_passage.loc[chosen].median(), vectorized=False,
        n_resamples=499, method="percentile", rng=np.random.default_rng(p.seed),
    ).confidence_interval  # fmt: skip
    median_tv["low"], median_tv["high"] = limits.low, limits.high
glue("tv-median", interval(median_tv, "{:.4f}"), display=False)
glue("joint-passages", int(left_over["passage"].nunique()), display=False)
glue("tv-high", float(left_over["tv_max"].quantile(0.99)), display=False)
glue("joint-grids", len(left_over), display=False)
table(
    shown,
    {"quantile over grids": "{:g}", "kl": "{:.1e}", "tv_mean": "{:.4f}", "tv_max": "{:.4f}"},
    {"kl": "nats"},
)

# %% [markdown]
# Over {glue:text}`joint-grids` grids the median remaining total variation is {glue:text}`tv-median` (mean over the
# conditionals of a grid; 95 % bootstrap interval over {glue:text}`joint-passages` passages); the 99th percentile over these grids of the
# worst conditional's is {glue:text}`tv-high:.2f`.
#
# ## A second model
#
# The same test on another model, with the same settings, passages and seed: {glue:text}`second`. Candidates are drawn from the conditionals of
# the model that is tested.

# %% tags=["hide-input"]
tested = {p.model: (rectangles["conditional"], left_over)}
difference = "There is no second model to compare with."
if second:
    grid = inc.measure(
        second, begin_second.states, pairs=p.pairs, candidates=p.candidates, temperature=p.temperature, seed=p.seed
    )
    joints = inc.nearest_joints(grid.take(np.arange(len(grid.i)) % p.pairs < 5), p.temperature)
    tested[second.name] = (inc.rectangle_table(grid, p.temperature), joints)
    difference = "The two models cut the passages into different tokens, so that no paired difference is formed."
    if np.array_equal(begin.states, begin_second.states):
        each = [rows.assign(size=rows["D"].abs()).groupby("passage")["size"].mean() for rows, _ in tested.values()]
        difference = f"The mean |D| of {second.name} less that of {p.model} is {paired(*each)} (nats; 95 % Student interval over passages)."
columns = {}
for name, (rows, joints) in tested.items():
    told = inc.summarise(rows, floor, seed=p.seed).set_index("statistic").drop("share above the noise floor")
    columns[name] = {
        **{f"{key} ({row['unit']})" if row["unit"] else key: interval(row) for key, row in told.iterrows()},
        "mean total variation to the nearest joint law": interval(
            mean_interval(joints.groupby("passage")["tv_mean"].mean(), least=0, most=1), "{:.4f}"
        ),
        "rectangles": f"{len(rows):,}",
    }
glue("second", second.name if second else "none was given, and the table has one column", display=False)
glue("difference", difference, display=False)
table(by_model(columns))

# %% [markdown]
# {glue:text}`difference` In the table, 95 % bootstrap intervals over passages; for the total variation, the mean over passages with Student's
# interval.
#
# ## What this shows, and what it does not
#
# For *{glue:text}`model`* the outcome is: {glue:text}`verdict`. The median $|D|$ is
# {glue:text}`median-D` nats, where the most that rounding was seen to do is {glue:text}`floor`. It does not show that the misfit is large
# where it matters to a user: on half of the grids a joint law comes within a total variation of {glue:text}`tv-median` of the
# conditionals, renormalised to the candidate tokens. The numbers belong to this model, these passages and these choices of candidates.
#
# ## Provenance

# %% tags=["hide-input"]
table(provenance(lm, p.model_dump(), started, second))
