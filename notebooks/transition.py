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
# (chapter-transition)=
# # Transition: mixing against temperature and length
#
# **Claim.** Hot chains forget their start in about $C(\tau)\, n \log n$ steps; cold ones stay for thousands. The paper finds the
# crossover at $\tau$ of about {glue:text}`paper-low` to {glue:text}`paper-high` for its models, moving up with the number $n$ of
# free positions.
#
# Two clocks are read here at every $\tau$ and $n$ of a grid: the **coupling time** of two chains from passages on different
# topics, whose sites are shared and whose tokens are coupled maximally, and the **drift time** after which one chain's text is
# further in meaning from its start than the closest {glue:text}`quantile:.0%` of the pairs of passages on different topics are from each other. A run that is not over within the
# budget is *censored*: it is counted as longer than the budget, neither left out nor set to it.

# %% tags=["parameters", "hide-input"]
model = "glauber-tiny"
other = "glauber-mini"
passages = "embedded"
starts = 24
n = 16
max_dropped = 0.1
lengths = [8, 16, 32]
temperatures = [0.3, 0.6, 1.0, 1.5, 1.75, 2.0, 2.5, 3.5, 5.0]
pairs = 16
scales = 10.0
chains = 8
chain_scales = 8.0
factor = 5.0
quantile = 0.05
looks = 4
resamples = 200
spaces = 6
groups = 1000
embedder = "default"
trust_remote_code = False
directory = ""
seed = 1
device = "auto"
dtype = "float32"

# %% tags=["hide-input"]
from typing import Annotated

from pydantic import AfterValidator, Field

from glauber.parameters import Count, Parameters, Temperature, distinct, validate


class TransitionParameters(Parameters):
    lengths: Annotated[list[Annotated[int, Field(ge=2)]], Field(min_length=2), AfterValidator(distinct)]
    temperatures: Annotated[list[Temperature], Field(min_length=3), AfterValidator(distinct)]
    pairs: Annotated[int, Field(ge=2)]
    scales: Annotated[float, Field(gt=0, le=1e6)]
    chains: Annotated[int, Field(ge=2)]
    chain_scales: Annotated[float, Field(gt=0, le=1e6)]
    factor: Annotated[float, Field(gt=1, le=1e6)]
    quantile: Annotated[float, Field(gt=0, lt=1)]
    looks: Count
    resamples: Annotated[int, Field(ge=2)]
    spaces: Count
    groups: Count
    embedder: str
    trust_remote_code: bool
    directory: str


p = validate(TransitionParameters, globals())

# %% tags=["hide-input"]
import re
import time

import numpy as np
import pandas as pd
from myst_nb import glue

import glauber
from glauber import exact, figures, survival
from glauber import transition as tr
from glauber.embeddings import load_embedder
from glauber.figures import transition as draw
from glauber.passages import account, common_states, read_passages
from glauber.provenance import provenance
from glauber.report import by_model, paper_value, table

started = time.time()
figures.use_style()
lm = glauber.load_model(p.model, device=p.device, dtype=p.dtype)
embed = load_embedder(p.embedder, device=p.device, trust_remote_code=p.trust_remote_code)
lengths = sorted({*p.lengths, p.n})
lm.check_length(lengths[-1], "the longest of n and lengths")
second = glauber.load_model(p.second, device=p.device, dtype=p.dtype) if p.second else None
if second:
    second.check_length(lengths[-1], "the longest of n and lengths")
