"""How fast the number of copies of a token goes up and down, exactly, in a given state."""

import numpy as np
import pandas as pd
import torch
from numpy.typing import ArrayLike

from .. import chain
from ..checks import reals
from ..engines.trace import temperatures
from ..errors import ParameterError
from ..margins import at_every_position
from ..models import Conditionals


def up_down(model: Conditionals, states: ArrayLike, token: ArrayLike, temperature: float) -> pd.DataFrame:
    """Exact probabilities that one step raises and lowers the number of copies of a token.

    Parameters
    ----------
    model : Conditionals
    states : array of int, shape (rows, n)
    token : int or array of int, shape (rows,)
    temperature : float

    Returns
    -------
    DataFrame
        ``N``, ``up``, ``down``, ``ratio`` (``up / down``; infinite where nothing can go down), one row per state.

    Raises
    ------
    ParameterError
        If a token may not be emitted, or the states or the temperature are refused.
    """
    rows = chain.init(model, states).tokens.cpu().numpy()
    given = reals("tokens", token)
    if given.shape not in ((), (len(rows),)):
        raise ParameterError(f"{given.size} tokens for {len(rows)} states: give one, or one per state")
    tokens = np.broadcast_to(given, len(rows))
    outside = np.setdiff1d(tokens, model.vocabulary)
    if len(outside):
        raise ParameterError(f"token id {outside[0]} is not in the vocabulary: give an id the chain may emit")
    heat = float(temperatures(temperature, 1, "call"))
    columns = torch.from_numpy(np.searchsorted(model.vocabulary, tokens))

    def law(logits: torch.Tensor, current: torch.Tensor, row: torch.Tensor) -> torch.Tensor:
        column = columns[row].to(logits.device)[:, None]
        tau = torch.full((len(logits),), heat, dtype=torch.float64, device=logits.device)
        weights = chain.relative_weights(logits.double(), tau)
        kept = weights.gather(1, column)[:, 0]
        rest = weights.scatter_(1, column, 0.0).sum(dim=1)
        # Neither is computed as 1 minus the other: in a basin the one, outside it the other, is below rounding.
        return torch.stack([chain.odds(kept, rest), chain.odds(rest, kept)], dim=1)

    p = at_every_position(model, rows, law)
    own = rows == tokens[:, None]
    up, down = np.where(own, 0.0, p[..., 0]).mean(axis=1), np.where(own, p[..., 1], 0.0).mean(axis=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.where(down > 0, up / down, np.inf)
    return pd.DataFrame({"N": own.sum(axis=1), "up": up, "down": down, "ratio": ratio})
