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
# (chapter-escape)=
# # Escape: cold chains and their traps
#
# **Claim.** If every token of a state leads its position's conditional by a margin of $m$ nats, then leaving that state takes
# at least $e^{m/\tau}/(|V|-1)$ steps on average ({prf:ref}`theorem-escape`): exponentially long as $\tau \to 0$. And a text
# that repeats one token can hold a chain by drift alone ({prf:ref}`theorem-drift`). The paper reports traps that last for
# hundreds to thousands of steps, and a slow basin of exclamation marks.
#
# Here traps are searched for, their escape times are measured down to temperatures where no step-by-step simulation would
# see an escape, and the drift of repeated tokens is measured.

# %% tags=["parameters", "hide-input"]
model = "glauber-tiny"
other = "glauber-mini"
passages = "embedded"
starts = 24
n = 16
max_dropped = 0.1
temperature = 0.2
cold = 0.2
threshold = 500.0
share = 0.5
flicker = 0.25
search_moves = 40
traps = 4
temperatures = [0.1, 0.15, 0.2, 0.3, 0.5]
replicas = 16
steps = 1_000_000_000_000_000_000
moves = 40
distance = 2
candidates = 12
samples = 8
rounds = 6
tries = 12
drift_temperature = 0.5
chains = 24
seed = 1
device = "auto"
dtype = "float32"

# %% tags=["hide-input"]
from typing import Annotated, Self

from pydantic import Field, model_validator

from glauber.parameters import Count, Parameters, Temperature, Temperatures, validate


class EscapeParameters(Parameters):
    temperature: Temperature
    cold: Temperature
    threshold: Annotated[float, Field(gt=1, allow_inf_nan=False)]
    share: Annotated[float, Field(gt=0, le=1)]
    flicker: Annotated[float, Field(ge=0, le=1)]
    search_moves: Count
    traps: Count
    temperatures: Temperatures
    replicas: Count
    steps: Annotated[int, Field(ge=1, le=10**18)]
    moves: Count
    distance: Count
    candidates: Count
    samples: Count
    rounds: Count
    tries: Count
    drift_temperature: Temperature
    chains: Count

    @model_validator(mode="after")
    def distance_fits(self) -> Self:
        if self.distance > self.n:
            raise ValueError(f"distance = {self.distance} must be at most n = {self.n}")
        return self


p = validate(EscapeParameters, globals())

# %% tags=["hide-input"]
import html
import time

import numpy as np
import pandas as pd
from IPython.display import HTML, Markdown, display
from myst_nb import glue

import glauber
from glauber import ParameterError, escape, figures
from glauber.figures.escape import arrhenius_plot, ratio_by_count
from glauber.passages import account, common_states, read_passages
from glauber.provenance import provenance
from glauber.report import by_model, interval, table

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


def words(state, longest=90):
    """A state as escaped text, cut for a table."""
    shown = lm.text.decode(np.asarray(state).tolist())
    return html.escape(shown if len(shown) <= longest else shown[: longest - 1] + "…")


glue("model", p.model, display=False)
glue("passages", len(begin.states), display=False)
glue("account", account(dict(zip([m.name for m in both], [begin, *rest], strict=True))), display=False)
glue("n", p.n, display=False)
glue("V", f"{len(lm.vocabulary):,}", display=False)
glue("tau", p.temperature, display=False)
glue("tau-cold", p.cold, display=False)
glue("threshold", f"{p.threshold:,.0f}", display=False)
glue("share", f"{p.share:.0%}", display=False)
glue("flicker", f"{p.flicker:.0%}", display=False)
glue("h", p.distance, display=False)

# %% [markdown]
# ## Traps
#
# Starting texts: {glue:text}`account`.
#
# Three searches start from them: greedy descent (each token replaced by
# its position's argmax, in sequential and in random order, until nothing changes), cold chains at $\tau$ =
# {glue:text}`tau-cold` whose longest-held state is kept, and descent from those. None of them need come to a text that repeats one token; such
# texts are tried too, for {glue:text}`repeated-tried` tokens: all without a letter or digit, the most common ones of the passages, and the most repeated
# of each state in which a search ends. A state is listed if it is a *perfect
# trap* (every token is its position's argmax), a *near trap* (at most {glue:text}`flicker` of the positions are not, and the
# others last for over {glue:text}`threshold` steps on average at $\tau$ = {glue:text}`tau` while these stay as they are; the
# state as a whole lasts for less than $2n$ steps on average then, {prf:ref}`definition-traps`), or such a state with one token at
# {glue:text}`share` or more of the positions, listed as a *drift basin*. That label says what the text is made of, not how long it
# lasts: a perfect trap has no threshold on its time, be it listed by either name. These thresholds are ours.