taus = sorted(p.temperatures)
# All lengths are cut from the same passages, so that a pair differs between lengths by its length alone.
both = [lm] + ([second] if second else [])
begin, *rest = common_states(
    [m.text.encode for m in both], read_passages(p.passages), lengths[-1], p.starts, max_dropped=p.max_dropped
)
begin_second = rest[0] if rest else begin
topics = begin.table["topic"].tolist()
shortest = [states.states[:, : lengths[0]] for states in (begin, begin_second)]
couples, equal = tr.pairs_of_topics(topics, p.pairs, p.seed, shortest)
singles = np.resize(np.random.default_rng(p.seed).permutation(len(begin.states)), p.chains)
directory = p.directory or None
paper = (paper_value("crossover_low"), paper_value("crossover_high"))
glue("paper-low", f"{paper[0]:g}", display=False)
glue("paper-high", f"{paper[1]:g}", display=False)
glue("model", p.model, display=False)
glue("passages", len(begin.states), display=False)
glue("account", account(dict(zip([m.name for m in both], [begin, *rest], strict=True))), display=False)
glue("n", p.n, display=False)
glue("n-short", lengths[0], display=False)
glue("n-long", lengths[-1], display=False)
glue("lengths", ", ".join(str(length) for length in lengths), display=False)
glue("temperatures", len(taus), display=False)
glue("tau-cold", f"{taus[0]:g}", display=False)
glue("tau-hot", f"{taus[-1]:g}", display=False)
glue("pairs", p.pairs, display=False)
glue("equal", equal, display=False)
glue("chains", p.chains, display=False)
glue("scales", f"{p.scales:g}", display=False)
glue("chain-scales", f"{p.chain_scales:g}", display=False)
glue("factor", f"{p.factor:g}", display=False)
glue("resamples", p.resamples, display=False)


def number(value, form="{:.0f}"):
    """A number as text; one that is not known says so."""
    return form.format(value) if np.isfinite(value) else "not known"


def between(low, high, form="{:.2f}"):
    """An interval as text. An end outside of what was tried is named as open."""
    if np.isnan(low) and np.isnan(high):
        return "no interval: too many resamples have no fit"
    left = form.format(low) if np.isfinite(low) else "open"
    return f"{left} to {form.format(high) if np.isfinite(high) else 'open'}"


# %% [markdown]
# ## Coupling times
#
# Starting texts: {glue:text}`account`.
#
# {glue:text}`pairs` pairs of passages, each pair from two topics, at $n$ = {glue:text}`lengths` and {glue:text}`temperatures`
# temperatures from {glue:text}`tau-cold` to {glue:text}`tau-hot`, with a budget of {glue:text}`scales` $n \log n$ steps a run.
# A pair has the same random streams at every temperature and the same two passages, cut shorter, at every length.
# Pairs whose two passages are equal at the shortest length are left out, since they have met before the first step: {glue:text}`equal` of all pairs of
# different topics.

# %% tags=["hide-input"]
times = tr.meeting_grid(
    lm,
    {length: begin.states[couples, :length] for length in lengths},
    taus,
    scales=p.scales,
    seed=p.seed,
    directory=directory,
    label="pairs",
)
medians = survival.medians(times, ["n", "temperature"])
level = tr.level(times, resamples=p.resamples, seed=p.seed)
stars = tr.crossover(times, factor=p.factor, resamples=p.resamples, seed=p.seed)
glue("runs", len(times), display=False)
glue("censored", float(times["censored"].mean()), display=False)
glue("lost-cells", int(np.isinf(medians["median"]).sum()), display=False)
glue("cells", len(medians), display=False)
figure = draw.mixing_map(medians, stars, p.scales)
glue("figure-map", figure)

# %% [markdown]
# Each cell is the Kaplan-Meier median of {glue:text}`pairs` pairs in units of $n \log n$ steps, with the share of runs that were cut by
# the budget. {glue:text}`censored:.0%` of all {glue:text}`runs` runs are censored; {glue:text}`lost-cells` of
# {glue:text}`cells` cells have no median, because half of their pairs or more never met, and are grey. The bars are the crossover,
# defined below.

# %% tags=["hide-input"]
figure = draw.median_curves(medians, "median coupling time")
glue("figure-coupling", figure)

# %% tags=["hide-input"]
names = {"low": "from", "high": "to", "count": "pairs", "budget": "longest run", "interval": "limits by"}
shown = medians.assign(low=medians["low"].where(medians["low"] > 0)).replace(np.inf, np.nan).rename(columns=names)
steps = {"median": "steps", "from": "steps", "to": "steps", "longest run": "steps"}
table(
    shown,
    {"temperature": "{:g}", **dict.fromkeys(steps, "{:.0f}"), "censored": "{:.0%}"},
    steps,
)

