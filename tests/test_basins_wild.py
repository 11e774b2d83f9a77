"""Quiet stretches, their texts and the templates that recur, against all pairs of steps and what was planted."""

from typing import Any

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from hypothesis import given, settings
from hypothesis import strategies as st

from glauber import basins, engines, exact
from glauber.margins import local_margins

Stretch = tuple[int, int, tuple[int, ...]]


# Quiet stretches


def trace_of(site: Any, changed: Any, positions: int = 4) -> xr.Dataset:
    """A trace in which a change raises the token by one."""
    site, changed = np.asarray(site, np.int16), np.asarray(changed, bool)
    states = np.zeros((len(site) + 1, site.shape[1], positions), np.int32)
    for t, (where, moved) in enumerate(zip(site, changed, strict=True)):
        states[t + 1] = states[t]
        states[t + 1, np.arange(site.shape[1]), where] += moved
    return xr.Dataset(
        {"states": (("record", "chain", "position"), states), "site": (("step", "chain"), site), "changed": (("step", "chain"), changed)},
        coords={"record": np.arange(len(site) + 1), "step": np.arange(1, len(site) + 1)},
    )  # fmt: skip


def naive_stretches(states: Any, longer: int, positions: int) -> list[Stretch]:
    """From recorded states alone: all maximal (first, last), longest first, none over another."""
    steps = len(states) - 1
    moves = [set(np.flatnonzero(states[t] != states[t - 1]).tolist()) for t in range(1, steps + 1)]

    def moving(first: int, last: int) -> set[int]:
        return set().union(*moves[first:last])

    quiet = [(f, e) for f in range(steps) for e in range(f + 1, steps + 1) if len(moving(f, e)) <= positions]
    maximal = [(f, e) for f, e in quiet if (f - 1, e) not in quiet and (f, e + 1) not in quiet]
    taken: list[tuple[int, int]] = []
    for f, e in sorted(maximal, key=lambda s: (s[0] - s[1], s[0])):
        if e - f > longer and all(e <= g or f >= h for g, h in taken):
            taken.append((f, e))
    return [(f, e, tuple(sorted(moving(f, e)))) for f, e in sorted(taken)]


def found_in(trace: xr.Dataset, longer: int, positions: int, chain: int) -> list[Stretch]:
    rows = basins.quiet_stretches(trace, longer=longer, positions=positions)
    rows = rows[rows["chain"] == chain]
    return list(zip(rows["first"], rows["last"], rows["moving"], strict=True))