# %% tags=["hide-input"]
frequent = 20
search = {
    "temperature": p.temperature,
    "cold": p.cold,
    "threshold": p.threshold,
    "share": p.share,
    "flicker": p.flicker,
    "moves": p.search_moves,
    "seed": p.seed,
}
candidates = escape.candidate_tokens(lm.text, begin.states, frequent)
found = escape.find_traps(lm, begin.states, tokens=candidates, **search, label="cold chains")
if found.table.empty:
    raise ParameterError(
        f"no trap was found from {p.starts} passages with {p.search_moves} search moves (an untrained model may have none): "
        f"raise starts or search_moves, or lower cold = {p.cold}"
    )
listed = found.table.assign(text=[words(s) for s in found.states])
kinds = listed["kind"].value_counts()
at_start = escape.leaving_probability(lm, begin.states, p.temperature)
glue("traps", len(listed), display=False)
glue("perfect", int(kinds.get("perfect trap", 0)), display=False)
glue("near", int(kinds.get("near trap", 0)), display=False)
glue("basins", int(kinds.get("drift basin", 0)), display=False)


def span(kind):
    """Shortest and longest holding time of one kind."""
    held = listed.loc[listed["kind"] == kind, "holding time"]
    return f"{escape.shown_steps(held.min())} to {escape.shown_steps(held.max())} steps" if len(held) else "none found"


glue("perfect-times", span("perfect trap"), display=False)
glue("basin-times", span("drift basin"), display=False)
glue("start-holding", float(np.median(1 / at_start)), display=False)
glue("trap-holding", escape.shown_steps(listed["holding time"].median()), display=False)
glue("longest", escape.shown_steps(listed["holding time"].iloc[0]), display=False)
glue("longest-method", str(listed["method"].iloc[0]), display=False)
glue("repeated-tried", int(found.outcomes.set_index("method")["count"].get("repeated token", 0)), display=False)
glue("longest-margin", float(listed["min margin"].iloc[0]), display=False)
glue("longest-kind", str(listed["kind"].iloc[0]), display=False)
display(table(found.outcomes))
shown = ["text", "kind", "min margin", "q", "holding time", "flickering", "share", "start", "method", "found"]
table(
    listed[shown].head(10),
    {"min margin": "{:.2f}", "q": "{:.1e}", "holding time": escape.shown_steps, "share": "{:.0%}"},
    {"min margin": "nats", "holding time": "steps"},
)

# %% [markdown]
# The searches found {glue:text}`traps` different traps: {glue:text}`perfect` perfect, {glue:text}`near` near,
# {glue:text}`basins` drift basins. Their exact mean holding time at $\tau$ = {glue:text}`tau` is
# {glue:text}`trap-holding` steps at the median over these traps, that of the {glue:text}`passages` passages themselves
# {glue:text}`start-holding:.1f`. Shortest and longest among the perfect traps: {glue:text}`perfect-times`; among the drift
# basins: {glue:text}`basin-times`. The longest of all is a {glue:text}`longest-kind` with {glue:text}`longest` steps (found by: *{glue:text}`longest-method`*); its
# weakest token leads by {glue:text}`longest-margin:.2f` nats. Below, a passage and some of the longest-held traps of each kind, each token shaded by its local margin (the
# number is in its tooltip).

# %% tags=["hide-input"]
# The longest-held of each kind in turn, so that not all are of one kind.
turn = listed.groupby("kind").cumcount().sort_values(kind="stable").index[: p.traps]
chosen = found.states[np.sort(turn.to_numpy())]
for name, state in [("a passage", begin.states[0]), *((f"trap {t}", s) for t, s in enumerate(chosen[:3]))]:
    display(Markdown(f"**{name}**"))
    display(HTML(escape.shade(lm.text, state, escape.local_margins(lm, state[None])[0])))

