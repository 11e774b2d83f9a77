"""Validation of notebook parameters, before any long work starts.

papermill only warns about a mistyped name and injects it all the same. The notebook's first code cell after its
parameters hands its names over to `validate`, which refuses what it does not know.
"""

import ast
from collections.abc import Mapping
from typing import Annotated, Any, TypeVar, get_origin

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError, ValidationInfo, field_validator

from .engines.trace import COLDEST, HOTTEST
from .errors import ParameterError

Count = Annotated[int, Field(ge=1)]
Temperature = Annotated[float, Field(ge=COLDEST, le=HOTTEST, allow_inf_nan=False)]


def distinct(values: list[float]) -> list[float]:
    """The values as given, if none is there twice; for the fields of lists."""
    if len(set(values)) < len(values):
        raise ValueError("give each value once")
    return values


# A grid: at two temperatures or more, each once.
Temperatures = Annotated[list[Temperature], Field(min_length=2), AfterValidator(distinct)]
# What IPython itself puts into a notebook's namespace.
KERNEL_NAMES = {"In", "Out", "exit", "quit", "get_ipython", "open", "papermill"}


class NotebookParameters(BaseModel):
    """Parameters of a notebook: no names but its own."""

    model_config = ConfigDict(extra="forbid", protected_namespaces=())

    @field_validator("*", mode="before")
    @classmethod
    def of_its_kind(cls, value: object, info: ValidationInfo) -> object:
        """Refuse what would be taken for something else, and say how papermill is told what is meant."""
        name = str(info.field_name)
        field = cls.model_fields[name]
        flags = [v for v in (value if isinstance(value, list) else [value]) if isinstance(v, bool)]
        if flags and field.annotation is not bool:
            raise ValueError("true and false stand for no number and no text")
        kind = get_origin(field.annotation) or field.annotation
        if kind is list and isinstance(value, (str, int, float)):
            listed = value if isinstance(value, str) and value.startswith("[") else f"[{value}]"
            raise ValueError(f"papermill's -p hands over one value; give a list as -y '{name}: {listed}'")
        if kind is str and isinstance(value, (int, float)):
            raise ValueError(f"papermill's -p made a number of it; give it as text with -r {name} {value}")
        return value


class Parameters(NotebookParameters):
    """Parameters that every experiment takes.

    Attributes
    ----------
    model : str
        Embedded model, local folder or hub id.
    other : str
        A second model, on which each chapter repeats its main measurement; empty for none.
    passages : str
        ``embedded``, ``ms-marco`` or a file (see `glauber.passages.read_passages`).
    starts : int
        Passages to start from.
    n : int
        Free positions.
    max_dropped : float
        Most of the pieces of the passages that may be unknown to a model, as a share.
    seed : int
        Seed of all streams.
    device, dtype : str
        See `glauber.models.load_model`.
    """

    model: str
    other: str = ""
    passages: str
    starts: Count
    n: Annotated[int, Field(ge=2)]
    max_dropped: Annotated[float, Field(ge=0, le=1)]
    seed: Annotated[int, Field(ge=0, lt=2**63)]
    device: str
    dtype: str

    @property
    def second(self) -> str:
        """The model to set beside `model`: empty if there is none, or if it is the same one."""
        return "" if self.other == self.model else self.other


P = TypeVar("P", bound=NotebookParameters)


def validate(kind: type[P], namespace: Mapping[str, Any]) -> P:
    """Check the names and values that a notebook's parameters cells left in ``namespace``.

    Parameters
    ----------
    kind : type
        The notebook's parameters, a subclass of `NotebookParameters`.
    namespace : mapping
        ``globals()`` of the notebook, before anything else is defined or imported.

    Returns
    -------
    BaseModel
        The notebook's parameters, values coerced to their declared types (``1e-3`` in YAML is a string).

    Raises
    ------
    ParameterError
        Naming the first unknown, missing or wrong parameter, or what several of them together do wrong.
    """
    own = _defined_by_code(namespace)
    given = {
        name: value
        for name, value in namespace.items()
        if not name.startswith(("_", "PAPERMILL_")) and name not in KERNEL_NAMES and not _imported(value)
        and (name in kind.model_fields or name not in own)
    }  # fmt: skip
    try:
        return kind(**given)
    except ValidationError as error:
        first = error.errors()[0]
        name = ".".join(str(part) for part in first["loc"])
        if first["type"] == "extra_forbidden":
            message = f"parameter {name!r} is unknown: the parameters are {', '.join(kind.model_fields)}"
        elif first["type"] == "missing":
            message = f"parameter {name!r} is missing: give it a value"
        else:
            reason = _lower(first["msg"].removeprefix("Value error, "))
            # A validator of the whole model has no place; its sentence names the parameters.
            message = (
                f"parameter {name} = {first['input']!r} is refused: {reason}"
                if name
                else f"parameters are refused: {reason}"
            )
        raise ParameterError(message) from None


def _defined_by_code(namespace: Mapping[str, Any]) -> set[str]:
    """Names that a notebook's other cells have left, so that its first cells can be run again in one kernel.

    A cell of parameters holds assignments of literals alone; what no such cell has named is no parameter, right or wrong.
    IPython keeps the sources of its cells in ``In``; elsewhere there are none, and every name is a parameter's.
    """
    cells = [_literals(source) for source in namespace.get("In", [])]
    named = set().union(*cells)
    return set(namespace) - named if named else set()


def _literals(source: str) -> set[str]:
    """Names that a cell assigns literals to; empty if it does anything else."""
    names: set[str] = set()
    try:
        for statement in ast.parse(source).body:
            if isinstance(statement, ast.Assign):
                targets, value = statement.targets, statement.value
            elif isinstance(statement, ast.AnnAssign) and statement.value is not None:
                targets, value = [statement.target], statement.value
            else:
                return set()
            if isinstance(value, ast.Call) and isinstance(value.func, ast.Name) and value.func.id == "float":
                value = value.args[0]  # papermill writes float('nan') and float('inf')
            ast.literal_eval(value)
            names |= {target.id for target in targets if isinstance(target, ast.Name)}
    except (SyntaxError, ValueError):  # magics, and values that are computed
        return set()
    return names


def _imported(value: object) -> bool:
    return callable(value) or type(value).__name__ == "module"


def _lower(text: str) -> str:
    return text[:1].lower() + text[1:]
