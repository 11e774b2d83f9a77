"""Notebook parameters: what is refused, in which words, and what is coerced."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Annotated, Any, Self

import pytest
from pydantic import Field, model_validator

from glauber import ParameterError
from glauber.parameters import Count, Parameters, Temperature, Temperatures, validate

SHARED = {
    "model": "glauber-tiny", "other": "", "passages": "embedded", "starts": 4, "n": 32, "max_dropped": 0.1, "seed": 0, "device": "auto",
    "dtype": "float32",
}  # fmt: skip


class Anneal(Parameters):
    """Parameters of a notebook that is made up."""

    tau: Temperature
    taus: list[Temperature]
    steps: Count
    share: Annotated[float, Field(ge=0, le=1)] = 0.5


GIVEN: dict[str, Any] = {**SHARED, "tau": 0.5, "taus": [0.2, 1.0], "steps": 100}


def refusal(**changes: object) -> str:
    """The message that the parameters with some changes must raise, a single line."""
    with pytest.raises(ParameterError) as caught:
        validate(Anneal, {**GIVEN, **changes})
    message = str(caught.value)
    assert "\n" not in message
    # The cause is pydantic's report of many lines, which would come first in a traceback.
    assert caught.value.__suppress_context__ and caught.value.__cause__ is None
    return message


def test_values_are_kept() -> None:
    parameters = validate(Anneal, GIVEN)
    assert parameters.model_dump() == {**GIVEN, "share": 0.5}


@pytest.mark.parametrize(("other", "second"), [("", ""), ("glauber-mini", "glauber-mini"), ("glauber-tiny", "")])
def test_a_model_is_not_compared_with_itself(other: str, second: str) -> None:
    assert validate(Anneal, {**GIVEN, "other": other}).second == second


@pytest.mark.parametrize(
    ("name", "given", "value"),
    [
        ("tau", "1e-3", 0.001),
        ("tau", 2, 2.0),
        ("taus", ["1e-1", 1], [0.1, 1.0]),
        ("n", "32", 32),
        ("steps", 1e6, 1_000_000),
        ("seed", str(2**63 - 1), 2**63 - 1),
    ],
)
def test_values_are_coerced_to_their_type(name: str, given: object, value: object) -> None:
    # papermill reads 1e-3 as a string, as YAML 1.1 says; a number that is typed quoted comes in the same way.
    coerced = getattr(validate(Anneal, {**GIVEN, name: given}), name)
    assert coerced == value
    assert type(coerced) is type(value)


def test_unknown_name_is_refused_with_the_names_there_are() -> None:
    message = refusal(temperature=1.0)
    assert message.startswith("parameter 'temperature' is unknown: the parameters are ")
    listed = message.rpartition(" are ")[2].split(", ")
    assert sorted(listed) == sorted([*GIVEN, "share"])


def test_missing_name() -> None:
    with pytest.raises(ParameterError, match=r"^parameter 'tau' is missing: give it a value$"):
        validate(Anneal, {name: value for name, value in GIVEN.items() if name != "tau"})


@pytest.mark.parametrize(
    ("changes", "start"),
    [
        ({"tau": 0}, "parameter tau = 0 is refused: input should be greater than or equal to 0.0001"),
        ({"tau": "hot"}, "parameter tau = 'hot' is refused: input should be a valid number"),
        ({"tau": float("inf")}, "parameter tau = inf is refused: input should be a finite number"),
        ({"tau": float("nan")}, "parameter tau = nan is refused: input should be"),
        ({"taus": [0.1, -1.0]}, "parameter taus.1 = -1.0 is refused: input should be greater than or equal to 0.0001"),
        ({"taus": None}, "parameter taus = None is refused: input should be a valid list"),
        (
            {"taus": 0.1},
            "parameter taus = 0.1 is refused: papermill's -p hands over one value; give a list as -y 'taus: [0.1]'",
        ),
        (
            {"taus": "[0.3, 0.5]"},
            "parameter taus = '[0.3, 0.5]' is refused: papermill's -p hands over one value; give a list as -y 'taus: [0.3, 0.5]'",
        ),
        (
            {"model": 2024},
            "parameter model = 2024 is refused: papermill's -p made a number of it; give it as text with -r model 2024",
        ),
        ({"starts": True}, "parameter starts = True is refused: true and false stand for no number and no text"),
        ({"model": False}, "parameter model = False is refused: true and false stand for no number and no text"),
        (
            {"taus": [True, 1.0]},
            "parameter taus = [True, 1.0] is refused: true and false stand for no number and no text",
        ),
        ({"max_dropped": 1.5}, "parameter max_dropped = 1.5 is refused: input should be less than or equal to 1"),
        ({"share": 1.5}, "parameter share = 1.5 is refused: input should be less than or equal to 1"),
        ({"n": 1}, "parameter n = 1 is refused: input should be greater than or equal to 2"),
        ({"n": 32.5}, "parameter n = 32.5 is refused: input should be a valid integer"),
        ({"starts": 0}, "parameter starts = 0 is refused: input should be greater than or equal to 1"),
        ({"seed": -1}, "parameter seed = -1 is refused: input should be greater than or equal to 0"),
        ({"seed": 2**63}, f"parameter seed = {2**63} is refused: "),
        ({"model": None}, "parameter model = None is refused: input should be a valid string"),
        ({"model": ["two\nlines"]}, "parameter model = ['two\\nlines'] is refused: input should be a valid string"),
    ],
)
def test_value_out_of_range(changes: dict[str, object], start: str) -> None:
    assert refusal(**changes).startswith(start)


class Grid(Anneal):
    """Parameters of which some must agree."""

    grid: Temperatures
    distance: Count = 2

    @model_validator(mode="after")
    def distance_fits(self) -> Self:
        if self.distance > self.n:
            raise ValueError(f"distance = {self.distance} must be at most n = {self.n}")
        return self


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"grid": [0.2, 0.2]}, "parameter grid = [0.2, 0.2] is refused: give each value once"),
        ({"grid": [0.2]}, "parameter grid = [0.2] is refused: list should have at least 2 items"),
        ({"distance": 33}, "parameters are refused: distance = 33 must be at most n = 32"),
    ],
)
def test_grids_and_parameters_that_must_agree(changes: dict[str, object], message: str) -> None:
    given = {**GIVEN, "grid": [0.2, 0.3]}
    assert validate(Grid, given).distance == 2
    with pytest.raises(ParameterError) as caught:
        validate(Grid, {**given, **changes})
    assert str(caught.value).startswith(message)
    assert "\n" not in str(caught.value)


def test_what_is_no_parameter_is_left_alone() -> None:
    around = {
        "_": 3, "_i1": "tau = 1", "__name__": "__main__", "_private": 1,
        "json": json, "validate": validate, "Path": Path, "shout": lambda: None,
    }  # fmt: skip
    assert validate(Anneal, {**GIVEN, **around}) == validate(Anneal, GIVEN)


def test_names_of_ipython_are_left_alone(tmp_path: Path) -> None:
    # The interpreter itself says what it puts there; what it holds is passed on as strings, which nothing but the
    # name can excuse. Names of functions and modules are told apart by their values, so they are left out here.
    code = "import json, types; kinds = (types.ModuleType, type(lambda: 0)); " + (
        "print(json.dumps([k for k, v in dict(globals()).items() if not callable(v) and not isinstance(v, kinds)]))"
    )
    shell = [sys.executable, "-m", "IPython", "--colors=NoColor", "--HistoryManager.enabled=False", "-c", code]
    told = subprocess.run(
        shell, capture_output=True, text=True, check=True, env={**os.environ, "IPYTHONDIR": str(tmp_path)}, cwd=tmp_path
    )
    names = set(json.loads(told.stdout.splitlines()[-1])) - {"kinds"}
    assert {"In", "Out"} <= names
    assert validate(Anneal, {**GIVEN, **dict.fromkeys(names, "text")}) == validate(Anneal, GIVEN)


def test_names_that_papermill_injects_are_left_alone() -> None:
    paths = {"PAPERMILL_INPUT_PATH": "in.ipynb", "PAPERMILL_OUTPUT_PATH": "out.ipynb", "PAPERMILL_WORKDIR_PATH": "."}
    assert validate(Anneal, {**GIVEN, **paths}) == validate(Anneal, GIVEN)


def test_the_first_cells_run_twice_in_one_kernel() -> None:
    cells = [
        "\n".join(f"{name} = {value!r}" for name, value in GIVEN.items()),
        "import x\np = validate()\nstarted = f()",
    ]
    later = {
        **GIVEN,
        "p": object(),
        "started": 3.0,
        "rows": [1, 2],
        "In": ["", *cells, "# Parameters\ntau = 0.25\n", cells[0]],
    }
    assert validate(Anneal, later) == validate(Anneal, GIVEN)
    # What a cell of parameters names is still refused, injected by papermill or typed.
    for cell, value in (("modle = 'x'", "x"), ("# Parameters\nmodle: float = float('nan')", float("nan"))):
        with pytest.raises(ParameterError, match=r"^parameter 'modle' is unknown"):
            validate(Anneal, {**later, "modle": value, "In": [*later["In"], cell]})
    with pytest.raises(ParameterError, match=r"^parameter 'started' is unknown"):
        validate(Anneal, {name: value for name, value in later.items() if name not in {"In", "p"}})


def test_parameters_of_a_notebook_are_those_shared_and_its_own() -> None:
    assert set(Parameters.model_fields) == set(SHARED)
    with pytest.raises(ParameterError, match=r"^parameter 'tau' is unknown"):
        validate(Parameters, {**SHARED, "tau": 1.0})
