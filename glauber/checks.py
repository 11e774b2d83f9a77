"""Checks of what a function is given, one for each kind of value."""

from numbers import Real
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from .errors import ParameterError

SHOWN = 60  # letters of a value that a message repeats


def whole(name: str, value: object, low: int = 1, high: int | None = None) -> int:
    """A whole number from ``low`` to ``high``, as a plain integer.

    Raises
    ------
    ParameterError
        If it is another number, or something else; ``True`` and ``5.0`` are no whole numbers here.
    """
    if isinstance(value, (int, np.integer)) and not isinstance(value, bool):
        number = int(value)
        if low <= number and (high is None or number <= high):
            return number
    most = "" if high is None else f" to {high:,}"
    raise ParameterError(f"{name} = {shown(value)} is refused: give a whole number from {low}{most}")


def reals(name: str, given: object, kinds: str = "iuf", remedy: str = "give rows of one length") -> NDArray[Any]:
    """An array of real numbers.

    Parameters
    ----------
    name : str
        What the message calls it.
    given : array, tensor or nested sequence
    kinds : str
        Kinds of NumPy data types that are numbers here.
    remedy : str
        What to do about rows of different lengths.

    Raises
    ------
    ParameterError
        If rows have different lengths, or a value is text, complex, missing, true or false, or otherwise no real number.
    """
    try:
        array = given.detach().cpu().numpy() if isinstance(given, torch.Tensor) else np.asarray(given)
    except (TypeError, ValueError):
        raise ParameterError(f"the rows of {name} have different lengths or are no numbers: {remedy}") from None
    if array.dtype.kind in kinds:
        return array
    values = array.ravel().tolist()
    odd = [v for v in values if isinstance(v, bool) or not isinstance(v, Real)]
    if odd:
        raise ParameterError(f"the value {shown(odd[0])} in {name} is no real number: give real numbers alone")
    try:
        return np.array(values, dtype=np.float64).reshape(array.shape)  # numbers that were kept as objects
    except OverflowError:
        raise ParameterError(f"a number in {name} is too large: give smaller ones") from None


def shown(value: object) -> str:
    """A value as a message repeats it: short, and in one line."""
    if isinstance(value, np.generic):
        value = value.item()
    text = hex(value) if isinstance(value, int) and abs(value) > 10**SHOWN else " ".join(repr(value).split())
    return text if len(text) <= SHOWN else f"{text[: SHOWN - 3]}..."
