"""Topic scores never saw the passage that they judge, are calibrated, and tell topics apart better than words do."""

import re
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
import pytest
from numpy.typing import NDArray
from scipy import stats
from sklearn.calibration import CalibratedClassifierCV

from glauber import MaskedLM, ParameterError, basins
from glauber.basins import topics
from glauber.embeddings import load_embedder
from glauber.passages import read_passages

Array = NDArray[np.float64]
CLASSES = ["calm", "dull", "keen"]


def blobs(counts: Sequence[int], seed: int = 0) -> tuple[NDArray[np.float32], NDArray[np.int64], Array]:
    """Vectors from three Gaussians, their classes, and the posterior if all classes are as frequent."""
    rng = np.random.default_rng(seed)
    means = 1.5 * np.eye(3, 5)
    own = np.repeat(np.arange(3), counts)
    vectors = (means[own] + rng.standard_normal((len(own), 5))).astype(np.float32)
    weight = np.exp(vectors @ means.T - (means**2).sum(axis=1) / 2)
    return vectors, own, weight / weight.sum(axis=1, keepdims=True)


def value(table: pd.DataFrame, statistic: str, column: str = "estimate") -> float:
    return float(table.set_index("statistic")[column].to_dict()[statistic])


def held_out(vectors: NDArray[np.float32], labels: Sequence[str], groups: Sequence[int]) -> pd.DataFrame:
    """Probabilities of every text by the score that has not seen its group."""
    score = basins.cross_fit(vectors, labels, groups)
    return pd.DataFrame(score.probabilities(vectors, groups), columns=list(score.classes))


# Topic scores


def test_windows_are_cut_end_to_end() -> None:
    rows, owner = basins.windows([[1, 2, 3, 4, 5], [6], [7, 8]], 2)
    assert rows.tolist() == [[1, 2], [3, 4], [7, 8]]
    assert owner.tolist() == [0, 0, 2]
    with pytest.raises(ParameterError, match="no text has 6 tokens: give longer texts or a smaller n"):
        basins.windows([[1, 2, 3, 4, 5]], 6)


def test_no_group_is_on_both_sides_of_any_split(monkeypatch: pytest.MonkeyPatch) -> None:
    """Outer folds by the groups that `train` is given, inner ones, which calibrate, by the splits that it makes."""
    vectors, own, _ = blobs([90] * 3)
    groups = np.arange(len(own)) // 3
    outer: list[set[int]] = []
    real, calibrate = topics.train, CalibratedClassifierCV

    def spy(given: Any, labels: Any, inside: Any, seed: int = 0) -> basins.TopicModel:
        outer.append(set(inside))
        return real(given, labels, inside, seed)

    def calibrated(*arguments: Any, cv: Any, **options: Any) -> Any:
        index = np.array(sorted(outer[-1])).repeat(3)
        for fitted, left in cv:
            assert not set(index[fitted]) & set(index[left])
        assert sorted(np.concatenate([left for _, left in cv])) == list(range(len(index)))
        return calibrate(*arguments, cv=cv, **options)

    monkeypatch.setattr(topics, "train", spy)
    monkeypatch.setattr(topics, "CalibratedClassifierCV", calibrated)
    table = held_out(vectors, [CLASSES[k] for k in own], groups.tolist())
    assert outer.pop() == set(groups)  # the score of all
    assert len(outer) == 4
    assert all((~pd.Series(groups).isin(list(inside))).any() for inside in outer)
    assert sorted(g for inside in outer for g in set(groups) - inside) == sorted(set(groups))  # left out exactly once
    assert np.allclose(table[CLASSES].sum(axis=1), 1)


def test_vectors_that_give_away_their_group_say_nothing() -> None:
    """Random labels by group: if a group were on both sides, its vectors would tell its label."""
    rng = np.random.default_rng(2)
    groups = np.repeat(np.arange(80), 5)
    labels = rng.permutation(np.repeat(CLASSES[:2], 40))[groups]
    vectors = (rng.standard_normal((80, 200))[groups] + 0.01 * rng.standard_normal((400, 200))).astype(np.float32)
    own = labels == "dull"
    kept = held_out(vectors, labels.tolist(), groups.tolist())["dull"].to_numpy()
    leaky = held_out(vectors, labels.tolist(), list(range(400)))["dull"].to_numpy()
    found = basins.quality(kept, own, groups.tolist(), resamples=100)
    assert 0.3 < value(found, "AUC") < 0.7
    assert value(found, "AUC", "low") < 0.5 < value(found, "AUC", "high")
    assert value(basins.quality(leaky, own, groups.tolist(), resamples=10), "AUC") > 0.95


