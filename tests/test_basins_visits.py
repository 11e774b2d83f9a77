"""Shares, visits, dwell times and first passages are what loops find and what a two-state Markov chain must give."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.typing import NDArray
from scipy import stats

from glauber import basins
from glauber.basins import moves, nulls

ENTER, LEAVE = 0.02, 0.1  # per record, of the two-state chain: inside a sixth of the time, for ten records at a time
SHARES_OF_CHAINS = ("comes at all", "leaves and comes back", "ends inside")


def two_states(records: int, chains: int, seed: int = 0, inside: bool | None = None) -> NDArray[np.bool_]:
    """A Markov chain that enters with probability `ENTER` and leaves with probability `LEAVE`, stationary if not told where to start."""
    rng = np.random.default_rng(seed)
    path = np.empty((records, chains), dtype=bool)
    path[0] = rng.random(chains) < ENTER / (ENTER + LEAVE) if inside is None else inside
    for t in range(1, records):
        moves = rng.random(chains) < np.where(path[t - 1], LEAVE, ENTER)
        path[t] = path[t - 1] ^ moves
    return path


def naive_visits(inside: NDArray[np.bool_], every: int) -> list[tuple[int, int, int, int, bool, bool]]:
    rows = []
    for chain in range(inside.shape[1]):
        number, since = 0, None
        for record in range(len(inside) + 1):
            now = record < len(inside) and bool(inside[record, chain])
            if now and since is None:
                since = record
            elif not now and since is not None:
                cut = record == len(inside)
                rows.append((chain, number, since * every, (record - cut - since) * every, cut, since == 0))
                number, since = number + 1, None
    return rows


@settings(deadline=None, max_examples=60)
@given(arrays(bool, st.tuples(st.integers(1, 9), st.integers(1, 4))), st.integers(1, 5))
def test_visits_and_their_summary_are_what_loops_find(inside: NDArray[np.bool_], every: int) -> None:
    found, rows = basins.visits(inside, every), naive_visits(inside, every)
    assert list(found.itertuples(index=False, name=None)) == rows
    chains = inside.shape[1]
    per_chain = [[r for r in rows if r[0] == c] for c in range(chains)]
    dwell = [np.mean([r[3] for r in own if not r[4]]) / 2 for own in per_chain if any(not r[4] for r in own)]
    values: list[Any] = [inside.mean(axis=0), [len(own) for own in per_chain], [bool(own) for own in per_chain],
                         [len(own) > 1 for own in per_chain], inside[-1], dwell]  # fmt: skip
    table = basins.summary(inside, every, 2)
    for (_, row), one in zip(table.iterrows(), values, strict=True):
        sample = np.asarray(one, dtype=float)
        assert row["chains"] == len(sample)
        assert row["mean"] == pytest.approx(sample.mean() if len(sample) else np.nan, nan_ok=True)
        if row["quantity"] in SHARES_OF_CHAINS:
            # Clopper and Pearson: the beta quantiles.
            hits, size = int(sample.sum()), len(sample)
            low = stats.beta.ppf(0.025, hits, size - hits + 1) if hits else 0.0
            high = stats.beta.ppf(0.975, hits + 1, size - hits) if hits < size else 1.0
        else:
            # Equal values give no interval.
            varied = len(sample) > 1 and np.ptp(sample) > 0
            half = stats.t.ppf(0.975, len(sample) - 1) * sample.std(ddof=1) / len(sample) ** 0.5 if varied else np.nan
            # Cut to what such means can be: stays that end last from one record to all but one.
            records = len(inside)
            least, most = {"share of time": (0, 1), "visits": (0, -(-records // 2))}.get(
                row["quantity"], (every / 2, (records - 1) * every / 2)
            )
            low, high = np.clip([row["mean"] - half, row["mean"] + half], least, most)
        assert [row["low"], row["high"]] == pytest.approx([low, high], nan_ok=True)
    shares = basins.shares(inside.astype(np.int64), ["out", "in"], resamples=20)
    assert shares["share"].tolist() == pytest.approx([1 - inside.mean(), inside.mean()])
    assert shares[["low", "high"]].isna().all(axis=None) == (chains == 1)


def test_intervals_hold_the_known_share_dwell_and_number() -> None:
    """Closed form: share 1/6, ten records a stay, and as many entries as exits."""
    share, every, sweep, seeds = ENTER / (ENTER + LEAVE), 5, 10, 40
    dwell = "mean dwell of ended visits (sweeps)"
    true = {"share of time": share, "visits": share + 1999 * (1 - share) * ENTER, dwell: every / LEAVE / sweep}
    covered = dict.fromkeys(true, 0)
    tables = [basins.summary(two_states(2000, 60, seed), every, sweep).set_index("quantity") for seed in range(seeds)]
    for name, known in true.items():
        covered[name] = sum(table["low"][name] <= known <= table["high"][name] for table in tables)
        assert stats.binomtest(covered[name], seeds, 0.94).pvalue > 1e-3, name
    # One record too many in every stay would be seen.
    off = true[dwell] + every / sweep
    assert sum(table["low"][dwell] <= off <= table["high"][dwell] for table in tables) < seeds / 4
    late = basins.summary(two_states(3, 400, inside=False), 1, 1).set_index("quantity")
    assert late["low"]["comes at all"] < 1 - (1 - ENTER) ** 2 < late["high"]["comes at all"]


def test_interval_of_a_share_covers_only_over_chains() -> None:
    share = ENTER / (ENTER + LEAVE)
    held: list[bool] = []
    taken: list[bool] = []
    for seed in range(150):
        labels = two_states(150, 30, seed).astype(np.int64)
        for given_labels, into in ((labels, held), (labels.reshape(1, -1), taken)):
            row = basins.shares(given_labels, ["out", "in"], resamples=200, seed=seed).iloc[1]
            into.append(row["low"] <= share <= row["high"])
    assert stats.binomtest(sum(held), 150, 0.94).pvalue > 1e-3
    assert np.mean(taken) < 0.7  # records taken for independent


def test_shares_of_more_than_two_topics_add_up() -> None:
    labels = np.array([[0, 2], [0, 2], [1, 2], [1, 0]])
    found = basins.shares(labels, ["a", "b", "c", "d"])
    assert found["share"].tolist() == [3 / 8, 2 / 8, 3 / 8, 0]
    # Two chains: a resample is both or one of them twice.
    assert found["low"].tolist() == [1 / 4, 0, 0, 0]
    assert found["high"].tolist()[:3] == [1 / 2, 1 / 2, 3 / 4]


def test_staying_is_geometric_although_runs_are_short() -> None:
    """Runs of 12 records against stays of 10 on average: what the end cuts is censored, and what began before has no entry."""
    stays = basins.visits(two_states(12, 3000, inside=None), 5)
    curve = basins.staying(stays)
    true = (1 - LEAVE) ** (curve["time"].to_numpy() / 5)
    seen = curve["time"].to_numpy() < 50
    assert curve["survival"].to_numpy()[seen] == pytest.approx(true[seen], abs=0.08)
    assert ((curve["low"] <= true) & (true <= curve["high"])).to_numpy()[seen].mean() > 0.8
    taken = basins.staying(stays.assign(censored=False))  # cut stays taken as ended
    off = np.abs(taken["survival"].to_numpy() - (1 - LEAVE) ** (taken["time"].to_numpy() / 5))
    assert off.max() > 0.25
    hand = basins.visits(np.array([[1, 0, 1, 1, 1, 0, 0, 1, 1, 1, 1]], dtype=bool).T, 2)
    assert hand["time"].tolist() == [2, 6, 6]
    assert hand["entered"].tolist() == [0, 4, 14]
    assert hand["censored"].tolist() == [False, False, True]
    assert hand["born"].tolist() == [True, False, False]
    assert basins.staying(hand)["time"].tolist() == [6]
    assert basins.staying(hand)["survival"].tolist() == [0.5]


def test_first_passage_is_geometric_by_origin() -> None:
    near, far = two_states(200, 400, 1, inside=False), two_states(200, 100, 2, inside=False)[:20]
    found = basins.first_passage(near, ["near"] * 400, 3).iloc[0]
    assert found["low"] <= 3 * np.log(0.5) / np.log(1 - ENTER) <= found["high"]
    assert found["reached"] == pytest.approx(1 - (1 - ENTER) ** 199, abs=0.02)
    short = basins.first_passage(far, ["far"] * 60 + ["further"] * 40, 3).set_index("origin")
    assert short["chains"].to_dict() == {"far": 60, "further": 40}
    for origin, part in (("far", far[:, :60]), ("further", far[:, 60:])):
        assert short["reached"][origin] == pytest.approx(part.any(axis=0).mean())
    assert short["median"].tolist() == [np.inf, np.inf]  # below a half came within the run
    assert np.median(np.where(far.any(axis=0), far.argmax(axis=0), 19)) == 19


@settings(deadline=None, max_examples=40)
@given(arrays(bool, (7, 5)))
def test_medians_of_first_passages_are_those_of_sorted_times(inside: NDArray[np.bool_]) -> None:
    """All censored times are the length of the run, so that the median is read off the sorted times."""
    first = [next((t for t in range(7) if inside[t, c]), None) for c in range(5)]
    row = basins.first_passage(inside, ["any"] * 5, 4).iloc[0]
    third = sorted(np.inf if t is None else 4 * t for t in first)[2]
    assert row["median"] == third
    assert row["reached"] == pytest.approx(np.mean([t is not None for t in first]))


def test_never_always_and_one_chain() -> None:
    never, always = np.zeros((6, 3), dtype=bool), np.ones((6, 3), dtype=bool)
    assert basins.visits(never, 2).empty
    assert basins.staying(basins.visits(never, 2)).empty
    assert list(basins.staying(basins.visits(never, 2))) == ["time", "survival", "low", "high"]
    assert basins.summary(never, 2, 4)["mean"].tolist()[:5] == [0] * 5
    stays = basins.visits(always, 2)
    assert stays["time"].tolist() == [10, 10, 10]
    assert stays["censored"].all()
    assert stays["born"].all()
    assert basins.staying(stays).empty
    assert basins.summary(always, 2, 4)["mean"].tolist()[:5] == [1, 1, 1, 0, 1]
    for path in (never, always):
        dwell = basins.summary(path, 2, 4).iloc[5]
        assert dwell[["mean", "low", "high"]].isna().all()
        assert dwell["chains"] == 0
    cut = basins.visits(np.array([[0, 1, 1], [0, 0, 1]], dtype=bool).T, 2)
    assert basins.staying(cut)["survival"].tolist() == [1.0]  # all cut: nobody has been seen to leave
    passage = basins.first_passage(np.concatenate([never, always], axis=1), ["x"] * 3 + ["y"] * 3, 2).set_index(
        "origin"
    )
    assert passage["reached"].tolist() == [0, 1]
    assert passage["median"].tolist() == [np.inf, 0]
    lone = two_states(300, 1, 3)
    alone = basins.summary(lone, 1, 1).set_index("quantity")[["low", "high"]]
    assert alone.loc[["share of time", "visits"]].isna().all(axis=None)
    assert alone.loc[list(SHARES_OF_CHAINS)].notna().all(axis=None)  # one chain is one trial
    assert basins.summary(lone, 1, 1)["mean"][0] == lone.mean()
    assert basins.shares(lone.astype(int), ["out", "in"])[["low", "high"]].isna().all(axis=None)


def test_a_topic_that_no_chain_visited_may_still_have_a_share() -> None:
    found = basins.shares(np.zeros((50, 6), dtype=np.int64), ["in", "out"]).set_index("topic")
    limits = stats.binomtest(0, 6).proportion_ci(0.95)
    assert found.loc[["out"], ["share", "low", "high"]].to_numpy()[0] == pytest.approx([0.0, 0.0, limits.high])
    assert found.loc[["in"], ["share", "low", "high"]].to_numpy()[0] == pytest.approx([1.0, 1 - limits.high, 1.0])


def test_means_of_shares_and_times_stay_in_their_range() -> None:
    inside = np.zeros((40, 3), dtype=bool)
    inside[:30, 0] = True
    inside[5, 1] = True
    told = basins.summary(inside, 1, 1).set_index("quantity")
    assert told.loc["share of time", "low"] == 0 and told.loc["visits", "low"] == 0
    dwell = told.loc["mean dwell of ended visits (sweeps)"]
    assert dwell["low"] == 1  # a stay has a record
    assert dwell["high"] == 39
    assert (told["high"] > told["mean"]).all()
    crowded = basins.summary(np.array([[1, 0, 1], [1, 0, 1], [1, 0, 0]], dtype=bool).T, 1, 1).set_index("quantity")
    assert crowded.loc["visits", "high"] == 2  # three records hold no more visits


def test_shares_of_units_with_own_numbers_of_records_count_the_same() -> None:
    own = np.concatenate([basins.own_shares(np.array(rows)[:, None], 2) for rows in ([0, 0, 1], [1])])
    assert basins.mean_shares(own, ["a", "b"])["share"].tolist() == pytest.approx([1 / 3, 2 / 3])
    assert basins.mean_shares(own, ["a", "b"])["units"].tolist() == [2, 2]


# Nulls

NAMES = ["in", "out", "far"]
RETURNS = "leaves and comes back"


def three_states(records: int, chains: int, seed: int) -> NDArray[np.int64]:
    """A Markov chain that starts outside."""
    law = np.cumsum([[0.7, 0.2, 0.1], [0.1, 0.8, 0.1], [0.05, 0.15, 0.8]], axis=1)
    rng = np.random.default_rng(seed)
    path = np.ones((records, chains), dtype=np.int64)
    for t in range(1, records):
        path[t] = (rng.random(chains)[:, None] >= law[path[t - 1]]).sum(axis=1)
    return path


def rows_of(table: Any, topic: str = "in") -> Any:
    return table[table["topic"] == topic].set_index("quantity")


def test_observed_visits_are_those_of_the_summary() -> None:
    labels = three_states(40, 12, 0)
    origins = ["out"] * 8 + ["in"] * 4
    found = basins.beside_nulls(labels, NAMES, origins, draws=20)
    assert found["topic"].unique().tolist() == NAMES
    for k, name in enumerate(NAMES):
        others = np.array([origin != name for origin in origins])
        told = basins.summary(labels[:, others] == k, 1, 1).set_index("quantity")
        rows = rows_of(found, name)
        assert (rows["chains"] == others.sum()).all()
        for quantity, row in rows.iterrows():
            assert row[["observed", "low", "high"]].tolist() == pytest.approx(
                told.loc[quantity, ["mean", "low", "high"]].tolist(), nan_ok=True
            )
    same = basins.beside_nulls(labels, NAMES, ["out"] * 12, draws=5)
    assert same["topic"].unique().tolist() == ["in", "far"]  # no chain starts off "out"


def test_labels_without_memory_and_markov_chains_are_within_their_nulls() -> None:
    inside = {"order": 0, "markov": 0}
    for seed in range(20):
        rng = np.random.default_rng(seed)
        free = rng.choice(3, (60, 20), p=[0.1, 0.5, 0.4])
        free[0] = 1
        row = rows_of(basins.beside_nulls(free, NAMES, ["out"] * 20, draws=100, seed=seed)).loc["visits"]
        inside["order"] += row["permuted_low"] <= row["observed"] <= row["permuted_high"]
        assert row["verdict"] != "more than either null gives"
        moves = basins.beside_nulls(three_states(60, 20, seed), NAMES, ["out"] * 20, draws=100, seed=seed)
        row = rows_of(moves).loc["visits"]
        inside["markov"] += row["markov_low"] <= row["observed"] <= row["markov_high"]
        assert (
            row["observed"] < row["permuted_low"]
        )  # stays of three records: fewer visits than labels in random order make
    assert min(inside.values()) >= 16


def test_only_what_neither_null_gives_is_more() -> None:
    """Half of the chains never come, or every chain comes once, or twice: a common Markov chain mixes their numbers."""
    labels = np.ones((60, 20), dtype=np.int64)
    labels[2::3, :10] = 0
    steady = rows_of(basins.beside_nulls(labels, NAMES[:2], ["out"] * 20, draws=200))
    assert steady.loc["visits", "permuted_high"] < steady.loc["visits", "observed"]
    assert steady.loc["comes at all", "observed"] == 0.5
    assert steady.loc["comes at all", "verdict"] == "less than either null gives"
    assert steady[["permuted_low", "permuted_high"]].loc[["share of time", "comes at all"]].isna().all(axis=None)
    once = np.ones((200, 80), dtype=np.int64)
    once[100] = 0
    row = rows_of(basins.beside_nulls(once, NAMES[:2], ["out"] * 80, draws=200)).loc["comes at all"]
    assert row["markov_high"] < row["observed"] == 1
    assert row["verdict"] == "more than either null gives"
    twice = np.ones((200, 80), dtype=np.int64)
    twice[50:60], twice[150:160] = 0, 0
    row = rows_of(basins.beside_nulls(twice, NAMES[:2], ["out"] * 80, draws=200)).loc[RETURNS]
    assert row["markov_high"] < row["observed"] == row["permuted_low"] == 1
    assert row["verdict"] == "what labels in random order give"


@pytest.mark.parametrize(
    ("permuted", "markov", "verdict"),
    [
        ((1, 3), (1, 3), "not told apart from a Markov chain between topics"),
        ((3, 4), (1, 3), "not told apart from a Markov chain between topics"),
        ((0, 1), (0, 1), "more than either null gives"),
        ((np.nan, np.nan), (0, 1), "more than either null gives"),
        ((3, 4), (3, 4), "less than either null gives"),
        ((np.nan, np.nan), (3, 4), "less than either null gives"),
        ((2, 2), (3, 4), "what labels in random order give"),
        ((3, 4), (0, 1), "between what the two nulls give"),
        ((0, 1), (3, 4), "between what the two nulls give"),
    ],
)
def test_verdicts_beside_the_nulls(permuted: Any, markov: Any, verdict: str) -> None:
    assert nulls._verdict((2.0, 2.0), permuted, markov) == verdict


def test_one_chain_more_or_less_is_no_verdict() -> None:
    """Twenty-five of twenty-seven chains, where a null gives all but one: the interval over chains holds that too."""
    limits = stats.binomtest(25, 27).proportion_ci(0.95)
    assert 25 / 27 < 26 / 27 < limits.high
    verdict = nulls._verdict((limits.low, limits.high), (26 / 27, 26 / 27), (26 / 27, 1.0))
    assert verdict == "not told apart from a Markov chain between topics"
    assert nulls._verdict((np.nan, np.nan), (0, 1), (0, 1)) == "not to be told, for want of an interval"


def test_returns_are_told_by_their_verdict() -> None:
    found = basins.beside_nulls(three_states(60, 20, 1), NAMES, ["out"] * 10 + ["far"] * 10, draws=100)
    told = basins.recurrence(found, "in")
    assert told.startswith("Returns to in are not told apart from a Markov chain between topics: nothing is shown")
    assert "Of the 20 chains that start elsewhere" in told
    assert "Of the other 2 classes" in told
    for verdict, words in (
        ("more than either null gives", "neither shares"),
        ("less than either null gives", "both bring more"),
    ):
        changed = found.assign(verdict=verdict)
        assert f"are {verdict}: " in basins.recurrence(changed, "in") and words in basins.recurrence(changed, "in")
    alone = found[found["topic"] == "in"]
    assert basins.recurrence(alone, "in").endswith("No chains start off another topic, to be compared.")


def test_nulls_keep_what_they_say() -> None:
    rng = np.random.default_rng(0)
    labels = three_states(50, 30, 3)
    mixed = nulls.permuted(labels, rng)
    assert np.array_equal(mixed[0], labels[0])
    assert np.array_equal(np.sort(mixed, axis=0), np.sort(labels, axis=0))
    assert (mixed != labels).any()
    copies = moves.simulate(labels, 3, 300, rng)
    assert copies.shape == (300, 50, 30)
    assert (copies[:, 0] == labels[0]).all()
    given_law = moves.transition_counts(labels, 3, 1)
    drawn = np.sum([moves.transition_counts(copy, 3, 1) for copy in copies], axis=0)
    assert drawn / drawn.sum(axis=1, keepdims=True) == pytest.approx(
        given_law / given_law.sum(axis=1, keepdims=True), abs=0.01
    )
    trapped = np.array([[0, 0], [0, 1]])
    assert moves.simulate(np.r_[trapped, trapped[-1:]], 3, 4, rng).max() <= 1