# %% [markdown]
# Medians with 95 % intervals, by order statistics where those that they need were seen before any run was cut, else Brookmeyer and Crowley's from log-log limits
# of the Kaplan-Meier curve. A dash is a value above the budget, or a limit that is open: too few pairs have none. Where runs were cut, the longest run is the budget.
#
# ## How the time grows with length
#
# At each temperature three laws of growth are fitted to the times of all lengths at once: the median time is $C\, n \log n$, or
# $a\, n^b$, or $a\, e^{bn}$, times are log-normal around it, and a censored run contributes the probability of lasting
# longer than its budget. The table gives Akaike's criterion above the best of the three; a difference below 2 says nothing.

# %% tags=["hide-input"]
aic = tr.compare(times)
wide = aic.pivot_table(index="temperature", columns="growth", values="delta", sort=False).rename_axis(columns=None)
wide = wide.reindex(columns=list(tr.GROWTHS)).reset_index()
power = level.set_index("temperature").reindex(wide["temperature"])
wide["exponent b of n^b"] = [
    f"{row.exponent:.2f} [{between(row.exponent_low, row.exponent_high)}]" for row in power.itertuples()
]
wide["censored"] = power["censored"].to_numpy()
hot = level.iloc[-1]
known = level.dropna(subset=["C"])
coldest = known.iloc[0] if len(known) else hot
glue("fitted-from", f"{wide['temperature'].min():g}" if len(wide) else "none", display=False)
glue("hot-C", number(hot["C"], "{:.2f}"), display=False)
glue("hot-C-interval", between(hot["low"], hot["high"]), display=False)
glue("hot-exponent", number(hot["exponent"], "{:.2f}"), display=False)
glue("hot-exponent-interval", between(hot["exponent_low"], hot["exponent_high"]), display=False)
glue("cold-C", number(coldest["C"], "{:.1f}"), display=False)
glue("cold-C-interval", between(coldest["low"], coldest["high"], "{:.1f}"), display=False)
glue("cold-C-tau", f"{coldest['temperature']:g}", display=False)
glue("cold-C-censored", float(coldest["censored"]), display=False)
glue("best-hot", wide.iloc[-1][list(tr.GROWTHS)].astype(float).idxmin() if len(wide) else "none", display=False)
table(
    wide,
    {"temperature": "{:g}", **dict.fromkeys(tr.GROWTHS, "{:.1f}"), "censored": "{:.0%}"},
)

# %% tags=["hide-input"]
figure = draw.residual_plot(tr.residuals(times))
glue("figure-residuals", figure)

# %% [markdown]
# At $\tau$ = {glue:text}`tau-hot` the fitted constant is $C$ = {glue:text}`hot-C` (95 % interval {glue:text}`hot-C-interval`, by
# {glue:text}`resamples` resamples of the {glue:text}`pairs` pairs) and the exponent of a free power is {glue:text}`hot-exponent`
# ({glue:text}`hot-exponent-interval`); of the three laws, *{glue:text}`best-hot`* has the lowest criterion there. The lengths span only
# {glue:text}`n-short` to {glue:text}`n-long`, and over such a range $n \log n$ is close to a power itself. In the residuals, medians that rise with $n$
# at a temperature (short bars) mean that the time grows faster than $n \log n$ there: the crossover moves with $n$.
#
# ## The crossover
#
# **Definition** (ours). $\tau^*(n)$ is the temperature at which the median coupling time is {glue:text}`factor` times its
# high-temperature level, $C(\tau)$ at $\tau$ = {glue:text}`tau-hot`. It is where the share of pairs that need longer than
# {glue:text}`factor` $C n \log n$ steps passes one half, made monotone in $\tau$ and interpolated in $\log \tau$. Where the budget is above
# that threshold, a censored run is known to be longer, and nothing is extrapolated; where it is not, there is no estimate, and the table says why.

# %% tags=["hide-input"]
figure = draw.level_curve(level, stars, paper, p.scales)
glue("figure-level", figure)