# %% [markdown]
# ## Escape times
#
# From the longest-held traps of each kind, independent chains run at several temperatures until the state is left (first move), and
# until the Hamming distance from it is {glue:text}`h` or more (its *basin* is left). The rejection-free sampler jumps from
# move to move, so that a budget of {glue:text}`budget` steps costs no more than a short one. Chains that have not left within
# it, or have spent {glue:text}`moves` moves flickering nearby, are censored and counted as such.

# %% tags=["hide-input"]
raw = escape.escape_times(
    lm,
    chosen,
    temperatures=p.temperatures,
    replicas=p.replicas,
    steps=p.steps,
    moves=p.moves,
    distance=p.distance,
    seed=p.seed,
    label="escapes",
)
measured = escape.summarise(lm, chosen, raw)
state_rows = measured[measured["what"] == "state"]
full = state_rows[state_rows["exits"] == state_rows["replicas"]]
covered = full[(full["low"] <= full["exact"]) & (full["exact"] <= full["high"])]
glue("budget", f"{p.steps:.0e}", display=False)
glue("moves", p.moves, display=False)
glue("runs", len(raw), display=False)
glue("censored-states", int((~raw["moved"]).sum()), display=False)
glue("censored-basins", int((~raw["left"]).sum()), display=False)
glue("covered", len(covered), display=False)
glue("estimates", len(full), display=False)
slack = state_rows["exact"] / state_rows["bound"]
slack = slack[np.isfinite(slack) & (slack > 0)]  # far below 1e-300 both sides leave the range of floating point
glue("slack-low", f"{slack.min():.2g}" if len(slack) else "–", display=False)
glue("slack-high", f"{slack.max():.2g}" if len(slack) else "–", display=False)
glue("useful", int((state_rows["bound"] > 1).sum()), display=False)
glue("bounds", len(state_rows), display=False)
figure = arrhenius_plot(measured, {t: f"trap {t}: {lm.text.decode(s.tolist())[:42]}…" for t, s in enumerate(chosen)})
glue("figure-arrhenius", figure)

# %% [markdown]
# Points are maximum-likelihood means (total time over exits) with 95 % intervals; hollow points are partly censored, and an
# arrow is the lower end of an interval without an upper one. Lines are the exact $1/q$, dotted lines the theorem's bound (drawn
# at 1 step where it is less). Of
# {glue:text}`runs` chains {glue:text}`censored-states` did not leave their state and {glue:text}`censored-basins` not their
# basin. Of the {glue:text}`estimates` uncensored means, {glue:text}`covered` have the exact $1/q$ in their interval.
#
# The exact holding time is between {glue:text}`slack-low` and {glue:text}`slack-high` times the bound:
# the theorem charges every one of the {glue:text}`V` tokens as a runner-up at every position. In
# {glue:text}`useful` of {glue:text}`bounds` cases it says more than that a step takes a step.

# %% tags=["hide-input"]
barriers = escape.arrhenius(measured)
fits = barriers.assign(
    barrier=[interval(row, "{:.2f}", "barrier") if row["points"] > 1 else "–" for _, row in barriers.iterrows()],
    margin=escape.local_margins(lm, chosen).min(axis=1)[barriers["trap"]],
)
first_fit = barriers.set_index(["trap", "what"])
for what in ("state", "basin"):
    row = first_fit.loc[(0, what)]
    points = f"{row['points']:.0f} temperatures and {row['exits']:.0f} exits"
    known = f"{interval(row, '{:.2f}', 'barrier')} nats (from {points})"
    glue(
        f"barrier-{what}",
        known if row["points"] > 1 else "not known (exits at fewer than two temperatures)",
        display=False,
    )