@settings(deadline=None, max_examples=150)
@given(
    st.integers(1, 24), st.integers(0, 4), st.integers(0, 4), st.sampled_from([0.1, 0.5, 1.0]), st.integers(0, 10**6)
)
def test_stretches_are_what_all_pairs_of_steps_give(
    steps: int, positions: int, longer: int, rate: float, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    trace = trace_of(rng.integers(0, 4, (steps, 2)), rng.random((steps, 2)) < rate)
    rows = basins.quiet_stretches(trace, longer=longer, positions=positions)
    for chain in range(2):
        expected = naive_stretches(trace["states"].to_numpy()[:, chain], longer, positions)
        assert found_in(trace, longer, positions, chain) == expected
    assert (rows["time"] == rows["last"] - rows["first"]).all()
    ends = [first == 0 or last == steps for first, last in zip(rows["first"], rows["last"], strict=True)]
    assert rows["censored"].tolist() == ends


def test_stretches_of_a_hand_made_run() -> None:
    """Step 3 changes position 0, steps 6 and 8 position 1, step 9 position 2, and step 10 redraws without a change."""
    site, changed = np.full((10, 1), 3), np.zeros((10, 1), bool)
    for step, where in ((3, 0), (6, 1), (8, 1), (9, 2)):
        site[step - 1], changed[step - 1] = where, True
    trace = trace_of(site, changed)
    assert found_in(trace, 0, 0, 0) == [(0, 2, ()), (3, 5, ()), (6, 7, ()), (9, 10, ())]
    # Steps 4 to 8, in which position 1 alone changes, are as many as 1 to 5: the earlier stretch is taken.
    assert found_in(trace, 0, 1, 0) == [(0, 5, (0,)), (8, 10, (2,))]
    assert found_in(trace, 2, 1, 0) == [(0, 5, (0,))]
    assert basins.quiet_stretches(trace, longer=9, positions=3)["moving"].tolist() == [(0, 1, 2)]
    still = trace_of(site, np.zeros((10, 1), bool))
    for positions in (0, 2):
        rows = basins.quiet_stretches(still, longer=9, positions=positions)
        assert rows.drop(columns="moving").to_numpy().tolist() == [[0, 0, 10, 10, True]]
        assert basins.quiet_stretches(still, longer=10, positions=positions).empty


def test_stretches_of_a_chain_that_an_engine_ran() -> None:
    rng = np.random.default_rng(3)
    table = exact.from_joint(np.log(rng.dirichlet(np.full(81, 0.3)).reshape(3, 3, 3, 3) + 1e-6))
    trace = engines.run(table, np.zeros((5, 4), int), temperature=0.7, steps=60, seed=1)
    states = trace["states"].to_numpy()
    assert sum(len(naive_stretches(states[:, c], 8, 1)) for c in range(5)) > 5
    for chain in range(5):
        for longer, positions in ((8, 1), (5, 2), (3, 0)):
            assert found_in(trace, longer, positions, chain) == naive_stretches(states[:, chain], longer, positions)


# Their texts


def spell(ids: list[int]) -> str:
    return "".join(map(str, ids))


def test_text_of_a_stretch_is_that_recorded_most_often_with_its_margins() -> None:
    table = exact.from_joint(np.log(np.random.default_rng(5).dirichlet(np.full(27, 0.4)).reshape(3, 3, 3) + 1e-9))
    trace = engines.run(table, np.zeros((8, 3), int), temperature=1.2, steps=400, seed=2, record_every=3)
    stretches = basins.quiet_stretches(trace, longer=6, positions=1)
    found = basins.describe(table, trace, stretches, spell)
    states = trace["states"].to_numpy()
    assert len(found) == len(stretches) > 10  # a stretch of over 6 steps has a record
    for _, row in found.iterrows():
        inside = [s for s in range(row["first"], row["last"] + 1) if s % 3 == 0]
        texts = [tuple(states[s // 3, row["chain"]].tolist()) for s in inside]
        assert texts.count(row["tokens"]) == max(map(texts.count, texts))
        assert row["text"] == spell(list(row["tokens"]))
        margins = []
        for i in range(3):
            logits = table.tables[i, np.dot(row["tokens"], [9, 3, 1])]
            margins.append(logits[row["tokens"][i]] - max(np.delete(logits, row["tokens"][i])))
        assert row["margin"] == pytest.approx(min(margins))
        assert row["margin"] == pytest.approx(local_margins(table, [row["tokens"]]).min())
        assert row["kind"] == ("perfect" if min(margins) >= 0 else "near")
    assert set(found["kind"]) == {"perfect", "near"}


def test_records_up_to_the_last_step_of_a_stretch_count() -> None:
    """Steps 2 to 4 are quiet and leave the text as step 1 made it: of records 0, 4 and 8 only 4 shows it."""
    site, changed = np.array([[0], [1], [1], [1], [1], [2], [2], [2]]), np.zeros((8, 1), bool)
    changed[[0, 4, 5, 6, 7]] = True
    trace = trace_of(site, changed)
    trace = trace.isel(record=slice(0, None, 4))
    stretches = basins.quiet_stretches(trace, longer=2, positions=0)
    assert stretches[["first", "last"]].to_numpy().tolist() == [[1, 4]]
    table = exact.Table(np.zeros((4, 16, 2)))
    assert basins.describe(table, trace, stretches, spell)["text"].tolist() == ["1000"]
    unseen = basins.describe(table, trace.isel(record=[0, 2]), stretches, spell)
    assert unseen.empty
    assert {"text", "tokens", "margin", "kind"} <= set(unseen)
    assert basins.describe(table, trace, stretches.iloc[:0], spell).empty


def stretch_table(rows: list[tuple[int, str, int]]) -> pd.DataFrame:
    table = pd.DataFrame(rows, columns=["chain", "text", "time"])
    return table.assign(tokens=table["text"].map(lambda text: tuple(map(int, text))))


def test_planted_templates_are_found_and_what_does_not_recur_is_not() -> None:
    rows = [
        (0, "1111111111", 10), (1, "1111111122", 50), (2, "1111111222", 20),  # one text with two or three places that vary
        (3, "4444444444", 99),                                               # once
        (4, "5656565656", 30), (5, "5656565656", 30),                        # two chains, one start
        (0, "7777777777", 5), (1, "7777777111", 40), (6, "7777111111", 5),   # linked, though the ends agree at four places
    ]  # fmt: skip
    origin = ["a", "b", "c", "d", "e", "e", "f"]
    found = basins.templates(stretch_table(rows), origin)
    # Three places of ten may differ; sevens and ones agree at six at most, so that these are two templates.
    assert found["template"].tolist() == ["1111111122", "7777777111"]
    assert found["fixed"].tolist() == [7, 4]
    assert found["stretches"].tolist() == [3, 3]
    assert found["starts"].tolist() == [3, 3]
    assert found["chains"].tolist() == [3, 3]
    assert found["time"].tolist() == [80, 50]
    strict = basins.templates(stretch_table(rows), origin, share=0.95)
    assert strict.empty  # no text is met twice from different starts
    assert basins.templates(stretch_table(rows[:1]), origin).empty
    doubled = pd.concat([stretch_table(rows[:2]), stretch_table(rows[3:5])])  # tables put end to end, index and all
    assert basins.templates(doubled, origin)["template"].tolist() == ["1111111122"]