def test_a_chain_is_scored_without_the_passage_it_starts_from() -> None:
    """Vectors give away their passage, and its topic is random: whoever knows the topic has seen the passage."""
    rng = np.random.default_rng(3)
    own = rng.permutation(np.repeat([0, 1], 40))
    places = rng.standard_normal((80, 200)).astype(np.float32)
    noise = 0.01 * rng.standard_normal((3, 80, 200)).astype(np.float32)
    score = basins.cross_fit(
        np.repeat(places, 2, axis=0), [CLASSES[k] for k in own.repeat(2)], np.arange(80).repeat(2).tolist()
    )
    chains = places + noise  # three records of a chain from each passage
    unseen = score.labels(chains, list(range(80)))
    seen = score.labels(chains, [basins.ELSEWHERE] * 80)
    assert unseen.shape == (3, 80)
    assert (seen == own).mean() > 0.95
    assert (unseen == own).mean() < 0.7
    # A chain that began at a labelled text is recognised by the text, under whatever name.
    texts = [f"text {k}" for k in range(80)]
    assert basins.start_groups([" text 7\n", "another", "text 0"], texts) == [7, basins.ELSEWHERE, 0]
    for groups in ([80] * 80, [0] * 79):
        with pytest.raises(ParameterError, match="give each text the group of a labelled text, or ELSEWHERE"):
            score.probabilities(chains[0], groups)


def test_starts_that_are_all_on_the_topic_are_refused() -> None:
    assert basins.elsewhere(["sport", "", "food"], "food").tolist() == [True, True, False]
    with pytest.raises(ParameterError, match=r"^all 2 passages are on topic 'food': give another topic, or passages"):
        basins.elsewhere(["food", "food"], "food")


def test_a_fold_that_holds_a_topic_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    vectors, own, _ = blobs([40] * 3)
    rows = np.arange(120)
    monkeypatch.setattr(topics, "splits", lambda *_: [(rows[own != 1], rows[own == 1])])
    with pytest.raises(ParameterError, match="holds all of a topic"):
        basins.cross_fit(vectors, [CLASSES[k] for k in own], rows.tolist())


@pytest.mark.parametrize("counts", [[400, 400, 400], [150, 400, 700]])
def test_probabilities_are_the_true_posterior(counts: list[int]) -> None:
    """Of classes that count the same, however many texts each has."""
    vectors, own, true = blobs(counts)
    labels = [CLASSES[k] for k in own]
    found = held_out(vectors, labels, list(range(len(own))))[CLASSES].to_numpy()
    assert np.abs(found - true).mean() < 0.035
    assert np.abs(found**2 / (found**2).sum(axis=1, keepdims=True) - true).mean() > 0.06  # surer than it should be
    model = basins.train(vectors, labels, range(len(own)))
    assert model.classes == tuple(CLASSES)
    fresh, theirs, _ = blobs([300] * 3, seed=1)
    probability = model.probabilities(fresh)
    assert np.array_equal(model.labels(fresh), probability.argmax(axis=1))
    assert probability.sum(axis=1) == pytest.approx(1)
    best = float((blobs([300] * 3, seed=1)[2].argmax(axis=1) == theirs).mean())
    assert float((model.labels(fresh) == theirs).mean()) > best - 0.03