glue("margin-first", float(fits["margin"].iloc[0]), display=False)
seen = measured[2 * measured["exits"] >= measured["replicas"]].sort_values("mean", ascending=False, ignore_index=True)
longest = "none: no trap was left by half of its chains at any temperature"
if len(seen):
    top = seen.iloc[0]
    longest = (
        f"{escape.shown_steps(top['mean'])} steps [{escape.shown_steps(top['low'])}, {escape.shown_steps(top['high'])}], for leaving the {top['what']} of trap {top['trap']} "
        f"at τ = {top['temperature']:g} (exits of {top['exits']} of {top['replicas']} chains)"
    )
glue("longest-mean", longest, display=False)
display(
    table(
        measured.loc[
            measured["what"] == "basin",
            ["trap", "temperature", "exits", "replicas", "mean", "low", "high", "variation"],
        ].replace(np.inf, np.nan),
        {**dict.fromkeys(["mean", "low", "high"], "{:.2g}"), "variation": "{:.2f}", "temperature": "{:g}"},
        {"mean": "steps to leave the basin", "low": "steps", "high": "steps"},
    )
)
table(
    fits[["trap", "what", "barrier", "margin", "points", "exits", "chi2"]],
    {"margin": "{:.2f}", "chi2": "{:.1f}"},
    {"barrier": "nats", "margin": "nats", "chi2": "per degree of freedom"},
)

# %% [markdown]
# Holding times of a state are geometric, for which the intervals hold or are wider than need be. For a basin they assume that it is
# left at a constant rate, that is, exponential times. The first table has the coefficient of `variation` of the times where every chain left:
# it is about 1 for such times, and where it is not, or is not known, the intervals of the basin and of its barrier are no
# better than the assumption. Chains are also cut by their number of moves, which the estimate treats as if it told nothing about the exit.
#
# The slope of the log mean time against $1/\tau$ is an effective barrier. For trap 0, whose smallest margin is
# {glue:text}`margin-first:.2f` nats, that of the state is {glue:text}`barrier-state`, that of its basin
# {glue:text}`barrier-basin`. Where chi-square is far over 1, the points are no line: other ways out open as
# $\tau$ rises, and the barrier is that of the temperatures used. The longest mean measured on at least half of the
# chains, of a state or a basin: {glue:text}`longest-mean`.
#
# ## Drift basins
#
# The paper's example is a text of many exclamation marks. Which tokens hold a chain by repetition? The candidates are all tokens
# without a letter or digit, the most common tokens of the passages, and the token that each trap found above repeats most (all of them were tried above at
# $\tau$ = {glue:text}`tau`); they are
# ordered by the exact holding time of the text that repeats them, and the first ones ranked by the smallest ratio P(up)/P(down) found with one position filled
# otherwise, at $\tau$ = {glue:text}`tau-drift:g`.

# %% tags=["hide-input"]
mark = lm.text.piece("!")
repeated = found.table.loc[found.table["share"] * p.n > 1.5, "token"].unique()  # twice or more
tokens = escape.candidate_tokens(lm.text, begin.states, frequent, also=repeated)
ranked = escape.search_tokens(
    lm,
    tokens,
    begin.states,
    temperature=p.drift_temperature,
    samples=p.samples,
    keep=p.candidates,
    always=() if mark is None else (mark,),
    seed=p.seed,
)
names = [html.escape(name) for name in lm.text.tokens(ranked["token"].tolist())]
glue("tau-drift", p.drift_temperature, display=False)
glue("tried", len(tokens), display=False)
glue("ranked", len(ranked), display=False)
glue("best-token", lm.text.tokens([int(ranked["token"].iloc[0])])[0], display=False)
glue("best-ratio", float(ranked["min ratio"].iloc[0]), display=False)
of_mark = "This tokenizer has no token for the exclamation mark, so it is left out."
if mark in ranked["token"].to_numpy():
    place = int((ranked["token"] == mark).to_numpy().argmax())
    of_mark = (
        f"The exclamation mark has rank {place + 1}, a smallest ratio of {ranked['min ratio'].iloc[place]:.2g} and, repeated, "
        f"a holding time of {escape.shown_steps(ranked['holding time'].iloc[place])} steps."
    )
glue("of-mark", of_mark, display=False)
glue("ranked-states", int(ranked["states"].iloc[0]), display=False)
table(
    ranked.assign(token=names),
    {"holding time": escape.shown_steps, "min margin": "{:.2f}", "min ratio": "{:.3g}", "median ratio": "{:.3g}"},
    {"holding time": "steps", "min margin": "nats"},
)

