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
# (chapter-contraction)=
# # Contraction: hot chains mix fast
#
# **Claim.** Let $c_{ij}(\tau)$ be the most that changing the token at $j$ can sway the conditional at $i$. Where the matrix of
# these influences is smaller than 1, as measured by its row sums, its column sums or its spectral norm, by $s < 1$ say, the chain
# mixes within $\frac{n}{1-s} \log\frac{n}{\varepsilon}$ steps ({prf:ref}`theorem-criteria`).
#
# On a network each influence is a maximum over more texts than anyone can try. It is approached here from both sides: a search
# finds lower bounds, the weights of the head give an upper bound ({prf:ref}`theorem-certificate`), and between the two
# stands a measurement, the time that two chains from different texts take to meet.

# %% tags=["parameters", "hide-input"]
model = "glauber-tiny"
other = "glauber-mini"
passages = "embedded"
starts = 4
n = 16
max_dropped = 0.1
temperature = 1.0
eps = 0.25
substitutions = 6
pairs = 6
steps = 1500
seed = 1
device = "auto"
dtype = "float32"

# %% tags=["hide-input"]
from typing import Annotated

from pydantic import Field

from glauber.parameters import Count, Parameters, Temperature, validate


class ContractionParameters(Parameters):
    starts: Annotated[int, Field(ge=2)]
    temperature: Temperature
    eps: Annotated[float, Field(gt=0, lt=1)]
    substitutions: Count
    pairs: Count
    steps: Count


p = validate(ContractionParameters, globals())

# %% tags=["hide-input"]
import time
from itertools import combinations

import numpy as np
import pandas as pd
from myst_nb import glue

import glauber
from glauber import contraction as con
from glauber import coupling, figures, survival
from glauber.engines.trace import HOTTEST
from glauber.figures import contraction as draw
from glauber.passages import common_states, read_passages
from glauber.provenance import provenance
from glauber.report import by_model, interval, mean_interval, paired, round_up, table

started = time.time()
figures.use_style()
lm = glauber.load_model(p.model, device=p.device, dtype=p.dtype)
lm.check_length(p.n)
second = glauber.load_model(p.second, device=p.device, dtype=p.dtype) if p.second else None
if second:
    second.check_length(p.n)
both = [lm] + ([second] if second else [])
begin, *rest = common_states(
    [m.text.encode for m in both], read_passages(p.passages), p.n, p.starts, max_dropped=p.max_dropped
)
begin_second = rest[0] if rest else begin
taus = p.temperature * np.geomspace(0.5, 16, 11)
glue("model", p.model, display=False)
glue("passages", len(begin.states), display=False)
glue("account", begin.account(), display=False)
glue("n", p.n, display=False)
glue("tau", p.temperature, display=False)
glue("substitutions", p.substitutions, display=False)
glue("eps", p.eps, display=False)

# %% [markdown]
# ## Influence, searched
#
# The influence $c_{ij}(\tau)$ of position $j$ on position $i$ is the largest total variation between the two conditionals at
# $i$ over all pairs of texts that differ at $j$ alone. In each of {glue:text}`passages` passages, cut to $n$ =
# {glue:text}`n` tokens, the token at every $j$ is replaced by {glue:text}`substitutions` others, chosen in three ways: at
# random from the vocabulary, the model's own likeliest there, and by a greedy search that tries again the tokens that had
# the most effect so far. Each way takes the same number of forwards. One set of logits serves all temperatures.
# The passages: {glue:text}`account`.

