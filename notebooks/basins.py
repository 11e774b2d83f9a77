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
# (chapter-basins)=
# # Basins: where chains go
#
# **Claim.** The landscape of a masked language model has basins: chains get caught in traps, move between regions of
# meaning, and, in the paper's case study, come to *political* content again and again from starts on health, sport or food, without
# having to stay there.
#
# Here long chains from passages on every topic are followed by a sentence model. A score that was trained on labelled
# passages says what each text is about, or that it is about nothing. Shares of time are compared with those of passages and of shuffled
# texts, visits and returns with labels in random order and with a Markov chain between topics. What is shown is what *this small model* does; the paper's claim is about other, larger models.

# %% tags=["parameters", "hide-input"]
model = "glauber-tiny"
other = "glauber-mini"
passages = "embedded"
starts = 30
n = 16
max_dropped = 0.1
temperatures = [0.5, 1.0, 1.5]
sweeps = 200
topic = "politics"
salad = 60
salad_temperature = 3.0
shuffles = 20
clusters = 8
longer = 300
positions = 2
film_steps = 400
embedder = "default"
trust_remote_code = False
seed = 1
device = "auto"
dtype = "float32"

# %% tags=["hide-input"]
from typing import Annotated, Self

from pydantic import Field, model_validator

from glauber.parameters import Count, Parameters, Temperature, validate


class BasinParameters(Parameters):
    starts: Annotated[int, Field(ge=2)]
    temperatures: Annotated[list[Temperature], Field(min_length=1)]
    sweeps: Annotated[int, Field(ge=10)]
    topic: str
    salad: Annotated[int, Field(ge=8)]
    salad_temperature: Temperature
    shuffles: Count
    clusters: Annotated[int, Field(ge=2)]
    longer: Count
    positions: Annotated[int, Field(ge=0)]
    film_steps: Count
    embedder: str
    trust_remote_code: bool

    @model_validator(mode="after")
    def clusters_fit(self) -> Self:
        # Twice as many clusters are tried on half of the texts.
        if 4 * self.clusters > self.starts * (self.sweeps + 1):
            raise ValueError(
                f"clusters = {self.clusters} need {4 * self.clusters} texts, and starts x (sweeps + 1) are "
                f"{self.starts * (self.sweeps + 1)}: give fewer clusters or longer runs"
            )
        return self


p = validate(BasinParameters, globals())

# %% tags=["hide-input"]
import html
import time

import numpy as np
import pandas as pd
from IPython.display import HTML
from myst_nb import glue

import glauber
from glauber import ParameterError, basins, engines, figures
from glauber.embeddings import cosine_distance, load_embedder
from glauber.figures import basins as draw
from glauber.passages import account, common_states, read_passages
from glauber.player import film, player
from glauber.provenance import provenance
from glauber.report import by_model, difference_interval, lies, table

started = time.time()
figures.use_style()
lm = glauber.load_model(p.model, device=p.device, dtype=p.dtype)
lm.check_length(p.n)
second = glauber.load_model(p.second, device=p.device, dtype=p.dtype) if p.second else None
if second:
    second.check_length(p.n)
embed = load_embedder(p.embedder, device=p.device, trust_remote_code=p.trust_remote_code)
labelled = list(read_passages("embedded"))
if p.topic not in {passage.topic for passage in labelled}:
    known = ", ".join(sorted({passage.topic for passage in labelled}))
    raise ParameterError(f"topic {p.topic!r} has no labelled passages: give one of {known}")