# %% [markdown]
# Of {glue:text}`tried` candidates, {glue:text}`ranked` were ranked; {glue:text}`best-token` comes first, with a smallest ratio
# of {glue:text}`best-ratio:.2g` among {glue:text}`ranked-states` states. {glue:text}`of-mark`
#
# Now the ratio at every number of copies $N$, for the first token of the ranking and for `!` where it is a token. The other positions hold
# passages, uniform tokens, what the chain itself puts there, or what a greedy adversary finds worst.

# %% tags=["hide-input"]
first_token = int(ranked["token"].iloc[0])
drift, windows = {}, {}
for token in dict.fromkeys([first_token] if mark is None else [first_token, mark]):
    drift[token] = escape.profile(
        lm,
        token,
        begin.states,
        temperature=p.drift_temperature,
        samples=p.samples,
        rounds=p.rounds,
        tries=p.tries,
        seed=p.seed,
    )
    sampled = drift[token][drift[token]["kind"] != "adversarial"]
    windows[token] = {"all states": escape.window(drift[token]), "without adversary": escape.window(sampled)}
rows = []
for token, kept in windows.items():
    for states, w in kept.items():
        shown_window = (w.a, w.b, w.rho, w.excursion, w.states) if w else (np.nan,) * 5
        rows.append((html.escape(lm.text.tokens([token])[0]), states, *shown_window))
window_table = pd.DataFrame(rows, columns=["token", "ratios from", "a", "b", "smallest ratio", "ρ^-(b-a)", "states"])


def describe(w):
    """A window in words."""
    if w is None:
        return "no window at all"
    return f"the window {w.a} < N ≤ {w.b} with a smallest found ratio of {w.rho:.3g}"


sentences = [
    f"Over all {len(drift[token]):,} states tried, {lm.text.tokens([token])[0]} has {describe(kept['all states'])}; without "
    f"the adversary it has {describe(kept['without adversary'])}."
    for token, kept in windows.items()
]
glue("windows", " ".join(sentences), display=False)
glue("drift-states", f"{sum(len(d) for d in drift.values()):,}", display=False)
display(
    table(
        window_table,
        {"a": "{:.0f}", "b": "{:.0f}", "smallest ratio": "{:.3g}", "ρ^-(b-a)": "{:.1e}", "states": "{:.0f}"},
    )
)
w = windows[first_token]["all states"]
figure = ratio_by_count(drift[first_token], *((w.a, w.b) if w else ()))
glue("figure-drift-first", figure)

# %% tags=["hide-input"]
if mark is not None and mark != first_token:
    w = windows[mark]["all states"]
    figure = ratio_by_count(drift[mark], *((w.a, w.b) if w else ()))
    glue("figure-drift-mark", figure)

# %% [markdown]
# {glue:text}`windows` States were sampled, not enumerated: a window is evidence, a ratio below 1 refutes.
#
# What do chains do? They start with every position but one repeating the token, and run until half of the copies are gone.

# %% tags=["hide-input"]
half = p.n // 2
rows, sentences = [], []
for token in drift:
    inside = escape.fill(lm, token, [p.n - 1], kind="passage", samples=p.chains, texts=begin.states, seed=p.seed)
    fall = escape.fall_times(
        lm,
        token,
        inside,
        half,
        temperature=p.drift_temperature,
        steps=p.steps,
        moves=p.moves,
        seed=p.seed,
        label="falls",
    ).table
    fell, spent = int(fall["left"].sum()), float(fall["time"].astype(float).sum())
    name = lm.text.tokens([token])[0]
    # Without an exit there is no mean; the lower end of its interval would rest on the assumed constant rate alone.
    mean, low, high = escape.mean_time(fall["time"], fall["left"]) if fell else (np.nan,) * 3
    rows.append((html.escape(name), len(fall), fell, mean, low, high, spent, fall["time"].max()))
    told = f"none of {len(fall)} fell within {p.moves} moves ({escape.shown_steps(spent)} steps in all)"
    if fell:
        told = (
            f"{fell} of {len(fall)} fell within {p.moves} moves ({escape.shown_steps(spent)} steps in all), after "
            f"{escape.shown_steps(mean)} steps [{escape.shown_steps(low)}, {escape.shown_steps(high)}] on average if falls come at a "
            f"constant rate"
        )
    sentences.append(f"of the texts of {name}, {told}")