# %% tags=["hide-input"]
star_rows = stars.set_index("n")
first, last = star_rows.loc[lengths[0]], star_rows.loc[lengths[-1]]
glue("star-short", number(first["tau_star"], "{:.2f}"), display=False)
glue("star-short-interval", first["reason"] or between(first["low"], first["high"]), display=False)
glue("star-long", number(last["tau_star"], "{:.2f}"), display=False)
glue("star-long-interval", last["reason"] or between(last["low"], last["high"]), display=False)
found = star_rows["tau_star"].notna()
shift = tr.crossover_shift(times, factor=p.factor, resamples=p.resamples, seed=p.seed)
told = "the two cannot be compared"
if np.isfinite(shift["estimate"]):
    apart = "leaves 0 out" if shift["low"] > 0 or shift["high"] < 0 else "holds 0"
    told = f"over the same pairs the difference is {shift['estimate']:+.2f} ({between(shift['low'], shift['high'], '{:+.2f}')}), which {apart}"
    if np.isnan([shift["low"], shift["high"]]).any():
        told = f"the difference is {shift['estimate']:+.2f}, with no interval"
crossing = f"{p.factor:g} times that at τ* = " + ", ".join(
    f"{row['tau_star']:.2f} for n = {n}" for n, row in star_rows[found].iterrows()
)
if not found.any():
    crossing = f"at no length known to be {p.factor:g} times that at some temperature of the grid, so that no crossover was found"
beside = tr.beside_paper(times, stars)
fast = beside[beside["quantity"] == "fast mixing"]
unmet = sorted({f"{share:.0%}" for share in fast["estimate"]}, key=lambda text: float(text[:-1]))
glue("fast-from", f"{paper_value('fast_from'):g}", display=False)
glue("fast-tau", ", ".join(sorted({f"{tau:g}" for tau in fast["temperature"]})), display=False)
glue("unmet", f"{unmet[0]} to {unmet[-1]}" if len(unmet) > 1 else unmet[0], display=False)
glue("star-apart", told, display=False)
glue("crossing", crossing, display=False)
table(
    stars.rename(columns={"tau_star": "τ*", "low": "from", "high": "to", "below": "grid below", "above": "grid above"}),
    {
        **dict.fromkeys(["τ*", "from", "to"], "{:.2f}"),
        "grid below": "{:g}",
        "grid above": "{:g}",
        "threshold": "{:.0f}",
    },
    {"threshold": "steps"},
)

# %% [markdown]
# $\tau^*$ is {glue:text}`star-short` ({glue:text}`star-short-interval`) at $n$ = {glue:text}`n-short` and
# {glue:text}`star-long` ({glue:text}`star-long-interval`) at $n$ = {glue:text}`n-long`; {glue:text}`star-apart`.
# The paper's {glue:text}`paper-low` to {glue:text}`paper-high` are for other, larger models, and its definition of the
# crossover is not at hand: the shaded band is context, not a test. The coldest temperature at which $C$ can still be fitted is
# {glue:text}`cold-C-tau`, with $C$ = {glue:text}`cold-C` ({glue:text}`cold-C-interval`) and
# {glue:text}`cold-C-censored:.0%` of the runs censored; where most are, $C$ leans on the log-normal law beyond the budget.
#
# The paper calls mixing fast at $\tau$ of about {glue:text}`fast-from` and above. At $\tau$ = {glue:text}`fast-tau`, the nearest of this grid,
# {glue:text}`unmet` of the pairs had not met within {glue:text}`scales` $n \log n$ steps, by length:

# %% tags=["hide-input"]
table(beside[["quantity", "n", "paper", "ours"]].rename(columns={"ours": p.model}))

# %% [markdown]
# ## The semantic clock
#
# Texts are embedded by the sentence model *{glue:text}`embedder`*. The threshold is the {glue:text}`quantile:.0%` quantile of the distances between the
# passages themselves, over pairs of different topics and at each length: a text beyond it is as far from its start as the nearest of unrelated passages are from
# each other, while most unrelated passages are further apart.