# %% tags=["hide-input"]
influence = con.measure(lm, begin.states, temperatures=taus, substitutions=p.substitutions, seed=p.seed)
found = con.lower_bounds(influence)
decay = con.by_distance(influence)
near = decay[(decay["distance"] == 1) & np.isclose(decay["temperature"], p.temperature)]
far = decay[(decay["distance"] == p.n // 2) & np.isclose(decay["temperature"], p.temperature)]
glue("near-largest", float(near["largest"].max()), display=False)
glue("far-largest", float(far["largest"].max()), display=False)
glue("far-distance", p.n // 2, display=False)


def each_passage(influence, temperature, distance=None):
    """Mean influence of the model's likeliest tokens, one value a passage."""
    each = con.by_context(influence, distance)
    return each.loc[(each["scheme"] == "top") & np.isclose(each["temperature"], temperature), "mean"]


def mean_at(influence, temperature, distance=None):
    """The mean over passages, with its interval."""
    most = np.inf if distance is None else 1.0
    return mean_interval(each_passage(influence, temperature, distance), least=0.0, most=most)


near_mean, far_mean = (mean_at(influence, p.temperature, distance) for distance in (1, p.n // 2))
glue("near-mean", interval(near_mean), display=False)
glue("far-mean", interval(far_mean), display=False)


def ratio(far_value, near_value):
    """How much of a value is left, in words."""
    return f"{far_value / near_value:.0%}" if near_value > 0 else "an undefined share"


glue("mean-left", ratio(far_mean["estimate"], near_mean["estimate"]), display=False)
glue("largest-left", ratio(far["largest"].max(), near["largest"].max()), display=False)
glue("laws", len(begin.states) * (p.substitutions + 1) * 3 * p.n * (p.n - 1), display=False)
figure = draw.influence_map(influence, decay, p.temperature)
glue("figure-influence", figure)

# %% [markdown]
# At $\tau$ = {glue:text}`tau` the largest total variation found is {glue:text}`near-largest:.2f` between neighbours and
# {glue:text}`far-largest:.2f` at distance {glue:text}`far-distance`, {glue:text}`largest-left` of it; with one of the model's likeliest
# tokens put in, the mean is {glue:text}`near-mean` and {glue:text}`far-mean` (95 % Student intervals over {glue:text}`passages`
# passages, {glue:text}`substitutions` tokens at each position), {glue:text}`mean-left` of it.
# These are {glue:text}`laws:,.0f` laws in all, and every "largest" is a lower bound on $c_{ij}$: other texts may do more.
#
# ## Four criteria
#
# Of the matrix found, the largest row sum (Dobrushin's condition), the largest column sum (path coupling), the spectral norm and
# the spectral radius are lower bounds on those of $C$. Each of the first three gives $O(n \log n)$ steps where it is below 1; the
# radius does so with a constant of its own, which may grow exponentially in $n$.

# %% tags=["hide-input"]
best = found[found["scheme"] == "all"]
out = con.ruled_out(best)
typical = found[found["scheme"] == "top"]
at_tau = found[np.isclose(found["temperature"], p.temperature)].set_index("scheme")
for name, crossing in out.items():
    glue(f"tau-{name}", float(at_tau.loc["all", name]), display=False)
    glue(f"out-{name}", crossing.words, display=False)
glue("above-one-mean", con.crossing(typical["temperature"], typical["mean"]).words, display=False)
glue("above-one-random", con.ruled_out(found[found["scheme"] == "uniform"])["column_sum"].words, display=False)
glue("gain-greedy", float(at_tau.loc["greedy", "gain"]), display=False)
glue("gain-top", float(at_tau.loc["top", "gain"]), display=False)
glue("gain-all", float(at_tau.loc["all", "gain"]), display=False)
figure = draw.criteria_curves(found, out["radius"].last)
glue("figure-criteria", figure)

# %% tags=["hide-input"]
shown = best[["temperature", *con.CRITERIA]].rename(
    columns={name: f"{label}, at least" for name, label in con.CRITERIA.items()}
)
shown["mean influence of a likely token"] = typical["mean"].to_numpy()
table(shown, {"temperature": "{:.3g}", **dict.fromkeys(shown.columns[1:], "{:.3f}")})

# %% [markdown]
# At $\tau$ = {glue:text}`tau` the search shows a row sum of {glue:text}`tau-row_sum:.2f` or more, a column sum of
# {glue:text}`tau-column_sum:.2f`, a norm of {glue:text}`tau-norm:.2f` and a radius of {glue:text}`tau-radius:.2f`. A value of 1 or
# more rules out **that criterion alone**. The row sum is ruled out at {glue:text}`out-row_sum`; the column sum at
# {glue:text}`out-column_sum`; the norm at {glue:text}`out-norm`. The radius is at most each of the others, so that
# where it is 1 or more all four are ruled out, and the $O(n \log n)$ of any other operator norm with them: at
# {glue:text}`out-radius`. That does not mean that the chain is slow there.
#
# Relative to random tokens, greedy search changes the column sum found by {glue:text}`gain-greedy:+.0%`, the model's likeliest by
# {glue:text}`gain-top:+.0%`, and all three together by {glue:text}`gain-all:+.0%`. With random tokens alone a column sum of 1 or more was
# found at {glue:text}`above-one-random`; the mean influence of a likely token is 1 or more at {glue:text}`above-one-mean`. At every
# other temperature **nothing is certified**: a better search could find larger values, as the gap between the searches shows, and none of the four
# need be monotone between the points of the grid.
#
# ## Longer texts
#
# A sum runs over $n - 1$ positions; how it grows with $n$ depends on how influence changes with distance. The texts are cut to shorter lengths, and all
# pairs of positions are measured at each.

# %% tags=["hide-input"]
lengths = sorted({max(2, p.n // 4), max(2, p.n // 2), p.n})
few = taus[[np.abs(taus - p.temperature * factor).argmin() for factor in (0.5, 1, 2, 4)]]
parts, mean_by_length = [], {}
for length in lengths:
    cut = influence.sel(scheme=["top"], temperature=few)  # the whole length is measured already
    if length < p.n:
        cut = con.measure(
            lm, begin.states[:, :length], temperatures=few, substitutions=p.substitutions, schemes=["top"], seed=p.seed
        )
    parts.append(con.lower_bounds(cut).assign(n=length))
    mean_by_length[length] = mean_at(cut, p.temperature)
by_length = pd.concat(parts)
ends = by_length[np.isclose(by_length["temperature"], p.temperature)].set_index("n")
glue("length-short", lengths[0], display=False)
for name in con.CRITERIA:
    glue(f"length-short-{name}", float(ends.loc[lengths[0], name]), display=False)
    glue(f"length-long-{name}", float(ends.loc[lengths[-1], name]), display=False)
glue("length-mean-short", interval(mean_by_length[lengths[0]]), display=False)
glue("length-mean-long", interval(mean_by_length[lengths[-1]]), display=False)
figure = draw.criteria_by_length(by_length, p.temperature)
glue("figure-length", figure)

# %% [markdown]
# From $n$ = {glue:text}`length-short` to {glue:text}`n`, at $\tau$ = {glue:text}`tau`, what was found goes for the row sum from
# {glue:text}`length-short-row_sum:.2f` to {glue:text}`length-long-row_sum:.2f`, for the column sum from
# {glue:text}`length-short-column_sum:.2f` to {glue:text}`length-long-column_sum:.2f`, for the norm from {glue:text}`length-short-norm:.2f` to
# {glue:text}`length-long-norm:.2f`, for the radius from {glue:text}`length-short-radius:.2f` to {glue:text}`length-long-radius:.2f`, and for the
# mean influence from {glue:text}`length-mean-short` to {glue:text}`length-mean-long` (95 % Student intervals over {glue:text}`passages` passages; a
# lower bound has none). All are with the model's likeliest tokens, the same number of them at each length.
#
# ## A certificate
#
# *Our addition.* The decoder sits behind a normalisation, so the logits of any two contexts differ by a bounded amount: their
# difference has an oscillation of at most $B$, found by an exact search over all pairs of tokens. This is an upper bound on
# every $c_{ij}$, for all texts, and so on all four criteria at once.

# %% tags=["hide-input"]
lm64 = glauber.load_model(p.model, device="cpu", dtype="float64")
certificate = con.certify(lm64)
certified = con.tau_cert(certificate.bound, p.n)
sample = np.random.default_rng(p.seed)
contexts = np.repeat(begin.states, 4, axis=0)
spread = con.oscillations(lm64, contexts, sample.integers(0, p.n, len(contexts)))
tokens = lm.text.tokens([certificate.first, certificate.second])
glue("bound", round_up(certificate.bound, 1), display=False)
glue("width", certificate.width, display=False)
glue("norm", "LayerNorm" if certificate.centred else "RMSNorm", display=False)
glue("first", tokens[0], display=False)
glue("second", tokens[1], display=False)
glue("vocabulary", len(lm.vocabulary), display=False)
glue("seen", float(spread.max()), display=False)
glue("seen-share", float(spread.max()) / certificate.bound, display=False)
glue("seen-pairs", len(spread), display=False)
# Whatever is certified is rounded up. At n = 2 every temperature is certified, and the bound is quoted at B.
quoted = min(round_up(2 * certified if certified > 0 else max(certificate.bound, 1.0)), HOTTEST)
steps_quoted = float(con.certified_steps(quoted, certificate.bound, p.n, p.eps)[0])
glue("tau-cert", f"{round_up(certified):,.0f}", display=False)
glue("tau-quoted", f"{quoted:,.0f}", display=False)
glue(
    "steps-quoted",
    f"{round_up(steps_quoted):,.0f} steps" if np.isfinite(steps_quoted) else "no known number of steps",
    display=False,
)
lengths = con.certified_lengths(certificate.bound, (2, 3, 4, 8, 16, 32, 64, 128), p.eps)
lengths["tau_cert"] = lengths["tau_cert"].map(lambda tau: round_up(tau, 1))
lengths["steps"] = lengths["steps"].map(round_up)
names = {"tau_cert": "certified temperature", "steps": "bound at twice that temperature"}
table(
    lengths.rename(columns=names),
    {names["tau_cert"]: "{:,.1f}", names["steps"]: "{:,.0f}"},
    {names["steps"]: "steps"},
)

# %% [markdown]
# For *{glue:text}`model`* (a {glue:text}`norm` of width {glue:text}`width`, {glue:text}`vocabulary:,.0f` tokens)
# $B$ is at most {glue:text}`bound:.1f` nats, attained by the pair *{glue:text}`first`* and *{glue:text}`second`*. The
# largest oscillation among {glue:text}`seen-pairs:,.0f` pairs of contexts of the passages is {glue:text}`seen:.1f` nats,
# {glue:text}`seen-share:.0%` of it. With $\alpha_{\mathrm{cert}} = (n-1) \tanh(B/4\tau)$ it is therefore proved that at $n$ =
# {glue:text}`n` the chain is within $\varepsilon$ of equilibrium after
# $\frac{n}{1-\alpha_{\mathrm{cert}}} \log\frac{n}{\varepsilon}$ steps, from every start, for every
# $\tau >$ {glue:text}`tau-cert`. This is a statement for this $n$: the bound diverges as $\tau$ falls to
# $\tau_{\mathrm{cert}}(n)$, which itself grows with $n$, as the table shows. At $\tau$ = {glue:text}`tau-quoted` it is within
# {glue:text}`eps` after {glue:text}`steps-quoted`. Certified figures are rounded up.
#
# ## Between the two: chains that meet
#
# {glue:text}`pairs` pairs of passages, one chain from each, redraw the same position at the same time with their tokens
# coupled maximally. The probability that they have not met by time $t$ bounds the total variation between the two chains at
# $t$. Runs that have not met after {glue:text}`steps` steps are censored and kept as such.

# %% tags=["hide-input"]
couples = np.array(list(combinations(range(len(begin.states)), 2)))
couples = sample.permutation(couples)[: p.pairs]
meeting_taus = p.temperature * np.geomspace(0.25, 16, 13)[::2]
coupled = coupling.couple(
    lm,
    np.tile(begin.states[couples], (len(meeting_taus), 1, 1)),
    temperature=np.repeat(meeting_taus, len(couples)),
    steps=p.steps,
    seed=p.seed,
    label="pairs",
)
points = survival.medians(coupled[["temperature", "time", "censored"]].to_dataframe(), ["temperature"])
glue("pairs", len(couples), display=False)
glue("steps", p.steps, display=False)
glue("censored", float(points["censored"].mean()), display=False)


def median_steps(row):
    """A median meeting time with its interval; what lies above the budget is only known to."""
    if not np.isfinite(row["median"]):
        return f"over {row['budget']:.0f} steps"
    unknown = f"over {row['budget']:.0f}" if row["censored"] else "unknown"
    low, high = (f"{row[end]:.0f}" if np.isfinite(row[end]) else unknown for end in ("low", "high"))
    return f"{row['median']:.0f} steps [{low}, {high}]"


met = points[np.isfinite(points["median"])]
lost = points[~np.isfinite(points["median"])]
hottest = points.iloc[-1]
glue("hot-tau", float(hottest["temperature"]), display=False)
scaled = f", {hottest['median'] / (p.n * np.log(p.n)):.1f} times n log n" if np.isfinite(hottest["median"]) else ""
glue("hot-median", median_steps(hottest) + scaled, display=False)
glue("collector", p.n * float((1 / np.arange(1, p.n + 1)).sum()), display=False)
differing = (begin.states[couples[:, 0]] != begin.states[couples[:, 1]]).mean()
glue("differing", f"{differing:.0%}", display=False)
cold = f"τ = {met['temperature'].iloc[0]:.3g} (there after {median_steps(met.iloc[0])})" if len(met) else "none of them"
glue("cold-met", cold, display=False)
glue(
    "lost",
    "τ = " + ", ".join(f"{tau:.3g}" for tau in lost["temperature"]) if len(lost) else "none of them",
    display=False,
)
glue("meeting-taus", len(points), display=False)
table(
    points.rename(columns={"count": "pairs", "budget": "longest run"}).replace(np.inf, np.nan),
    {
        "temperature": "{:.3g}",
        "median": "{:.0f}",
        "low": "{:.0f}",
        "high": "{:.0f}",
        "censored": "{:.0%}",
        "longest run": "{:.0f}",
    },
    {"low": "steps", "median": "steps", "high": "steps", "longest run": "steps"},
)

# %% tags=["hide-input"]
lowest = 1.02 * certified if certified > 0 else max(certificate.bound, 1.0) / 40
hot = np.geomspace(min(lowest, HOTTEST / 2), min(20 * max(certified, lowest), HOTTEST), 60)
bounds = pd.DataFrame(
    {
        "temperature": hot,
        "steps": con.certified_steps(hot, certificate.bound, p.n, p.eps),
    }
)
figure = draw.two_sided(points, bounds, certified, out["radius"].last)
glue("figure-sides", figure)

# %% [markdown]
# Medians are Kaplan-Meier estimates with 95 % intervals. An open triangle in the figure stands for a median above the budget, a dash in the
# table for any value that the runs do not give; where runs were cut, the longest run is the budget; percentages are the censored share.
# {glue:text}`censored:.0%` of all runs are censored. Of {glue:text}`meeting-taus` temperatures, the lowest at which the median pair meets
# within the budget is {glue:text}`cold-met`; it fails to at {glue:text}`lost`. At
# $\tau$ = {glue:text}`hot-tau:g` the median is {glue:text}`hot-median`. That is a time to meet, which
# bounds mixing from above only. Two texts that differ everywhere cannot meet before every position has been redrawn, which takes
# $n (1 + 1/2 + \dots + 1/n)$ = {glue:text}`collector:.1f` steps on average; these pairs differ at {glue:text}`differing` of
# their positions, and the median of such a time is below its mean.
#
# ## A second model
#
# The same searches, certificate and pairs of passages, on another model: {glue:text}`other-model`. Meeting times are those at $\tau >$
# {glue:text}`tau`.

# %% tags=["hide-input"]
warm = meeting_taus[meeting_taus > 1.01 * p.temperature]  # the grid holds the temperature itself up to rounding
tested = {p.model: (influence, certificate.bound, points)}
difference = "There is no second model to compare with."
if second:
    influence2 = con.measure(second, begin_second.states, temperatures=taus, substitutions=p.substitutions, seed=p.seed)
    coupled2 = coupling.couple(
        second,
        np.tile(begin_second.states[couples], (len(warm), 1, 1)),
        temperature=np.repeat(warm, len(couples)),
        steps=p.steps,
        seed=p.seed,
        label="pairs, second model",
    )
    points2 = survival.medians(coupled2[["temperature", "time", "censored"]].to_dataframe(), ["temperature"])
    bound2 = con.certify(glauber.load_model(p.second, device="cpu", dtype="float64")).bound
    tested[second.name] = (influence2, bound2, points2)
    difference = "The two models cut the passages into different tokens, so that no paired difference is formed."
    if np.array_equal(begin.states, begin_second.states):
        each = [each_passage(measured, p.temperature) for measured, *_ in tested.values()]
        difference = f"The mean influence of {second.name} less that of {p.model} is {paired(*each)} (95 % Student interval over passages)."
columns = {}
for name, (measured, bound, times) in tested.items():
    searched = con.lower_bounds(measured)
    searched = searched[searched["scheme"] == "all"]
    at_one = searched[np.isclose(searched["temperature"], p.temperature)].iloc[0]
    columns[name] = {
        **{
            f"{con.CRITERIA[key]} at τ = {p.temperature:g}": f"at least {at_one[key]:.2f}; ruled out at {crossing.words}"
            for key, crossing in con.ruled_out(searched).items()
        },
        f"mean influence of a likely token at τ = {p.temperature:g}": interval(mean_at(measured, p.temperature)),
        "B at most (nats)": f"{round_up(bound, 1):.1f}",
        f"bound on the mixing time above τ, n = {p.n}": f"{round_up(con.tau_cert(bound, p.n)):,.0f}",
        **{
            f"median meeting time at τ = {row['temperature']:g}": median_steps(row)
            for _, row in times[times["temperature"] >= warm[0]].iterrows()
        },
    }
glue("other-model", second.name if second else "none was given, and the table has one column", display=False)
glue("difference", difference, display=False)
table(by_model(columns))

# %% [markdown]
# {glue:text}`difference` Bounds have no interval; the meeting times are medians of {glue:text}`pairs` pairs with 95 % intervals, in which so few pairs
# leave much room.
#
# ## What this shows, and what it does not
#
# It shows two sides. Above {glue:text}`tau-cert` all four criteria hold at $n$ = {glue:text}`n`, with an explicit bound on the mixing time of
# *{glue:text}`model`* that diverges there. At {glue:text}`out-radius`, none of the four holds, since the spectral radius found is 1 or more; single
# criteria are ruled out at the row sum's {glue:text}`out-row_sum`, and the column sum's {glue:text}`out-column_sum`. So the temperature from
# which a criterion holds is not below any at which it was ruled out, and at most the certified one; between them nothing is
# shown. The authors of the paper caution that mixing in practice is
# faster than the worst case; here the lowest temperature at which the median pair meets is {glue:text}`cold-met`, beside the
# certified {glue:text}`tau-cert`. What was searched for is a lower bound, found in {glue:text}`passages` passages, and
# the meeting times are those of {glue:text}`pairs` pairs of starts, not of the worst pair. The certificate is loose, since it
# grants the network below the head any vector, at all positions at once: the contexts tried reach {glue:text}`seen-share:.0%` of $B$.
#
# ## Provenance

# %% tags=["hide-input"]
table(provenance(lm, p.model_dump(), started, second))
