"""Figures of the page on speed hold their data, whatever was measured."""

import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure

from glauber import figures


def rows(quantity: str, engine: str, values: list[float]) -> pd.DataFrame:
    return pd.DataFrame(
        {
            "model": "glauber-tiny", "n": [16, 32, 64][: len(values)], "chains": 64, "temperature": 1.0, "engine": engine,
            "quantity": quantity, "value": values, "low": [0.9 * v for v in values], "high": [1.1 * v for v in values],
        }
    )  # fmt: skip


def holds(figure: Figure) -> bool:
    for axes in figure.axes:
        low, high = axes.get_ylim()
        for line in axes.get_lines():
            drawn = np.asarray(line.get_ydata(), dtype=float)
            if not ((low <= drawn) & (drawn <= high)).all():
                return False
    return True


@pytest.mark.parametrize("ratio", [0.5, 0.95, 3.0])
def test_axes_hold_their_data(ratio: float) -> None:
    table = pd.concat(
        [
            rows("time over bare encoder", "direct", [ratio, ratio, ratio]),
            rows("steps per second", "direct", [100.0, 200.0, 400.0]),
            rows("steps per second", "textbook", [10.0, 20.0, 40.0]),
            rows("steps per second", "peer", [1.0, 2.0, 4.0]),
            rows("time over direct", "lazy", [ratio]),
            rows("forwards per step", "lazy", [ratio]),
        ]
    )
    assert holds(figures.speed_scaling(table))
    assert holds(figures.lazy_over_direct(table))
    assert holds(figures.forwards_by_temperature(table))