# %% tags=["hide-input"]
every = {length: max(1, length // 4) for length in lengths}
traces = tr.chain_grid(
    lm,
    {length: begin.states[singles, :length] for length in lengths},
    taus,
    scales=p.chain_scales,
    record_every=every,
    seed=p.seed,
    directory=directory,
    label="chains",
)
decode = lm.text.decode
thresholds, unrelated = {}, {}
for length in lengths:
    vectors = embed([decode(row.tolist()) for row in begin.states[:, :length]])
    thresholds[length], unrelated[length] = tr.drift_threshold(vectors, topics, p.quantile)
drift = pd.concat(
    tr.drift_times(trace, decode, embed, thresholds[length]).assign(n=length, temperature=tau)
    for (length, tau), trace in traces.items()
)
drift_medians = survival.medians(drift, ["n", "temperature"])
glue("embedder", "all-MiniLM-L6-v2" if p.embedder == "default" else p.embedder, display=False)
glue("quantile", p.quantile, display=False)
glue("threshold-short", thresholds[lengths[0]], display=False)
glue("threshold-long", thresholds[lengths[-1]], display=False)
glue("unrelated", len(unrelated[p.n]), display=False)
glue("unrelated-median", float(np.median(unrelated[p.n])), display=False)
glue("drift-censored", float(drift["censored"].mean()), display=False)
glue("drift-runs", len(drift), display=False)
hot_drift = drift_medians[drift_medians["temperature"] == taus[-1]].set_index("n")["median"]
cold_drift = drift_medians[drift_medians["temperature"] == taus[0]].set_index("n")
glue("drift-hot-sweeps", number(hot_drift[p.n] / p.n, "{:.1f}"), display=False)
cold_median = cold_drift.loc[p.n, "median"]
glue(
    "drift-cold-sweeps",
    f"{cold_median / p.n:.1f}" if np.isfinite(cold_median) else f"over {cold_drift.loc[p.n, 'budget'] / p.n:.0f}",
    display=False,
)
glue("drift-cold-censored", float(cold_drift.loc[p.n, "censored"]), display=False)
figure = draw.median_curves(drift_medians, "median drift time")
glue("figure-drift", figure)

# %% [markdown]
# The threshold is {glue:text}`threshold-short:.2f` at $n$ = {glue:text}`n-short` and {glue:text}`threshold-long:.2f` at $n$ =
# {glue:text}`n-long`; the median of {glue:text}`unrelated` distances at $n$ = {glue:text}`n` is {glue:text}`unrelated-median:.2f`. Of
# {glue:text}`drift-runs` chains, {glue:text}`chains` a cell with a budget of {glue:text}`chain-scales` $n \log n$ steps,
# {glue:text}`drift-censored:.0%` are censored. At $n$ = {glue:text}`n` the median drift time is
# {glue:text}`drift-hot-sweeps` sweeps at $\tau$ = {glue:text}`tau-hot` and {glue:text}`drift-cold-sweeps` sweeps at $\tau$ =
# {glue:text}`tau-cold` ({glue:text}`drift-cold-censored:.0%` censored). Times are known to a quarter of a sweep.
# A hot text drifts within a few sweeps because it turns into word salad: the clock says that the start is left, not
# where the chain goes.

# %% tags=["hide-input"]
distances = {
    (length, tau): tr.semantic_distance(trace, decode, embed, every=max(1, length // every[length] // 2))
    for (length, tau), trace in traces.items()
}
middle = star_rows.loc[p.n, "tau_star"]
critical = taus[int(np.argmin(np.abs(np.array(taus) - middle)))] if np.isfinite(middle) else taus[len(taus) // 2]
panels = {}
for word, tau in (("cold", taus[0]), ("near $\\tau^*$", critical), ("hot", taus[-1])):
    panels[f"{word}, $\\tau$ = {tau:g}"] = distances[p.n, tau]
figure = draw.trajectories(panels, thresholds[p.n], p.n, p.quantile)
glue("figure-trajectories", figure)

# %% [markdown]
# {glue:text}`chains` chains each at $n$ = {glue:text}`n`, from the same passages and on the same random streams, drawn twice a sweep.
#
# ## Other order parameters
#
# What else changes on the same axis, over the second half of the same chains: the share of steps that change the token, the entropy
# production per step (0 for compatible conditionals in equilibrium), the pseudo-log-likelihood per token, the share of looks at
# which every token is its position's argmax, how many distinct such traps were seen, and the autocorrelation time of the
# semantic distance, recorded twice a sweep. Dotted lines are $\tau^*(n)$.

# %% tags=["hide-input"]
order = tr.order_parameters(lm, traces, distances, looks=p.looks)
figure = draw.order_panels(order, stars.set_index("n")["tau_star"])
glue("figure-order", figure)

# %% tags=["hide-input"]
at_n = order[order["n"] == p.n].set_index(["quantity", "temperature"])
acceptance, production = at_n["mean"]["acceptance"], at_n["mean"]["entropy production"]
glue("acceptance-cold", float(acceptance[taus[0]]), display=False)
glue("acceptance-hot", float(acceptance[taus[-1]]), display=False)
glue("production-cold", float(production[taus[0]]), display=False)
glue("production-peak", float(production.max()), display=False)
glue("production-peak-tau", f"{production.idxmax():g}", display=False)
glue("trapped-cold", float(at_n["mean"]["in a perfect trap"][taus[0]]), display=False)
glue("traps-cold", int(at_n["mean"]["distinct perfect traps"][taus[0]]), display=False)
glue("looks", p.looks, display=False)
reasons = at_n["reason"]["autocorrelation time"]
untold = int((reasons != "").sum())
glue("untold", untold, display=False)
glue("untold-why", "; ".join(sorted(set(reasons[reasons != ""]))) or "none", display=False)

# %% [markdown]
# At $n$ = {glue:text}`n`, {glue:text}`acceptance-cold:.1%` of the steps change a token at $\tau$ = {glue:text}`tau-cold` and
# {glue:text}`acceptance-hot:.1%` at $\tau$ = {glue:text}`tau-hot`. The entropy production is largest at $\tau$ = {glue:text}`production-peak-tau`
# ({glue:text}`production-peak:.2f` nats a step). At $\tau$ = {glue:text}`tau-cold`, {glue:text}`trapped-cold:.0%` of
# {glue:text}`looks` looks at each of {glue:text}`chains` chains find a perfect trap, {glue:text}`traps-cold` distinct ones in all. Bars are 95 % Student
# intervals over chains; chains that have not left their start are no sample of equilibrium, so on the cold side these numbers
# describe the run. The autocorrelation time has no meaning at {glue:text}`untold` of the temperatures
# (*{glue:text}`untold-why`*) and is missing there.
#
# ## Three couplings
#
# A coupling bounds the total variation from above only: chains that have not met may well be close in law. How close the bound comes
# depends on the coupling. The maximal coupling makes the two tokens agree as often as any coupling of one step can, but being best
# in each step does not make it best in the long run. The other two draw both tokens from one source, by inverting the cumulative law in the order
# of ids, or by shared Gumbel noise per token; they take any number of chains at a time.

# %% tags=["hide-input"]
near = [tau for tau in taus if tau >= critical][:4]
kinds = [
    tr.meeting_grid(
        lm, {p.n: begin.states[couples, : p.n]}, near, scales=p.scales, seed=p.seed, kind=kind, directory=directory,
        label=kind,
    )
    for kind in ("common", "gumbel")
]  # fmt: skip
same = times[(times["n"] == p.n) & times["temperature"].isin(near)]
kind_medians = survival.medians(pd.concat([same, *kinds]), ["kind", "temperature"])
kind_medians = kind_medians.set_index("kind").loc[["maximal", "common", "gumbel"]].reset_index()
wide_kinds = kind_medians.pivot_table(index="temperature", columns="kind", values="median").replace(np.inf, np.nan)
warmest = wide_kinds.iloc[-1]
at_warmest = kind_medians[kind_medians["temperature"] == near[-1]].set_index("kind")
said = {
    kind: f"{number(row['median'])} ({between(row['low'], row['high'], '{:.0f}')})"
    if np.isfinite(row["median"])
    else f"over {row['budget']:.0f}"
    for kind, row in at_warmest.iterrows()
}
glue("kind-tau", f"{near[-1]:g}", display=False)
glue("kind-maximal", said["maximal"], display=False)
glue("kind-common", said["common"], display=False)
glue("kind-gumbel", said["gumbel"], display=False)
soonest = warmest.dropna().idxmin() if warmest.notna().any() else "none"
glue("kind-soonest", str(soonest), display=False)
figure = draw.coupling_curves(kind_medians, p.n)
glue("figure-kinds", figure)

# %% [markdown]
# At $\tau$ = {glue:text}`kind-tau` and $n$ = {glue:text}`n` the median times in steps, with 95 % intervals, are
# {glue:text}`kind-maximal` (maximal), {glue:text}`kind-common` (common random numbers) and {glue:text}`kind-gumbel` (Gumbel), over the same
# {glue:text}`pairs` pairs; the lowest of the medians is that of *{glue:text}`kind-soonest`*.
#
# ## Where the distance to equilibrium is known
#
# On a few neighbouring positions with a few tokens each, the model's likeliest in a passage, the chain is a matrix ({doc}`theory page </book/theory>`). Left: the exact
# total variation between two starts, and the share of {glue:text}`groups` coupled pairs that have not met. Middle: the inverse spectral gap of
# {glue:text}`spaces` such spaces, one for each of as many passages. Right: the distance to equilibrium from the worst start over time in units of
# $t_{\mathrm{mix}}$, on spaces of two tokens at more and more positions: with cut-off it would tend to a step.

# %% tags=["hide-input"]
near_one, warm, high, low = 1.0, 2.0, 0.75, 0.05
middle = p.n // 2
adjacent = list(range(max(0, middle - 1), min(p.n, middle + 2)))
small = [
    exact.tabulate(exact.restrict(lm, row[: p.n], adjacent, k=8), len(adjacent)) for row in begin.states[: p.spaces]
]
decay = tr.coupling_against_exact(
    small[0], (0, len(small[0].tables[0]) - 1), temperature=near_one, steps=80, groups=p.groups, seed=p.seed
)
gaps = pd.concat(tr.relaxation(space, np.geomspace(0.2, 5, 9)).assign(space=k) for k, space in enumerate(small))
sizes = [size for size in (3, 5, 7, 9) if size <= p.n]
profiles, windows = [], {}
for size in sizes:
    free = list(range((p.n - size) // 2, (p.n - size) // 2 + size))
    space = exact.tabulate(exact.restrict(lm, begin.states[0, : p.n], free, k=2), size)
    profile = tr.mixing_profile(space, warm)
    profiles.append(profile.assign(n=size))
    windows[size] = tr.window(profile, high, low)
glue("space-tau", f"{near_one:g}", display=False)
glue("gap-from", f"{gaps['temperature'].max():g}", display=False)
glue("gap-to", f"{gaps['temperature'].min():g}", display=False)
glue("profile-tau", f"{warm:g}", display=False)
glue("window-high", high, display=False)
glue("window-low", low, display=False)
glue("spaces", len(small), display=False)
glue("groups", f"{p.groups:,}", display=False)
glue("space-states", len(small[0].tables[0]), display=False)
gap_ratio = gaps[gaps["temperature"] == gaps["temperature"].min()]["relaxation"] / (
    gaps[gaps["temperature"] == gaps["temperature"].max()]["relaxation"].to_numpy()
)
glue("relaxation-low", number(gap_ratio.min(), "{:,.0f}"), display=False)
glue("relaxation-high", number(gap_ratio.max(), "{:,.0f}"), display=False)
glue("violations", int((decay["TV"] > decay["high"]).sum()), display=False)
glue("compared", len(decay), display=False)
glue("window-small", windows[sizes[0]], display=False)
glue("window-large", windows[sizes[-1]], display=False)
glue("size-small", sizes[0], display=False)
glue("size-large", sizes[-1], display=False)
figure = draw.ground_truth(decay, gaps, pd.concat(profiles))
glue("figure-truth", figure)

# %% [markdown]
# On the {glue:text}`space-states` states of the left panel, at $\tau$ = {glue:text}`space-tau`, the exact distance exceeds the 95 % interval of the
# coupling estimate at {glue:text}`violations` of {glue:text}`compared` steps. From $\tau$ = {glue:text}`gap-from` down to {glue:text}`gap-to` the
# relaxation time grows by a factor of {glue:text}`relaxation-low` to {glue:text}`relaxation-high` in the {glue:text}`spaces` spaces. At $\tau$ =
# {glue:text}`profile-tau` the fall of $d(t)$ from {glue:text}`window-high` to {glue:text}`window-low` takes
# {glue:text}`window-small:.2f` mixing times at {glue:text}`size-small` positions and {glue:text}`window-large:.2f` at
# {glue:text}`size-large`. These are exact numbers about small spaces: a few positions do not show a phase transition.
#
# ## A second model
#
# The coupling times of another model: {glue:text}`second`. The pairs, streams and budgets are the same; the lengths are those up to $n$ =
# {glue:text}`n`, and the temperatures begin one below the coldest at which a pair of *{glue:text}`model`* met at that length. For the
# comparison the level and the crossover of both models are taken over these lengths alone.

# %% tags=["hide-input"]
shorter = [length for length in lengths if length <= p.n]
warmer = {}
for length in shorter:
    met = times.loc[(times["n"] == length) & ~times["censored"].astype(bool), "temperature"]
    first_met = taus.index(met.min()) if len(met) else len(taus) - 1
    warmer[length] = taus[max(first_met - 1, 0) :]
tested = {
    p.model: pd.concat(
        [times[(times["n"] == length) & times["temperature"].isin(warmer[length])] for length in shorter]
    )
}
if second:
    # A folder for each second model, so that another one finds nothing of this one's.
    own_directory = f"{directory}/second-{re.sub('[^A-Za-z0-9.]+', '-', second.name).strip('-')}" if directory else None
    tested[second.name] = pd.concat(
        tr.meeting_grid(
            second, {length: begin_second.states[couples, :length]}, warmer[length], scales=p.scales, seed=p.seed,
            directory=own_directory, label="pairs, second model",
        )
        for length in shorter
    )  # fmt: skip
columns, crossed = {}, {}
for name, observed in tested.items():
    hottest = tr.level(observed[observed["temperature"] == taus[-1]], resamples=p.resamples, seed=p.seed).iloc[0]
    own_stars = tr.crossover(observed, factor=p.factor, resamples=p.resamples, seed=p.seed)
    columns[name] = {
        f"C at τ = {taus[-1]:g} (n log n steps)": f"{number(hottest['C'], '{:.2f}')} ({between(hottest['low'], hottest['high'])})",
        **{
            f"τ* at n = {row['n']}": f"{number(row['tau_star'], '{:.2f}')} ({row['reason'] or between(row['low'], row['high'])})"
            for _, row in own_stars.iterrows()
        },
        "censored": f"{observed['censored'].mean():.0%} of {len(observed)} runs",
    }
    crossed[name] = f"{columns[name][f'τ* at n = {shorter[-1]}']} on {name}"
compared = "There is no second model to compare with."
if second:
    compared = f"The crossover τ* at n = {shorter[-1]}, with 95 % intervals: {', '.join(crossed.values())}."
glue("crossovers", compared, display=False)
glue("second", second.name if second else "none was given, and the table has one column", display=False)
model_medians = survival.medians(
    pd.concat(observed.assign(model=name) for name, observed in tested.items()), ["model", "n", "temperature"]
)
figure = draw.model_curves(model_medians.set_index("model").loc[list(tested)].reset_index())
glue("figure-models", figure)

# %% tags=["hide-input"]
table(by_model(columns))

# %% [markdown]
# {glue:text}`crossovers` Intervals are 95 %, by {glue:text}`resamples` resamples of the {glue:text}`pairs` pairs. An interval speaks of one model; no difference
# between the two was tested.
#
# ## What this shows, and what it does not
#
# At $\tau$ = {glue:text}`tau-hot` the coupling time of *{glue:text}`model`* is {glue:text}`hot-C` $n \log n$ steps, and it is {glue:text}`crossing`, measured on
# {glue:text}`pairs` pairs.
# It does not show a phase transition in the strict sense, which is a statement about $n \to \infty$: the lengths are {glue:text}`lengths`.
# Nor does it bound mixing times from below: {glue:text}`pairs` pairs that have not met by a maximal coupling may be closer in law than they
# look, and the pairs are a sample of passages, not the worst. The intervals speak of the choice of pairs and of chance in the chains, for this one model.
#
# ## Provenance

# %% tags=["hide-input"]
table(provenance(lm, p.model_dump(), started, second))