def test_quality_is_what_loops_find() -> None:
    rng = np.random.default_rng(4)
    scores = np.round(rng.random(120), 2)  # with ties
    own = rng.random(120) < scores
    found = basins.quality(scores, own, range(120), resamples=20)
    pairs = [(a > b) + (a == b) / 2 for a in scores[own] for b in scores[~own]]
    assert value(found, "AUC") == pytest.approx(np.mean(pairs))
    u = stats.mannwhitneyu(scores[own], scores[~own]).statistic
    assert value(found, "AUC") == pytest.approx(u / own.sum() / (~own).sum())
    assert value(found, "error") == pytest.approx(np.mean([(s > 0.5) != y for s, y in zip(scores, own, strict=True)]))
    assert value(found, "Brier score") == pytest.approx(
        np.mean([(s - y) ** 2 for s, y in zip(scores, own, strict=True)])
    )
    cells = [[k for k in range(120) if c <= scores[k] * 10 < c + 1 + (c == 9)] for c in range(10)]
    gaps = [abs(scores[cell].mean() - own[cell].mean()) * len(cell) / 120 for cell in cells if cell]
    assert value(found, "calibration error") == pytest.approx(sum(gaps))
    sure = basins.quality(np.where(scores > 0.5, 0.99, 0.01), own, range(120), resamples=20)
    assert value(sure, "calibration error") > 2 * value(found, "calibration error")
    rows = basins.reliability(scores, own)
    assert rows["texts"].tolist() == [len(cell) for cell in cells if cell]
    for (_, row), cell in zip(rows.iterrows(), [c for c in cells if c], strict=True):
        z, m, p = stats.norm.ppf(0.975), len(cell), own[cell].mean()
        middle, half = (
            (p + z**2 / 2 / m) / (1 + z**2 / m),
            z / (1 + z**2 / m) * np.sqrt(p * (1 - p) / m + z**2 / 4 / m**2),
        )
        assert row[["predicted", "observed"]].tolist() == pytest.approx([scores[cell].mean(), p])
        assert row[["low", "high"]].tolist() == pytest.approx([middle - half, middle + half])
    alone = basins.quality(scores * 7, own, range(120), probability=False, resamples=20)
    assert alone["statistic"].tolist() == ["AUC"]
    assert value(alone, "AUC") == value(found, "AUC")


