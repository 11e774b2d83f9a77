"""Clusters and the Markov model between them, against loops, closed forms and what was planted; and the figures."""

from typing import Any

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from matplotlib.colors import to_rgb
from numpy.typing import NDArray
from scipy import stats

from glauber import ParameterError, basins
from glauber.figures import basins as draw

Labels = NDArray[np.int64]


def markov(matrix: Any, records: int, chains: int, seed: int = 0) -> Labels:
    """A Markov chain, long after its start."""
    rng, cumulative = np.random.default_rng(seed), np.cumsum(matrix, axis=1)
    labels = np.zeros((records + 200, chains), dtype=np.int64)
    for t in range(1, len(labels)):
        labels[t] = (rng.random(chains)[:, None] > cumulative[labels[t - 1]]).sum(axis=1)
    return labels[200:]


def blobs(centres: Any, counts: list[int], seed: int = 0) -> NDArray[np.float64]:
    rng = np.random.default_rng(seed)
    points = np.repeat(np.asarray(centres, dtype=float), counts, axis=0)
    return np.asarray(points + 0.1 * rng.standard_normal(points.shape))


# Landscape


def test_components_count_passages_and_chains_the_same() -> None:
    """A direction in which only passages vary and one in which only chains do: as many chain records are drawn as passages."""
    rng = np.random.default_rng(0)
    passages, chains = np.zeros((200, 12), np.float32), np.zeros((20000, 12), np.float32)
    passages[:, 0], chains[:, 1] = 3 * rng.standard_normal(200), 2.5 * rng.standard_normal(20000)
    found = basins.principal(passages, chains)
    assert abs(found.pca.components_[0, 0]) > 0.99  # were all records taken, the first would be that of the chains
    both = np.concatenate([passages, chains])
    assert abs(np.linalg.svd(both - both.mean(axis=0), full_matrices=False)[2][0, 1]) > 0.99
    assert found.explained.sum() == pytest.approx(1)
    points = found.coordinates(chains)
    assert points.shape == (20000, 10)
    assert points == pytest.approx((chains - found.pca.mean_) @ found.pca.components_.T, abs=1e-5)
    few = basins.principal(passages[:3, :4], chains[:50, :4])
    assert few.coordinates(passages[:, :4]).shape == (200, 4)


def test_clusters_are_numbered_by_size_and_predict_the_same() -> None:
    counts = [30, 200, 90, 10]
    points = blobs([[0, 0], [5, 0], [0, 5], [5, 5]], counts)
    found = basins.clusters(points, 4)
    assert np.bincount(found.labels_).tolist() == sorted(counts, reverse=True)
    assert np.array_equal(found.predict(points), found.labels_)
    assert found.cluster_centers_ == pytest.approx(np.array([[5, 0], [0, 5], [0, 0], [5, 5]]), abs=0.15)
    for k in range(4):
        assert found.cluster_centers_[k] == pytest.approx(points[found.labels_ == k].mean(axis=0))
    wild = np.random.default_rng(1).standard_normal((500, 3))
    many = basins.clusters(wild, 9)
    assert np.array_equal(many.predict(wild), many.labels_)
    assert (np.diff(np.bincount(many.labels_)) <= 0).all()
    fresh = np.random.default_rng(2).standard_normal((50, 3))
    nearest = ((fresh[:, None] - many.cluster_centers_) ** 2).sum(axis=2).argmin(axis=1)
    assert np.array_equal(many.predict(fresh), nearest)


def test_stability_finds_the_number_of_blobs() -> None:
    rng = np.random.default_rng(0)
    centres = np.array([[0, 0], [5, 0], [0, 5]])
    points = centres[rng.integers(0, 3, (30, 10))] + 0.1 * rng.standard_normal((30, 10, 2))  # chains that go everywhere
    rows = basins.stability(points, [3, 8, 151]).set_index("clusters")
    assert rows.index.tolist() == [3, 8]  # five chains of 30 records have no 151 clusters
    assert rows["low"][3] > 0.99
    assert rows["rand"][8] < 0.8
    assert ((rows["low"] <= rows["rand"]) & (rows["rand"] <= rows["high"])).all()
    around = rng.standard_normal((30, 10, 6))
    assert basins.stability(around, [6])["high"].max() < 0.6
    assert basins.stability(around[:, :1], [2]).empty