falls = pd.DataFrame(rows, columns=["token", "chains", "fell", "mean", "low", "high", "all runs", "longest run"])
glue("half", half, display=False)
glue("falls", "; ".join(sentences), display=False)
table(
    falls,
    dict.fromkeys(["mean", "low", "high", "all runs", "longest run"], escape.shown_steps),
    dict.fromkeys(["mean", "low", "high", "all runs", "longest run"], "steps"),
)

# %% [markdown]
# Down to {glue:text}`half` copies: {glue:text}`falls`. The mean and its 95 % interval assume exponential times: a chain is cut after
# {glue:text}`moves` moves, not at a time of its own, and whether the chance of a fall stays the same along a run was not tested.
#
# ## A second model
#
# The same searches on another model: {glue:text}`second`. Holding times are exact and at $\tau$ = {glue:text}`tau`; that they are
# longest, or so many, holds among the states that the searches found. The text that repeats the exclamation mark is asked at $\tau$ =
# {glue:text}`tau-drift`.

# %% tags=["hide-input"]
tested = {p.model: (lm, begin.states, found.table)}
if second:
    candidates2 = escape.candidate_tokens(second.text, begin_second.states, frequent)
    listed2 = escape.find_traps(
        second, begin_second.states, tokens=candidates2, **search, label="cold chains, second model"
    ).table
    tested[second.name] = (second, begin_second.states, listed2)
columns, longest_of = {}, {}
for name, (tried, states, traps) in tested.items():
    held = traps["holding time"]
    sign = tried.text.piece("!")
    columns[name] = {
        **{
            f"{kind}s found": str(int((traps["kind"] == kind).sum()))
            for kind in ("perfect trap", "near trap", "drift basin")
        },
        "holding time of the passages, median (steps)": f"{np.median(1 / escape.leaving_probability(tried, states, p.temperature)):.1f}",
        "holding time of the traps, median (steps)": escape.shown_steps(held.median()),
        "the same, nine tenths up to (steps)": escape.shown_steps(held.quantile(0.9)),
        "longest found (steps)": escape.shown_steps(held.max()),
        "its smallest margin (nats)": f"{traps['min margin'].iloc[0]:.2f}" if len(traps) else "–",
        f"holding time of “!” repeated, τ = {p.drift_temperature:g} (steps)": "no such token"
        if sign is None
        else escape.shown_steps(1 / escape.leaving_probability(tried, np.full((1, p.n), sign), p.drift_temperature)[0]),
    }
    longest_of[name] = f"{escape.shown_steps(held.max())} steps on {name}" if len(traps) else f"none on {name}"
compared = "There is no second model to compare with."
if second:
    compared = f"The longest holding time found at τ = {p.temperature:g}: {', '.join(longest_of.values())}."
glue("second", second.name if second else "none was given, and the table has one column", display=False)
glue("compared", compared, display=False)
table(by_model(columns))

# %% [markdown]
# {glue:text}`compared` The searches take the same {glue:text}`passages` passages and the same number of moves, and repeat the tokens of each model's own vocabulary. The table compares what they found; a trap that was
# not found may last longer.
#
# ## What this shows, and what it does not
#
# It shows traps of *{glue:text}`model`*, with their exact holding times: the longest found lasts {glue:text}`longest` steps on
# average at $\tau$ = {glue:text}`tau`. The longest mean time that was measured on at least half of the chains, not extrapolated, is
# {glue:text}`longest-mean`. Of the traps measured, the exact time is {glue:text}`slack-low` times the theorem's bound or more. It does not show how many traps there are, since {glue:text}`traps` is what
# {glue:text}`passages` starts led to, nor how much of the stationary law they carry. And it certifies no drift
# basin: the ratios are exact, but {glue:text}`drift-states` states are few among all.
#
# ## Provenance

# %% tags=["hide-input"]
table(provenance(lm, p.model_dump(), started, second))