def test_interval_of_the_area_covers_only_over_groups() -> None:
    """Passages of eight windows that are all alike: windows taken for independent give an interval that is too narrow."""
    true = stats.norm.cdf(1 / np.sqrt(2))
    held: list[bool] = []
    taken: list[bool] = []
    for seed in range(30):
        rng = np.random.default_rng(seed)
        own = np.arange(40) < 20
        scores = np.repeat(rng.standard_normal(40) + own, 8)
        for groups, into in ((np.arange(320) // 8, held), (np.arange(320), taken)):
            found = basins.quality(scores, own.repeat(8), groups.tolist(), probability=False, resamples=50, seed=seed)
            into.append(value(found, "AUC", "low") <= true <= value(found, "AUC", "high"))
    assert stats.binomtest(sum(held), 30, 0.92).pvalue > 1e-3
    assert np.mean(taken) < 0.7


def test_resamples_hold_all_texts_of_a_group() -> None:
    """Two groups: a resample is both or one of them twice, so that the interval runs from one group's score to the other's."""
    groups, own = np.repeat([0, 1], [6, 4]), np.array([1, 0, 1, 0, 1, 0, 1, 0, 0, 0], dtype=bool)
    scores = np.linspace(0.05, 0.95, 10)
    briers = [((scores - own) ** 2)[groups == g].mean() for g in (0, 1)]
    found = basins.quality(scores, own, groups.tolist(), resamples=200)
    assert value(found, "Brier score", "low") == pytest.approx(min(briers))
    assert value(found, "Brier score", "high") == pytest.approx(max(briers))
    assert found["groups"].tolist() == [2] * 4
    assert found["texts"].tolist() == [10] * 4


def keyword_texts(seed: int = 0) -> tuple[list[str], list[str], list[int]]:
    """Texts of words w..., each topic with favourites of its own."""
    rng = np.random.default_rng(seed)
    words = np.array([f"w{a}{b}" for a in "abcdef" for b in "xyzuv"])
    labels = np.repeat(["one", "two", "three"], [16, 24, 40])
    texts = []
    for label in labels:
        law = np.ones(30)
        law[{"one": slice(0, 8), "two": slice(8, 16), "three": slice(16, 24)}[str(label)]] = 4
        texts.append(" ".join(rng.choice(words, 12, p=law / law.sum())).upper() + ", so it is.")
    return texts, labels.tolist(), (np.arange(80) // 2).tolist()


def naive_keywords(texts: list[str], labels: list[str], groups: list[int], topic: str, best: int) -> Array:
    scores = np.zeros(len(texts))
    for fitted, left in topics.splits(labels, groups, 4, 0):
        sets = [(set(re.findall("[a-z]{3,}", texts[k].lower())), labels[k] == topic) for k in fitted]
        inside, outside = [s for s, own in sets if own], [s for s, own in sets if not own]
        gain = {}
        for word in set().union(*inside):
            p, q = ((sum(word in s for s in part) + 0.5) / (len(part) + 1) for part in (inside, outside))
            gain[word] = np.log(p / (1 - p)) - np.log(q / (1 - q))
        chosen = sorted(gain, key=lambda w: (-gain[w], w))[:best]
        for k in left:
            read = re.findall("[a-z]+", texts[k].lower())
            scores[k] = np.mean([word in chosen for word in read])
    return scores


def test_keyword_scores_are_what_loops_find() -> None:
    texts, labels, groups = keyword_texts()
    for topic in ("one", "three"):
        found = basins.keyword_scores(texts, labels, groups, topic, words=8)
        assert found == pytest.approx(naive_keywords(texts, labels, groups, topic, 8))
        own = np.array(labels) == topic
        assert value(basins.quality(found, own, groups, probability=False, resamples=10), "AUC") > 0.85


def test_keywords_of_a_fold_are_learnt_from_the_others() -> None:
    """Words that only one passage has say nothing of it; words of the other folds do."""
    _, labels, groups = keyword_texts()
    private = [f"only{'abcdefghij'[g // 10]}{'abcdefghij'[g % 10]}" for g in groups]
    assert not basins.keyword_scores(private, labels, groups, "one", words=1000).any()
    shared = [f"{word} common" if label == "one" else word for word, label in zip(private, labels, strict=True)]
    assert basins.keyword_scores(shared, labels, groups, "one").tolist() == [0.5 * (k == "one") for k in labels]


def test_too_little_to_train_on_is_one_sentence() -> None:
    vectors = np.zeros((8, 3), np.float32)
    cases = [
        (["a"] * 8, range(8), "1 topics with 8 passages in the smallest: a topic score needs 2 topics with 4"),
        (["a", "b"] * 4, [0, 1, 2, 1, 4, 3, 6, 3], "2 topics with 2 passages"),
        ([], [], "0 topics with 0 passages"),
    ]
    for labels, groups, message in cases:
        with pytest.raises(ParameterError, match=message) as caught:
            basins.train(vectors[: len(labels)], labels, groups)
        assert "\n" not in str(caught.value)
    for labels in (["a", "b"] * 4, []):
        with pytest.raises(ParameterError, match=r"the smallest topic has \d passages: 4 folds need 8 in each"):
            held_out(vectors[: len(labels)], labels, range(len(labels)))


# The embedded passages


@pytest.fixture(scope="module")
def scored(tiny: MaskedLM) -> tuple[pd.DataFrame, Array]:
    """Held-out probabilities of windows of 16 tokens and of salad, and the keyword baseline for politics."""
    passages = list(read_passages())
    rows, owner = basins.windows([tiny.text.encode(p.text)[0] for p in passages], 16)
    salad = np.random.default_rng(0).choice(tiny.vocabulary, (60, 16))
    texts = [tiny.text.decode(ids.tolist()) for ids in np.concatenate([rows, salad])]
    labels = [passages[k].topic for k in owner] + [basins.NONE] * 60
    groups = [*owner.tolist(), *range(1000, 1060)]
    table = held_out(load_embedder(device="cpu", cache=None)(texts), labels, groups)
    table = table.assign(label=labels, group=groups)[["label", "group", *table.columns]]
    return table, basins.keyword_scores(texts, labels, groups, "politics")


def test_politics_is_told_from_the_rest_and_better_than_by_words(scored: tuple[pd.DataFrame, Array]) -> None:
    table, words = scored
    own, groups = (table["label"] == "politics").to_numpy(), table["group"].tolist()
    found = basins.quality(table["politics"].to_numpy(), own, groups, resamples=100)
    baseline = basins.quality(words, own, groups, probability=False, resamples=100)
    assert value(found, "AUC") >= value(found, "AUC", "low") >= 0.95
    assert value(baseline, "AUC", "high") < value(found, "AUC", "low")
    assert value(baseline, "AUC") > 0.55
    assert value(found, "error") < 0.02
    assert value(found, "calibration error") < 0.03
    shuffled = np.random.default_rng(0).permutation(own)
    assert value(basins.quality(table["politics"].to_numpy(), shuffled, groups, resamples=10), "AUC") < 0.7


def test_salad_is_none_of_the_topics(scored: tuple[pd.DataFrame, Array]) -> None:
    table, _ = scored
    names = table.columns[2:]
    likeliest = names[table[names].to_numpy().argmax(axis=1)]
    none = (table["label"] == basins.NONE).to_numpy()
    assert (likeliest[none] == basins.NONE).mean() > 0.9
    assert (likeliest[~none] == basins.NONE).mean() < 0.05
    # Without that class most salad would be about something.
    without = table.loc[none, [n for n in names if n != basins.NONE]]
    assert (without.div(without.sum(axis=1), axis=0).max(axis=1) > 0.5).mean() > 0.3