def test_clusters_that_are_single_chains_are_not_stable() -> None:
    """Each chain stays at a place of its own. Records drawn at random know every place; halves of the chains do not."""
    rng = np.random.default_rng(0)
    points = rng.standard_normal((12, 8)) + 0.02 * rng.standard_normal((40, 12, 8))
    by_chain = basins.stability(points, [12])["rand"][0]
    by_record = basins.stability(points.reshape(1, -1, 8), [12])["rand"][0]
    assert by_chain < 0.6
    assert by_record > 0.8
    assert by_record > by_chain + 0.3


@settings(deadline=None, max_examples=40)
@given(st.integers(2, 12), st.integers(1, 3), st.integers(1, 13), st.integers(0, 999))
def test_transition_counts_are_what_loops_find(records: int, chains: int, lag: int, seed: int) -> None:
    labels = np.random.default_rng(seed).integers(0, 3, (records, chains))
    counts = np.zeros((4, 4))
    for c in range(chains):
        for t in range(records - lag):
            counts[labels[t, c], labels[t + lag, c]] += 1
    assert np.array_equal(basins.transition_counts(labels, 4, lag), counts)


@pytest.mark.parametrize("lag", [0, -1, 1.5])
def test_a_lag_below_one_is_refused(lag: Any) -> None:
    with pytest.raises(ParameterError, match=f"^lag = {lag} is refused: give a whole number from 1$"):
        basins.transition_counts(np.zeros((5, 2), int), 1, lag)


SLOW = np.array([[0.97, 0.02, 0.01], [0.03, 0.9, 0.07], [0.01, 0.09, 0.9]])


def test_time_scales_of_a_markov_chain_are_known_and_do_not_depend_on_the_lag() -> None:
    true = -10 / np.log(np.sort(np.abs(np.linalg.eigvals(SLOW)))[::-1][1:])
    found = basins.time_scales(markov(SLOW, 4000, 40), 3, [1, 2, 4, 8, 5000], every=10, resamples=50).table()
    assert sorted(found["lag"].unique()) == [10, 20, 40, 80]
    for order, scale in enumerate(true, start=1):
        rows = found[found["order"] == order]
        assert rows["time_scale"].to_numpy() == pytest.approx(scale, rel=0.1)
        assert (rows["low"] <= rows["time_scale"]).all()
        assert ((rows["low"] * 0.95 <= scale) & (scale <= rows["high"] * 1.05)).all()
    assert found[found["order"] == 3][["time_scale", "low", "high"]].isna().all(axis=None)  # three states have two
    held = []
    for seed in range(30):
        row = basins.time_scales(markov(SLOW, 600, 30, seed), 3, [2], every=10, resamples=60, seed=seed).table().iloc[0]
        held.append(row["low"] <= true[0] <= row["high"])
    assert stats.binomtest(sum(held), 30, 0.9).pvalue > 1e-3


LUMPED = np.array([[0.66, 0.33, 0.01, 0], [0.33, 0.66, 0, 0.01], [0.01, 0, 0.66, 0.33], [0, 0.01, 0.33, 0.66]])


def test_clusters_that_are_no_markov_chain_have_time_scales_that_grow_with_the_lag() -> None:
    """Four states, of which two that belong to different slow sets are put into one cluster."""
    path = markov(LUMPED, 4000, 20)
    lumped = np.array([0, 1, 1, 2])[path]
    lags = [1, 4, 16]
    found, whole = (basins.time_scales(labels, count, lags, every=1, slowest=1, resamples=100)
                    for labels, count in ((lumped, 3), (path, 4)))  # fmt: skip
    rows = found.estimates[:, 0]
    assert whole.estimates[:, 0] == pytest.approx(-1 / np.log(0.98), rel=0.15)
    assert rows[0] < 0.5 * rows[2]
    assert rows[2] < 1.1 * whole.estimates[2, 0]
    assert basins.lag_test(found).verdict == "rejected"
    assert basins.lag_test(whole).verdict == "consistent with a Markov chain"


def scales_of(values: Any, spread: float, lags: Any, seed: int = 0, resamples: int = 400) -> basins.TimeScales:
    """Time scales whose resamples have a common error and one of their own; those of a Markov chain do not depend on the lag."""
    rng = np.random.default_rng(seed)
    values = np.asarray(values, dtype=float)
    error = 0.5 * rng.standard_normal((resamples, 1)) + spread * rng.standard_normal((resamples, len(values)))
    markov = 100 * np.exp(0.05 * rng.standard_normal((400, len(values))))
    return basins.TimeScales(
        np.asarray(lags), values[:, None], (values * np.exp(error))[:, :, None], markov[:, :, None]
    )