both = [lm] + ([second] if second else [])
begin, *rest = common_states(
    [m.text.encode for m in both], read_passages(p.passages), p.n, p.starts, max_dropped=p.max_dropped
)
begin_second = rest[0] if rest else begin
basins.elsewhere(begin.table["topic"], p.topic)  # refuses passages that are all on the topic
taus = sorted(set(p.temperatures))
middle = taus[len(taus) // 2]


def read(states, text=lm.text):
    """Texts of states, shape (..., n)."""
    return [text.decode(row.tolist()) for row in np.asarray(states).reshape(-1, p.n)]


def share(value):
    return f"{value:.1%}"


def between(row, form="{:.1%}"):
    """An estimate with its interval, as text."""
    if not np.isfinite(row["low"]):
        return f"{form.format(row['estimate'])} (no interval)"
    return f"{form.format(row['estimate'])} ({form.format(row['low'])} to {form.format(row['high'])})"


glue("model", p.model, display=False)
glue("embedder", "all-MiniLM-L6-v2" if p.embedder == "default" else p.embedder, display=False)
glue("topic", p.topic, display=False)
glue("n", p.n, display=False)
glue("starts", p.starts, display=False)
glue("account", account(dict(zip([m.name for m in both], [begin, *rest], strict=True))), display=False)
glue("sweeps", p.sweeps, display=False)
glue("tau-middle", f"{middle:g}", display=False)
glue("tau-low", f"{taus[0]:g}", display=False)
glue("taus", ", ".join(f"{tau:g}" for tau in taus), display=False)

# %% [markdown]
# ## What a text is about
#
# The score is a multinomial logistic regression on sentence vectors of *{glue:text}`embedder`*. It is trained on
# {glue:text}`labelled` passages of this project on {glue:text}`topics` topics, cut into stretches of {glue:text}`n` tokens, the length of the
# chains' texts, and on {glue:text}`salad` texts of word salad, written by chains at $\tau$ = {glue:text}`salad-tau`, which form the class
# *none of these*. Without that class nonsense would have to be about something. The probabilities are calibrated by one temperature. All figures below are for
# stretches of passages that the score was not trained on: the splits are by passage.

# %% tags=["hide-input"]
cuts, source = basins.windows([lm.text.encode(passage.text)[0] for passage in labelled], p.n)
topics_of = [labelled[k].topic for k in source]
cut_texts = read(cuts)
rng = np.random.default_rng(p.seed)
hot = engines.run(
    lm,
    cuts[rng.choice(len(cuts), p.salad, replace=p.salad > len(cuts))],
    temperature=p.salad_temperature,
    steps=10 * p.n,
    seed=p.seed + 1,
    record_every=10 * p.n,
    label="word salad",
)["states"].to_numpy()[-1]
vectors = embed([*cut_texts, *read(hot)])
labels = [*topics_of, *[basins.NONE] * len(hot)]
groups = [*source.tolist(), *range(len(labelled), len(labelled) + len(hot))]
score = basins.cross_fit(vectors, labels, groups, seed=p.seed)
unseen = pd.DataFrame(score.probabilities(vectors, groups), columns=list(score.classes))
# A chain is read by the score that has not seen the passage it starts from.
begun = basins.start_groups(begin.table["text"], [passage.text for passage in labelled])
guessed = score.probabilities(embed(read(begin.states)), begun).argmax(axis=1)
# A source without topics has those of the score.
origins = [name or score.classes[k] for name, k in zip(begin.table["topic"], guessed, strict=True)]
elsewhere = basins.elsewhere(origins, p.topic)
own = np.array(labels) == p.topic
real = np.array(labels) != basins.NONE
quality = basins.quality(unseen[p.topic].to_numpy(), own, groups, seed=p.seed)
words = basins.keyword_scores(cut_texts, topics_of, source.tolist(), p.topic, seed=p.seed)
keyword = basins.quality(words, own[real], source.tolist(), probability=False, seed=p.seed)
classes = list(score.classes)
guess = unseen[classes].to_numpy().argmax(axis=1)
right = np.array([classes[k] for k in guess]) == np.array(labels)
without = unseen[[name for name in classes if name != basins.NONE]]
forced = (without.to_numpy().argmax(axis=1) == list(without.columns).index(p.topic))[~real]
table_quality = pd.concat([quality.assign(score="sentence vectors"), keyword.assign(score="keywords")])
by_statistic = quality.set_index("statistic")
glue("labelled", len(labelled), display=False)
glue("topics", len(set(topics_of)), display=False)
glue("salad", p.salad, display=False)
glue("salad-tau", f"{p.salad_temperature:g}", display=False)
glue("stretches", int(real.sum()), display=False)
glue("auc", between(by_statistic.loc["AUC"], "{:.3f}"), display=False)
glue("auc-keyword", between(keyword.iloc[0], "{:.3f}"), display=False)
glue("error", between(by_statistic.loc["error"]), display=False)
glue("calibration", between(by_statistic.loc["calibration error"], "{:.3f}"), display=False)
glue("accuracy", share(right[real].mean()), display=False)
glue("salad-none", share(right[~real].mean()), display=False)
glue("salad-topic", share((guess[~real] == classes.index(p.topic)).mean()), display=False)
glue("salad-forced", share(forced.mean()), display=False)
figure = draw.calibration(basins.reliability(unseen[p.topic].to_numpy(), own), p.topic)
glue("figure-calibration", figure)

# %% tags=["hide-input"]
table(
    table_quality[["score", "statistic", "estimate", "low", "high", "groups", "texts"]],
    dict.fromkeys(["estimate", "low", "high"], "{:.3f}"),
)

# %% [markdown]
# For *{glue:text}`topic`* against all else the area under the curve is {glue:text}`auc` on held-out stretches, with a 95 % interval over passages; the
# keyword baseline, the words that set the topic's training passages apart, reaches {glue:text}`auc-keyword`. At probability 1/2 the score errs on
# {glue:text}`error` of the texts, and its mean calibration error is {glue:text}`calibration`. The likeliest of all classes is the
# right one for {glue:text}`accuracy` of {glue:text}`stretches` stretches. Of the held-out word salad,
# {glue:text}`salad-none` goes to *none of these* and {glue:text}`salad-topic` to *{glue:text}`topic`*; without that class it would be
# {glue:text}`salad-forced`. The passages were written for this project and are cleaner than what chains write, so these figures are the best case.
#
# ## Long chains
#
# Starting texts: {glue:text}`account`.
#
# {glue:text}`starts` chains, each from a passage, run for {glue:text}`sweeps` sweeps at each of $\tau$ = {glue:text}`taus`; each text is read once a sweep.

# %% tags=["hide-input"]
together = engines.run(
    lm,
    np.tile(begin.states, (len(taus), 1)),
    temperature=np.repeat(taus, p.starts),
    chains=[*range(p.starts)] * len(taus),
    steps=p.sweeps * p.n,
    seed=p.seed,
    record_every=p.n,
    label="long chains",
)
traces = {tau: together.isel(chain=together["temperature"] == tau) for tau in taus}
embedded = {tau: embed(read(trace["states"])).reshape(p.sweeps + 1, p.starts, -1) for tau, trace in traces.items()}
about = {tau: score.labels(v, begun) for tau, v in embedded.items()}
order = np.argsort(np.array(origins), kind="stable")
ranked = [name for name in classes if name != basins.NONE] + [basins.NONE]
place = np.array([ranked.index(name) for name in classes])
sorted_origins = [origins[k] for k in order]
figure = draw.topic_paths(
    {f"τ = {tau:g}": place[about[tau]][:, order] for tau in taus},
    ranked,
    np.arange(p.sweeps + 1),
    sorted_origins,
    basins.NONE,
)
glue("figure-paths", figure)

# %% [markdown]
# One row per chain, sorted by the topic of its start, and its likeliest class at each sweep.
#
# Two nulls say what share of time would mean nothing. *Passages*: the classes of the held-out stretches themselves. *Shuffled*: the
# texts of the chains with their tokens in random order, which keep every word and lose the sentence.

# %% tags=["hide-input"]
parts = []
for tau in taus:
    parts.append(basins.shares(about[tau], classes, seed=p.seed).assign(source=f"chains, τ = {tau:g}"))
kept = np.unique(np.linspace(0, p.sweeps, p.shuffles).astype(int))
mixed = rng.permuted(traces[middle]["states"].to_numpy()[kept], axis=2)
mixed_about = score.labels(embed(read(mixed)).reshape(*mixed.shape[:2], -1), begun)
parts.append(basins.shares(mixed_about, classes, seed=p.seed).assign(source=f"null: shuffled, τ = {middle:g}"))
of_passages = np.concatenate(
    [basins.own_shares(guess[np.array(groups) == k, None], len(classes)) for k in np.unique(source)]
)
parts.append(basins.mean_shares(of_passages, classes, seed=p.seed).assign(source="null: passages"))
spent = pd.concat(parts)
marked = spent[spent["topic"] == p.topic].set_index("source").rename(columns={"share": "estimate"})
null_low = marked.loc[f"null: shuffled, τ = {middle:g}"]
null_pass = marked.loc["null: passages"]
hot_row, cold_row = marked.loc[f"chains, τ = {middle:g}"], marked.loc[f"chains, τ = {taus[0]:g}"]
glue("share-middle", between(hot_row), display=False)
glue("share-cold", between(cold_row), display=False)
glue("share-shuffled", between(null_low), display=False)
glue("share-passages", between(null_pass), display=False)
on_topic = classes.index(p.topic)
of_chains = basins.own_shares(about[middle], len(classes))[:, on_topic]
# The shuffled texts are those of some records: the chains' own share at the same records, chain by chain.
less_shuffled = difference_interval(
    basins.own_shares(mixed_about, len(classes))[:, on_topic],
    basins.own_shares(about[middle][kept], len(classes))[:, on_topic],
    paired=True,
    most=1,
)
less_passages = difference_interval(of_passages[:, on_topic], of_chains, paired=False, most=1)
glue("middle-shuffled", lies(less_shuffled), display=False)
glue("less-shuffled", between(less_shuffled, "{:+.1%}"), display=False)
glue("records-shuffled", len(kept), display=False)
glue("middle-passages", lies(less_passages), display=False)
glue("less-passages", between(less_passages, "{:+.1%}"), display=False)
most = spent[(spent["source"] == f"chains, τ = {middle:g}") & (spent["topic"] != basins.NONE)]
most = most.sort_values("share", ascending=False).iloc[0].rename({"share": "estimate"})
glue("most-topic", most["topic"], display=False)
glue("most-share", between(most), display=False)
none_row = spent[(spent["topic"] == basins.NONE) & (spent["source"] == f"chains, τ = {taus[-1]:g}")].iloc[0]
glue("none-hot", share(none_row["share"]), display=False)
glue("tau-hot", f"{taus[-1]:g}", display=False)
figure = draw.topic_shares(
    spent.assign(topic=pd.Categorical(spent["topic"], ranked)).sort_values("topic", kind="stable"), p.topic
)
glue("figure-shares", figure)

# %% [markdown]
# At $\tau$ = {glue:text}`tau-middle` the chains spend {glue:text}`share-middle` of their time on *{glue:text}`topic`* (95 % interval over chains), which is
# {glue:text}`middle-passages` the passages' own {glue:text}`share-passages` (difference {glue:text}`less-passages`, Welch) and {glue:text}`middle-shuffled` the
# {glue:text}`share-shuffled` of the same texts shuffled (difference {glue:text}`less-shuffled`, chain by chain at the same {glue:text}`records-shuffled` records). At $\tau$ = {glue:text}`tau-low` it is {glue:text}`share-cold`. The topic with the largest share at
# $\tau$ = {glue:text}`tau-middle` is *{glue:text}`most-topic`*, {glue:text}`most-share`. At $\tau$ = {glue:text}`tau-hot`,
# {glue:text}`none-hot` of the time goes to *none of these*.
#
# ## Visits, returns, first passages

# %% tags=["hide-input"]
inside = {tau: about[tau] == on_topic for tau in taus}
told = pd.concat(basins.summary(inside[tau][:, elsewhere], p.n, p.n).assign(temperature=tau) for tau in taus)
told["estimate"] = [
    f"{row['mean']:.2f} [{row['low']:.2f}, {row['high']:.2f}]" if np.isfinite(row["low"]) else f"{row['mean']:.2f}"
    for _, row in told.iterrows()
]
wide = told.pivot_table(index="quantity", columns="temperature", values="estimate", aggfunc="first", sort=False)
wide = wide.rename(columns=lambda tau: f"τ = {tau:g}").rename_axis(columns=None).reset_index()
stays = {f"τ = {tau:g}": basins.staying(basins.visits(inside[tau], p.n)) for tau in taus}
reached = basins.first_passage(inside[middle][:, elsewhere], np.array(origins)[elsewhere].tolist(), p.n)
row = told[(told["temperature"] == middle)].set_index("quantity")
glue("elsewhere", int(elsewhere.sum()), display=False)
said = row.rename(columns={"mean": "value"}).drop(columns="estimate").rename(columns={"value": "estimate"})
glue("comes", between(said.loc["comes at all"], "{:.0%}"), display=False)
glue("returns", between(said.loc["leaves and comes back"], "{:.0%}"), display=False)
glue("ends", between(said.loc["ends inside"], "{:.0%}"), display=False)
dwell = row.loc["mean dwell of ended visits (sweeps)"]
known = np.isfinite(dwell["mean"])
glue("dwell", between(said.loc[dwell.name], "{:.1f}") if known else "unknown, as no visit ended", display=False)
figure = draw.recurrence(reached, stays, p.n, p.topic, p.sweeps * p.n)
glue("figure-recurrence", figure)

# %% tags=["hide-input"]
table(wide)

# %% [markdown]
# The table is over the {glue:text}`elsewhere` chains that start on other topics, as means with 95 % intervals over chains. At $\tau$ =
# {glue:text}`tau-middle`, {glue:text}`comes` of them come to *{glue:text}`topic`* at some time, {glue:text}`returns` leave it and come back, and {glue:text}`ends`
# are there at the end; a visit that ended took {glue:text}`dwell` sweeps. Left in the figure: how long it takes to reach the
# topic, by start, as Kaplan-Meier medians with intervals, from the few chains named on the right. Right: how long a visit lasts, visits cut by
# the end of the run being censored. A visit is a run of sweeps on which the score calls the text *{glue:text}`topic`*, so that a single
# mistaken label makes or breaks one.
#
# Any topic of some share is visited and left by chance alone. The table, folded, has all classes at $\tau$ = {glue:text}`tau-middle`, by the chains that start on others, beside what two nulls give in
# 95 % of draws: each chain's labels in random order, and a first-order Markov chain between classes with the counted moves and the same starts.

# %% tags=["hide-input"]
nulls = basins.beside_nulls(about[middle], classes, origins, seed=p.seed)
verdicts = nulls.set_index(["topic", "quantity"])["verdict"]
glue("returns-verdict", verdicts[p.topic, "leaves and comes back"], display=False)
glue("recurrence", basins.recurrence(nulls, p.topic), display=False)

# %% tags=["hide-cell"]
table(
    pd.DataFrame(
        {
            "topic": nulls["topic"],
            "quantity": nulls["quantity"],
            "observed": [between(row.rename({"observed": "estimate"}), "{:.2f}") for _, row in nulls.iterrows()],
            "random order": nulls["permuted_low"].map("{:.2f}".format)
            + " to "
            + nulls["permuted_high"].map("{:.2f}".format),
            "Markov chain": nulls["markov_low"].map("{:.2f}".format)
            + " to "
            + nulls["markov_high"].map("{:.2f}".format),
            "verdict": nulls["verdict"],
        }
    ).replace("nan to nan", "the same")
)

# %% [markdown]
# {glue:text}`recurrence` Verdicts are of one topic and quantity each, with no correction for their number.
#
# ## The landscape

# %% tags=["hide-input"]
chains = embedded[middle]
land = basins.principal(vectors[real], chains.reshape(-1, chains.shape[-1]), p.seed)
points = land.coordinates(chains.reshape(-1, chains.shape[-1]))
paths = points.reshape(p.sweeps + 1, p.starts, -1)
drawn = list(range(0, p.starts, -(-p.starts // 4)))
figure = draw.landscape_map(
    land.coordinates(vectors[real])[:, :2],
    topics_of,
    points[:, :2],
    np.arange(p.sweeps + 1),
    [paths[:, k, :2] for k in drawn],
    [[classes[c] for c in about[middle][:, k]] for k in drawn],
    land.explained[:2],
)
glue("plane", share(land.explained[:2].sum()), display=False)
glue("figure-plane", figure)

# %% [markdown]
# Principal components of the sentence vectors of passages and chains, both with equal weight, at $\tau$ = {glue:text}`tau-middle`. The plane shows
# {glue:text}`plane` of the variance, so nearness in it is weak evidence; the clusters below use {glue:text}`components` components.

# %% tags=["hide-input"]
stable = basins.stability(paths, sorted({2, 4, p.clusters, 2 * p.clusters}), seed=p.seed)
found = basins.clusters(points, p.clusters, p.seed)
member = found.labels_.reshape(p.sweeps + 1, p.starts)
flat = about[middle].reshape(-1)
names = []
for k in range(p.clusters):
    counted = np.bincount(flat[found.labels_ == k], minlength=len(classes))
    names.append(f"{k + 1} {classes[int(counted.argmax())]} ({counted.max() / counted.sum():.0%})")
lags = [lag for lag in (1, 2, 5, 10, 20, 40) if lag < p.sweeps // 2]
counts = basins.transition_counts(member, p.clusters, 1)
scales = basins.time_scales(member, p.clusters, lags, every=p.n, seed=p.seed)
markov = basins.lag_test(scales)
rand = stable.set_index("clusters")["rand"]
glue("components", len(land.explained), display=False)
glue("clusters", p.clusters, display=False)
glue("rand", float(rand.get(p.clusters, np.nan)), display=False)
glue("lag-verdict", markov.verdict, display=False)
glue("lag-reason", markov.reason, display=False)
glue("lags-used", int(markov.table["used"].sum()), display=False)
glue("lags", len(markov.table), display=False)
figure = draw.basin_moves(counts, names, scales.table(), stable, p.n)
glue("figure-moves", figure)

# %% [markdown]
# {glue:text}`clusters` k-means clusters, named by the class that is most frequent in them and its share. Two clusterings, each of half of the chains, agree with an adjusted Rand index of
# {glue:text}`rand:.2f` (1 is full agreement): with a low value the borders are a choice of the sample, not of the landscape. If moves
# between clusters were Markov, the slowest implied time scale of their model would not depend on the lag. The hypothesis that they are: {glue:text}`lag-verdict`
# ({glue:text}`lag-reason`). The test uses the {glue:text}`lags-used` of {glue:text}`lags` lags that are below their time scale, and compares them resample by resample of the same chains, two-sided and with
# one level of 95 % for all lags. In the grey area a time scale is shorter than the lag and cannot be told; an arrow is a limit that is not known.
#
# ## Traps in the wild
#
# A stretch of over {glue:text}`longer` steps in which at most {glue:text}`positions` positions change, at any of the temperatures.

# %% tags=["hide-input"]
quiet = []
for tau in taus:
    found_here = basins.quiet_stretches(traces[tau], longer=p.longer, positions=p.positions)
    quiet.append(basins.describe(lm, traces[tau], found_here, lm.text.decode).assign(temperature=tau))
quiet = pd.concat(quiet, ignore_index=True)
perfect = int((quiet["kind"] == "perfect").sum())
glue("longer", p.longer, display=False)
glue("positions", p.positions, display=False)
glue("quiet", len(quiet), display=False)
glue("quiet-perfect", perfect, display=False)
glue("quiet-chains", int(quiet.loc[quiet["temperature"] == taus[0], "chain"].nunique()), display=False)
glue("quiet-warm", int((quiet["temperature"] > taus[0]).sum()), display=False)
ten = quiet.sort_values("time", ascending=False).head(10)
ten = ten.assign(
    start=[html.escape(origins[k]) for k in ten["chain"]],
    dwell=[f"{'over ' if cut else ''}{value:,}" for value, cut in zip(ten["time"], ten["censored"], strict=True)],
    text=[html.escape(text) for text in ten["text"]],
    moving=[len(m) for m in ten["moving"]],
)
table(
    ten[["text", "start", "temperature", "dwell", "moving", "margin", "kind"]].rename(
        columns={"moving": "moving positions"}
    ),
    {"temperature": "{:g}", "margin": "{:.2f}"},
    {"dwell": "steps", "margin": "nats"},
)

# %% tags=["hide-input"]
recurring = basins.templates(quiet, begin.table["id"].tolist())
glue("templates", len(recurring), display=False)
glue("template-starts", int(recurring["starts"].max()) if len(recurring) else 0, display=False)
table(
    recurring.head(10).assign(template=[html.escape(text) for text in recurring.head(10)["template"]]),
    {"time": "{:,}"},
    {"time": "steps", "fixed": "positions"},
)

# %% [markdown]
# There are {glue:text}`quiet` such stretches, {glue:text}`quiet-perfect` of them around a perfect trap (every token leads its position's
# conditional; a negative margin is a token that does not). At $\tau$ = {glue:text}`tau-low`, {glue:text}`quiet-chains` of
# {glue:text}`starts` chains meet one; at the higher temperatures there are {glue:text}`quiet-warm`. The first table shows the ten longest; those cut by an
# end of the run lasted longer than it says. The second shows templates, texts that agree at
# most positions and are met from different starts: {glue:text}`templates` of them, the most widespread from {glue:text}`template-starts` starts.
#
# ## A second model
#
# Chains of another model from the same passages, at $\tau$ = {glue:text}`tau-middle`, read by the same score: {glue:text}`second`. The
# word salad from which the score learnt *none of these* was written by *{glue:text}`model`*.

# %% tags=["hide-input"]
seen = {p.model: (traces[middle], about[middle], mixed_about)}
if second:
    trace = engines.run(
        second, begin_second.states, temperature=middle, steps=p.sweeps * p.n, seed=p.seed, record_every=p.n,
        label="second model",
    )  # fmt: skip
    texts = trace["states"].to_numpy()
    on = score.labels(embed(read(texts, second.text)).reshape(*texts.shape[:2], -1), begun)
    salted = rng.permuted(texts[kept], axis=2)
    salted_on = score.labels(embed(read(salted, second.text)).reshape(*salted.shape[:2], -1), begun)
    seen[second.name] = (trace, on, salted_on)
columns, each = {}, {}
for name, (trace, on, mixed_on) in seen.items():
    time_on = basins.shares(on, classes, seed=p.seed).set_index("topic").rename(columns={"share": "estimate"})
    null = basins.shares(mixed_on, classes, seed=p.seed).set_index("topic").rename(columns={"share": "estimate"})
    each[name] = basins.own_shares(on, len(classes))[:, on_topic]
    top = time_on.drop(basins.NONE)["estimate"].idxmax()
    # Both begin in the same passages, so that the chains from elsewhere are the same ones.
    counted = basins.summary(on[:, elsewhere] == on_topic, p.n, p.n).set_index("quantity")
    counted = counted.rename(columns={"mean": "estimate"})
    chance = basins.beside_nulls(on, classes, origins, seed=p.seed).set_index(["topic", "quantity"])["verdict"]
    columns[name] = {
        f"share of time on {p.topic}": between(time_on.loc[p.topic]),
        "the same, shuffled texts": between(null.loc[p.topic]),
        "share of time on none of these": between(time_on.loc[basins.NONE]),
        "topic with the largest share": f"{top}, {between(time_on.loc[top])}",
        f"chains from elsewhere that come to {p.topic}": between(counted.loc["comes at all"], "{:.0%}"),
        "leave it and come back": between(counted.loc["leaves and comes back"], "{:.0%}"),
        "the last, beside the two nulls": chance[p.topic, "leaves and comes back"],
        "end there": between(counted.loc["ends inside"], "{:.0%}"),
        f"stretches of over {p.longer} steps with at most {p.positions} moving positions": str(
            len(basins.quiet_stretches(trace, longer=p.longer, positions=p.positions))
        ),
    }
compared = "There is no second model to compare with."
if second:
    change = difference_interval(each[p.model], each[second.name], paired=True, most=1)
    compared = (
        f"The share of {second.name} on {p.topic} is {lies(change)} that of {p.model}: the difference is "
        f"{between(change, '{:+.1%}')}, over {p.starts} pairs of chains from the same passage."
    )
glue("second", second.name if second else "none was given, and the table has one column", display=False)
glue("compared", compared, display=False)
table(by_model(columns))

# %% [markdown]
# {glue:text}`compared` In brackets are 95 % intervals over chains.
#
# ## See it move
#
# The first steps of one chain at each temperature, step by step, and of one chain of the second model. A token that has just changed is marked, and the mark fades. Space plays
# and pauses, arrow keys step.

# %% tags=["hide-input"]
films = []
chosen = next((k for k, name in enumerate(origins) if name == "health"), 0)
for shown, starts, heats in [(lm, begin, taus), *([(second, begin_second, [middle])] if second else [])]:
    close = engines.run(
        shown,
        np.tile(starts.states[[chosen]], (len(heats), 1)),
        temperature=heats,
        chains=[chosen] * len(heats),
        steps=p.film_steps,
        seed=p.seed,
        record_every=1,
    )
    for k, tau in enumerate(heats):
        states = close["states"].to_numpy()[:, k]
        away = embed(read(states, shown.text))
        films.append(
            film(shown.text, states, close["record"].to_numpy().tolist(), f"{shown.name}, τ = {tau:g}",
                 distance=cosine_distance(away, away[0]).tolist())
        )  # fmt: skip
filmed = f"{p.model} at τ = {', '.join(f'{tau:g}' for tau in taus)}" + (
    f" and of {second.name} at τ = {middle:g}" if second else ""
)
glue("filmed", filmed, display=False)
glue("player", HTML(player(films, distance_label="distance in meaning")))

# %% [markdown]
# ## What this shows, and what it does not
#
# It shows where chains of *{glue:text}`model`* go in {glue:text}`sweeps` sweeps at $n$ = {glue:text}`n`: at $\tau$ = {glue:text}`tau-middle` they spend {glue:text}`share-middle` of
# their time on *{glue:text}`topic`*, {glue:text}`returns` of the chains from other topics leave it and come back, which is {glue:text}`returns-verdict`, and {glue:text}`ends` end there.
# The paper reports political content as a recurrent attractor of its models; whether a model has that basin is a property of what it was trained
# on, and nothing here confirms or refutes it for BERT or RoBERTa. The shares lean on a score that was trained on clean passages: it has not been
# validated on texts of chains, which no one has labelled. Chains of this length are no sample of equilibrium at the lower temperatures,
# so that a share of time depends on the starts. Clusters are a summary of a cloud, and their stability is stated above.
#
# ## Provenance

# %% tags=["hide-input"]
table(provenance(lm, p.model_dump(), started, second))
