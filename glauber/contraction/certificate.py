"""A rigorous bound on the influence of a network whose decoder sits behind a normalisation, and what follows from it.

The head computes ``l = W (gamma * z + beta) + b`` with ``|z|_2 <= sqrt(d)``, and ``sum z = 0`` for a LayerNorm. Between any
two contexts ``beta`` and ``b`` cancel, so that ``osc(l - l') <= B = 2 sqrt(d) max_{a,b} |P(gamma * (w_a - w_b))|_2``, with
``P`` the projection orthogonal to the all-ones vector (the identity for an RMSNorm). Two softmax laws are within
``tanh(osc / 4)`` in total variation; hence a bound on every ``c_ij`` (book, section Contraction).
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import torch
from numpy.typing import ArrayLike, NDArray

from .. import chain
from ..checks import reals, shown, whole
from ..engines.trace import COLDEST, HOTTEST, temperatures
from ..errors import ModelError, ParameterError
from ..models import Conditionals, MaskedLM
from .criteria import grid, t_mix_bound

ELEMENTS = 2**24  # entries of the Gram matrix held at a time
EPS_NAMES = ("eps", "variance_epsilon")  # what RMSNorms call it


@dataclass(frozen=True)
class Head:
    """The end of a masked-LM head: ``logits = W norm(x) + b``.

    Attributes
    ----------
    norm : Module
    weight : Tensor, shape (rows, d)
        ``W``, a row for each id.
    centred : bool
        Whether the norm subtracts the mean (LayerNorm) or not (RMSNorm).
    """

    norm: torch.nn.Module
    weight: torch.Tensor
    centred: bool


@dataclass(frozen=True)
class Certificate:
    """The oscillation bound of a network.

    Attributes
    ----------
    bound : float
        ``B`` in nats: ``osc(l - l') <= B`` for any two contexts and positions, over the allowed vocabulary.
    first, second : int
        Ids of the two tokens whose distance it is.
    width : int
        ``d``, the width of the normalised layer.
    centred : bool
        Whether it is a LayerNorm.
    """

    bound: float
    first: int
    second: int
    width: int
    centred: bool


def certify(model: MaskedLM) -> Certificate:
    """``B`` of a network, by an exact search over all pairs of allowed tokens in float64.

    Parameters
    ----------
    model : MaskedLM

    Raises
    ------
    ModelError
        If the logits are no linear map of the output of a LayerNorm or RMSNorm: then there is no such bound.
    """
    head = find_head(model)
    device = torch.device("cpu") if model.device.type == "mps" else model.device
    weights = head.weight[torch.from_numpy(model.vocabulary).to(model.device)].to(device).double()
    scale: Any = getattr(head.norm, "weight", None)
    points = weights if scale is None else weights * scale.detach().to(device).double()
    if head.centred:
        points = points - points.mean(dim=1, keepdim=True)
    first, second, distance = farthest_pair(points)
    width = points.shape[1]
    ids = model.vocabulary[[first, second]].tolist()
    return Certificate(2 * width**0.5 * distance, ids[0], ids[1], width, head.centred)


def find_head(model: MaskedLM) -> Head:
    """The normalisation and the table whose product the logits are, found by following one small forward.

    What a network calls its output layer need not be it (DeBERTa's is the head's dense layer), so that nothing is taken by name:
    of every table with a row for each logit and every module's output it is tried whether the logits are one times the other,
    and a constant per token.

    Raises
    ------
    ModelError
        If there is none, or it is no LayerNorm or RMSNorm.
    """
    network: Any = model.network
    made: list[tuple[torch.nn.Module, Any, Any]] = []
    hooks = [m.register_forward_hook(lambda m, a, out: made.append((m, a, out))) for m in network.modules()]
    words = model.vocabulary[: min(4, model.usable_length - 1)].tolist()
    ids = torch.tensor([[*model.text.prefix, *words, model.mask, *model.text.suffix]], device=model.device)
    try:
        logits = model._logits(ids)[0]
    finally:
        for hook in hooks:
            hook.remove()
    tables = _tables(network, logits.shape[-1])
    if not tables or len(logits) < 2:  # any one row is linear in any other
        raise _none(model, "it has no table of one row for each logit, or no room for two tokens")
    for table in tables:
        for module, given, out in made:
            if (
                torch.is_tensor(out)
                and out.shape == (1, len(logits), table.shape[1])
                and _linear(logits, out[0], table)
            ):
                if isinstance(module, torch.nn.LayerNorm) and module.normalized_shape == out.shape[-1:]:
                    return Head(module, table, True)
                if given and _is_rms(module, given[0], out):
                    return Head(module, table, False)
                raise _none(model, f"its decoder is fed by {type(module).__name__}, not by a LayerNorm or RMSNorm")
    raise _none(model, "its logits are not linear in the output of any of its layers")


def _tables(network: Any, rows: int) -> list[torch.Tensor]:
    """Weights of the output layer and of the embedding, those of them with so many rows; an embedding may serve as both."""
    weights = [getattr(m, "weight", None) for m in (network.get_output_embeddings(), network.get_input_embeddings())]
    return [w.detach() for w in weights if isinstance(w, torch.Tensor) and w.ndim == 2 and len(w) == rows]


@torch.no_grad()
def _linear(logits: torch.Tensor, hidden: torch.Tensor, table: torch.Tensor) -> bool:
    """Whether the logits are ``W h``, up to a constant per token (biases): some heads cap or rescale them."""
    rest = logits - hidden @ table.T
    return bool((rest - rest[:1]).abs().max() <= _tolerance(logits) * logits.abs().max())


def _none(model: MaskedLM, reason: str) -> ModelError:
    return ModelError(f"model {model.name!r} has no certificate, since {reason}: use its sampled influence alone")


def _tolerance(values: torch.Tensor) -> float:
    return float(np.sqrt(torch.finfo(values.dtype).eps))


@torch.no_grad()
def _is_rms(norm: torch.nn.Module, given: torch.Tensor, made: torch.Tensor) -> bool:
    """Whether a module is ``weight * x / rms(x)``: by its numbers, since every library has a class of its own."""
    weight: Any = getattr(norm, "weight", None)
    if not type(norm).__name__.endswith("Norm") or getattr(norm, "bias", None) is not None:
        return False
    eps = next((getattr(norm, name) for name in EPS_NAMES if getattr(norm, name, None) is not None), 0.0)
    x = given.double()
    wanted = x * (x.square().mean(dim=-1, keepdim=True) + eps).rsqrt() * (1.0 if weight is None else weight.double())
    return bool((wanted - made).abs().max() <= _tolerance(made) * wanted.abs().max())


def oscillations(model: Conditionals, states: ArrayLike, positions: ArrayLike) -> NDArray[np.float64]:
    """``osc(l - l')`` of every two of some contexts, to hold against the bound.

    Parameters
    ----------
    model : Conditionals
    states : array of int, shape (contexts, n)
    positions : array of int, shape (contexts,)
        The masked position of each.

    Returns
    -------
    array of float64, shape (contexts * (contexts - 1) / 2,)
        In nats.

    Raises
    ------
    ParameterError
        If rows have different lengths, a token is no whole number or not in the vocabulary, or a position is not in the row.
    """
    rows, at = chain.init(model, states).tokens, reals("positions", positions)
    n = rows.shape[1]
    if at.shape != rows.shape[:1] or not np.isin(at, np.arange(n)).all():
        raise ParameterError(
            f"positions {shown(at.tolist())}: give one whole number from 0 to {n - 1} for each of {len(rows)} rows"
        )
    masked = torch.from_numpy(at.astype(np.int64)).to(model.device)
    logits = model.conditional_logits(rows, masked).cpu().double().numpy()
    differences = (logits[r + 1 :] - logits[r] for r in range(len(logits) - 1))
    return np.concatenate([np.zeros(0), *(np.ptp(d, axis=1) for d in differences)])


def farthest_pair(points: torch.Tensor) -> tuple[int, int, float]:
    """The two points farthest apart and their Euclidean distance, exact up to rounding.

    Parameters
    ----------
    points : Tensor of float64, shape (count, d)

    Notes
    -----
    About a common centre, two points are no farther apart than their radii together. With the radii in descending order
    and a good distance known, only the outermost points need their Gram matrix; it is made in pieces.
    """
    spread = points - points.mean(dim=0)
    radius, order = spread.norm(dim=1).sort(descending=True)
    spread = spread[order]
    best, pair = -1.0, (0, 0)
    a = 0
    for _ in range(4):  # to the farthest point, and from there again: a good start
        away = (spread - spread[a]).norm(dim=1)
        b = int(away.argmax())
        if float(away[b]) > best:
            best, pair = float(away[b]), (a, b)
        a = b
    size = max(1, ELEMENTS // len(spread))
    for s in range(0, len(spread), size):
        if 2 * radius[s] <= best:
            break
        stop = int((radius > best - radius[s]).sum())
        block, partners = spread[s : s + size], spread[s : max(stop, s + 1)]
        squared = radius[s : s + size, None] ** 2 + radius[s : s + len(partners)] ** 2 - 2 * block @ partners.T
        place = int(squared.argmax())
        row, column = divmod(place, len(partners))
        if float(squared[row, column]) > best**2:
            pair = (s + row, s + column)
            best = float((spread[pair[0]] - spread[pair[1]]).norm())
    return int(order[pair[0]]), int(order[pair[1]]), best


def tau_cert(bound: float, n: int) -> float:
    """The temperature above which ``(n-1) tanh(B / (4 tau)) < 1``, so that a bound on the mixing time is proved for this ``n``.

    ``B / (4 artanh(1/(n-1)))``; 0 for ``n <= 2``, where every positive temperature will do. It grows with ``n``, like
    ``n B / 4``, so that no one temperature above 0 is certified at all lengths; and the bound (`certified_steps`) diverges
    as the temperature falls to it.

    Parameters
    ----------
    bound : float
        ``B`` in nats.
    n : int
        Free positions.

    Raises
    ------
    ParameterError
        If ``n`` is no whole number from 1, or ``B`` is negative or not finite.
    """
    whole("n", n)
    return 0.0 if n <= 2 else float(_nats(bound) / (4 * np.arctanh(1 / (n - 1))))


def alpha_cert(temperature: float, bound: float, n: int) -> float:
    """The certified upper bound ``(n-1) tanh(B / (4 tau))`` on the row and column sums, the norm and the radius alike.

    Raises
    ------
    ParameterError
        If the temperature is not from 1e-4 to 1e6, ``n`` is no whole number from 1,
        or ``B`` is negative or not finite.
    """
    tau = temperatures(temperature, 1, "bound").item()
    return float((whole("n", n) - 1) * np.tanh(_nats(bound) / (4 * tau)))


def certified_steps(taus: ArrayLike, bound: float, n: int, eps: float = 0.25) -> NDArray[np.float64]:
    """The proved bound ``n / (1 - alpha_cert) log(n / eps)`` on the mixing time from every start, at each temperature.

    Infinite up to ``tau_cert(bound, n)``, and as large as one likes just above it.

    Parameters
    ----------
    taus : array of float, shape (count,)
    bound : float
        ``B`` in nats.
    n : int
        Free positions.
    eps : float
        Total variation, between 0 and 1.

    Raises
    ------
    ParameterError
        As `alpha_cert` and `glauber.contraction.t_mix_bound`.
    """
    return np.array([t_mix_bound(n, alpha_cert(tau, bound, n), eps) for tau in grid(taus)])


def certified_lengths(bound: float, lengths: Iterable[int], eps: float = 0.25) -> pd.DataFrame:
    """How the certificate of one network changes with the number of free positions.

    Returns
    -------
    DataFrame
        ``n``; ``tau_cert``; ``steps``, the bound at twice that temperature, NaN where it is 0 or beyond the temperatures of a run.
    """
    rows = []
    for n in lengths:
        tau = tau_cert(bound, n)
        usable = COLDEST <= 2 * tau <= HOTTEST
        rows.append((n, tau, float(certified_steps(2 * tau, bound, n, eps)[0]) if usable else np.nan))
    return pd.DataFrame(rows, columns=["n", "tau_cert", "steps"])


def _nats(bound: float) -> float:
    if not 0 <= bound < np.inf:
        raise ParameterError(f"B = {bound:g}: give a bound of 0 nats or more")
    return float(bound)