def test_time_scales_that_rise_and_fall_with_the_lag_are_rejected() -> None:
    """First and last alone would have a ratio of 0.37; the last is below its lag."""
    lags = np.array([1, 2, 5, 10, 20, 40])
    given = np.array([92, 120, 275, 478, 1444, 33.6])
    tested = basins.lag_test(scales_of(given, 0.1, lags))
    assert tested.verdict == "rejected"
    assert tested.table["used"].tolist() == [True] * 5 + [False]
    assert tested.table["ratio"].tolist()[1:5] == pytest.approx((given[1:5] / given[0]).tolist())
    assert tested.table[["ratio", "low", "high"]].iloc[[0, 5]].isna().all(axis=None)
    assert "from a lag of 1 to one of" in tested.reason
    down = basins.lag_test(scales_of(given[4::-1], 0.1, lags[:5]))  # either side
    assert down.verdict == "rejected"
    in_the_middle = basins.lag_test(scales_of([92, 92, 900, 92, 92], 0.1, lags[:5]))
    assert in_the_middle.verdict == "rejected"
    alone = basins.lag_test(scales_of(given, 0.1, lags, resamples=0))
    assert (alone.verdict, alone.reason) == ("cannot be told", "one chain alone has no interval")


def test_lags_are_compared_resample_by_resample() -> None:
    """A change of a half, far inside the time scales' own intervals, which share an error of a half and more."""
    lags = np.array([1, 2])
    found = scales_of([100, 150], 0.01, lags)
    rows = found.table()
    assert rows["low"][1] < rows["time_scale"][0] < rows["high"][1]
    tested = basins.lag_test(found)
    assert tested.verdict == "rejected"
    assert tested.table["low"][1] == pytest.approx(1.5, rel=0.05)
    assert basins.lag_test(scales_of([100, 150], 0.3, lags)).verdict == "consistent with a Markov chain"


def test_what_a_lag_test_cannot_tell() -> None:
    lags = np.array([1, 2, 4])
    assert "one lag is below" in basins.lag_test(scales_of([5, 1.5, 2], 0.1, lags)).reason
    assert "no lag is below" in basins.lag_test(scales_of([0.5, np.nan, np.inf], 0.1, lags)).reason
    assert basins.lag_test(scales_of([], 0.1, [])).verdict == "cannot be told"
    equal = scales_of([50, 50, 50], 0.0, lags)
    assert basins.lag_test(equal).verdict == "cannot be told"  # resamples without spread
    for share, verdict in ((0.1, "cannot be told"), (0.01, "consistent with a Markov chain")):
        some = scales_of([50, 50, 50], 0.1, lags)
        some.draws[: int(share * 400), 2] = np.inf  # nothing links the clusters of some resamples
        tested = basins.lag_test(some)
        assert tested.verdict == verdict
        assert np.isfinite(tested.table["high"][1])
    growing = scales_of([50, 500, 500], 0.1, lags)
    growing.draws[:40, 2] = np.inf
    assert basins.lag_test(growing).verdict == "rejected"  # by the lag that has an interval
    short = scales_of([50, 75, 75], 0.01, lags)
    short.markov[:, 1:] *= 1.5  # a run so short that a Markov chain gives such ratios too
    assert basins.lag_test(short).verdict == "consistent with a Markov chain"


@pytest.mark.parametrize("matrix", [SLOW, LUMPED])
def test_markov_chains_mostly_pass_the_lag_test(matrix: Any) -> None:
    told = [
        basins.lag_test(
            basins.time_scales(markov(matrix, 200, 30, seed), len(matrix), [1, 2, 5, 10, 20], every=16, resamples=200)
        ).verdict
        for seed in range(20)
    ]
    assert stats.binomtest(told.count("rejected"), 20, 0.05, "greater").pvalue > 0.01
    assert told.count("consistent with a Markov chain") >= 16


def test_clusters_that_are_never_entered_or_never_left_are_trimmed() -> None:
    """A start that leads to the chain through a corridor, and a trap at its end: what is left is the chain's own time scale."""
    path = markov(np.array([[0.9, 0.1], [0.2, 0.8]]), 3000, 20)
    before, after = np.repeat([[3], [4]], 20, axis=1), np.repeat([[5], [5], [5]], 20, axis=1)
    found = basins.time_scales(np.concatenate([before, path, after]), 7, [1], every=1, slowest=2, resamples=20).table()
    assert found["time_scale"][0] == pytest.approx(-1 / np.log(0.7), rel=0.1)
    assert np.isnan(found["time_scale"][1])
    untrimmed = basins.transition_counts(np.concatenate([before, path, after]), 7, 1)[[0, 1, 5]][:, [0, 1, 5]]
    moduli = np.sort(np.abs(np.linalg.eigvals(untrimmed / untrimmed.sum(axis=1, keepdims=True))))
    assert -1 / np.log(moduli[1]) > 100  # the trap would be the slowest
    nothing = basins.time_scales(np.zeros((9, 3), int), 2, [1, 2], every=1).table()
    assert nothing["time_scale"].isna().all()
    apart = np.array([[0, 2], [1, 3]] * 20)  # two chains that never meet: no time scale is finite
    never = basins.time_scales(apart, 4, [1], every=1)
    assert np.isinf(never.estimates).all()
    assert basins.lag_test(never).verdict == "cannot be told"
    alone = basins.time_scales(path[:, :1], 2, [1], every=1).table()
    assert alone["time_scale"].notna()[0]
    assert alone[["low", "high"]].isna().all(axis=None)


def test_a_limit_above_all_resamples_is_infinite() -> None:
    """One chain of ten links the two sets of clusters: a third of the resamples lack it."""
    rng = np.random.default_rng(0)
    sets = np.where(np.arange(10) < 5, 0, 2)
    labels = sets + rng.integers(0, 2, (200, 10))
    labels[:, 0] += 2 * (np.arange(200) // 20 % 2)
    row = basins.time_scales(labels, 4, [1], every=1).table().iloc[0]
    assert np.isfinite(row[["time_scale", "low"]].astype(float)).all()
    assert row["high"] == np.inf


def test_lags_count_moves_from_the_same_records() -> None:
    """A last record that only short lags would reach: a move to a cluster that nobody leaves again changes no time scale."""
    path = markov(SLOW, 300, 12)
    cut = path.copy()
    cut[-1] = 2 - cut[-1]
    short, long = (basins.time_scales(labels, 3, [1, 10], every=1, resamples=2).estimates[0] for labels in (path, cut))
    assert short.tolist() == pytest.approx(long.tolist(), nan_ok=True)


# Figures


def test_calibration_and_shares_draw() -> None:
    rng = np.random.default_rng(0)
    scores = rng.random(200)
    for table in (basins.reliability(scores, rng.random(200) < scores), basins.reliability(scores[:1], scores[:1] > 2)):
        draw.calibration(table, "politics").draw_without_rendering()
    draw.calibration(basins.reliability(scores, scores > 0.5).iloc[:0], "politics").draw_without_rendering()
    names = ["politics", "sport", basins.NONE]
    many = basins.shares(rng.integers(0, 3, (20, 4)), names, resamples=20).assign(source="chains")
    one = basins.shares(rng.integers(0, 3, (20, 1)), names).assign(source="one chain")  # no interval
    for tables in ([many, one], [one], [many.assign(share=0.0, low=0.0, high=0.0)]):
        draw.topic_shares(pd.concat(tables), "politics").draw_without_rendering()


def test_recurrence_draws_what_is_there() -> None:
    inside = markov(np.array([[0.9, 0.1], [0.2, 0.8]]), 50, 8).astype(bool)
    inside[:3] = False
    full, empty = (basins.staying(basins.visits(path, 5)) for path in (inside, np.zeros_like(inside)))
    cut = basins.staying(basins.visits(np.array([[0, 1, 1]], dtype=bool).T, 5))  # nobody has been seen to leave
    for path, stays in (
        (inside, {"a": full, "b": empty}),
        (~inside, {"c": cut}),
        (inside & False, {"b": empty}),
        (inside, {}),
    ):
        passages = basins.first_passage(path, ["x"] * 4 + ["y"] * 4, 5)
        figure = draw.recurrence(passages, stays, 10, "politics", 245)
        figure.draw_without_rendering()
        left, right = figure.axes
        assert len(right.lines) == sum(len(curve) > 0 for curve in stays.values())
        # An arrow where the upper limit is, and an open mark where the median lies above the run, a filled one where it is known.
        marks = [line.get_markerfacecolor() for line in left.lines]
        assert [mark == "none" for mark in marks].count(True) == np.isinf(passages["median"]).sum()
        arrows = [line.get_marker() == mpl.markers.CARETRIGHTBASE for line in left.lines]
        assert arrows.count(True) == np.isinf(passages["high"]).sum()
        assert {text.get_text() for text in left.texts} <= {f"{k} of 4" for k in range(5)}


def test_maps_draw() -> None:
    rng = np.random.default_rng(0)
    points, path = rng.standard_normal((30, 2)), rng.standard_normal((12, 2)).cumsum(axis=0)
    topics = ["politics", "sport", "food"] * 10
    explained = np.array([0.3, 0.2])
    draw.landscape_map(
        points, topics, path, np.arange(12.0), [path, path[::-1]], [["food"] * 12, [basins.NONE] * 12], explained
    ).draw_without_rendering()
    # One record of one chain, and one passage.
    draw.landscape_map(
        points[:1], topics[:1], path[:1], np.zeros(1), [path[:1]], [["sport"]], explained
    ).draw_without_rendering()


def test_paths_draw_salad_in_grey_wherever_it_stands() -> None:
    """Names are sorted, so that salad is among the topics and not the last of them."""
    names = ["food", basins.NONE, "politics"]
    labels = np.array([[0, 1], [1, 1], [2, 1]])
    figure = draw.topic_paths(
        {"cold": labels, "hot": labels[::-1]}, names, np.arange(3.0), ["food", "food"], basins.NONE
    )
    figure.draw_without_rendering()
    legend = figure.legends[0]
    shown = {
        text.get_text(): to_rgb(patch.get_facecolor())
        for text, patch in zip(legend.get_texts(), legend.get_patches(), strict=True)
    }
    grey = {name: max(colour) - min(colour) < 0.01 for name, colour in shown.items()}
    assert grey == {"food": False, basins.NONE: True, "politics": False}
    image = figure.axes[0].images[0]
    assert image.to_rgba(labels.T)[0, 1][:3] == pytest.approx(shown[basins.NONE])
    draw.topic_paths({"one": labels[:, :1]}, names, np.arange(3.0), ["food"], basins.NONE).draw_without_rendering()


def test_moves_draw_also_where_nothing_moves() -> None:
    path = markov(SLOW, 300, 6)
    points = blobs([[0, 0], [5, 0]], [20, 20]).reshape(2, 20, 2)
    scales = basins.time_scales(path, 3, [1, 2], every=10, resamples=10).table()
    none = basins.time_scales(path * 0, 3, [1, 2], every=10, resamples=10).table()
    stable, unstable = basins.stability(points, [2, 3], repeats=2), basins.stability(points[:, :1], [2])
    counts = basins.transition_counts(path, 3, 1)
    assert counts.min() > 0
    for drawn in (
        draw.basin_moves(counts, ["a", "b", "c"], scales, stable, 10),
        draw.basin_moves(np.diag([5.0, 3.0, 0.0]), ["a", "b", "c"], none, unstable, 10),
        draw.basin_moves(
            np.zeros((2, 2)), ["a", "b"], basins.time_scales(path, 3, [9999], every=1).table(), unstable, 10
        ),
    ):
        drawn.draw_without_rendering()


def test_unknown_limits_of_time_scales_are_arrows() -> None:
    scales = pd.DataFrame({"lag": [10, 20, 40], "order": 1, "time_scale": [100.0, 300.0, np.inf], "low": [80.0, 90.0, 200.0],
                           "high": [200.0, np.inf, np.inf]})  # fmt: skip
    figure = draw.basin_moves(np.ones((2, 2)), ["a", "b"], scales, basins.stability(np.zeros((1, 1, 1)), [2]), 10)
    figure.draw_without_rendering()
    (axes,) = [axes for axes in figure.axes if axes.get_xlabel() == "lag (steps)"]
    drawn: dict[Any, int] = {line.get_marker(): line.get_xydata().shape[0] for line in axes.lines}  # type: ignore[union-attr]
    assert drawn[mpl.markers.CARETUPBASE] == 2
    assert drawn["^"] == 1
    assert drawn["o"] == 2
    assert np.isfinite(axes.get_ylim()).all()
    assert axes.get_ylim()[1] > 300


def test_seeds_of_the_streams_are_taken() -> None:
    """Chains take seeds up to 2^63; scikit-learn alone would refuse them."""
    points = blobs([[0, 0], [5, 0]], [20, 20])
    large = 2**63 - 1
    assert basins.clusters(points, 2, large).labels_.max() == 1
    assert len(basins.stability(points.reshape(2, 20, 2), [2], repeats=1, seed=large)) == 1
    basins.principal(points.astype(np.float32), points.astype(np.float32), large)
