"""What a forward spends at positions that nobody asked about, left out: the last layer and the head at the masked row alone.

All other layers feed the masked row through attention and run whole. In the last one only the masked row's output is wanted: its
query, its feed-forward and its norms. Keys and values are not formed either. A head's score ``q . (W_k h_j + b_k)`` is
``(W_k^T q) . h_j`` up to a constant that the softmax loses, and its output ``sum_j a_j (W_v h_j + b_v)`` is
``W_v (sum_j a_j h_j) + b_v``: products with the few heads of one row instead of with all of them at every position.

A family of networks is a function of a few lines, by the class of its layers; `glauber.models.trial` compares it with the plain forward
before it is used. Any other network runs its last layer whole.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch.nn import functional as nnf

# What a forward leaves out: it runs at the masked row alone, from nothing to most.
LEVELS = ("nothing", "the head elsewhere", "the last layer and the head elsewhere")
Short = Callable[..., torch.Tensor]


class MaskedRow:
    """Hooks that cut a network's forward down to the masked row of each sequence, inside `only`.

    Parameters
    ----------
    network : transformers model with a masked-LM head

    Attributes
    ----------
    level : int
        The most that is left out, an index of `LEVELS`; whoever finds that the logits differ lowers it.
    """

    def __init__(self, network: Any) -> None:
        self._at: torch.Tensor | None = None
        self._rows = torch.arange(0)
        self._now = 0
        decoder = network.get_output_embeddings()
        if isinstance(decoder, torch.nn.Module):
            decoder.register_forward_pre_hook(self._before_decoder)
        if network.base_model is not network:
            network.base_model.register_forward_hook(self._after_encoder)
        layers = [m for m in network.base_model.modules() if type(m).__name__ in FAMILIES]
        self.level = 2 if layers else 1
        if layers:
            self._shorten(layers[-1])

    @contextmanager
    def only(self, at: torch.Tensor, level: int) -> Iterator[None]:
        """Within, the network gives its output at row ``at`` (rows,) of each sequence alone, as far as ``level`` says."""
        if len(self._rows) != len(at) or self._rows.device != at.device:
            self._rows = torch.arange(len(at), device=at.device)
        self._at, self._now = at, level
        try:
            yield
        finally:
            self._at, self._now = None, 0

    def pick(self, hidden: torch.Tensor) -> torch.Tensor:
        """The masked row of each sequence, (rows, length, d) to (rows, 1, d)."""
        return hidden[self._rows, self._at].unsqueeze(1)

    def _shorten(self, layer: Any) -> None:
        whole, short = layer.forward, FAMILIES[type(layer).__name__]

        def forward(hidden: torch.Tensor, *args: Any, **kwargs: Any) -> torch.Tensor:
            if self._now < 2 or layer.training:
                out: torch.Tensor = whole(hidden, *args, **kwargs)
                return out
            mask = kwargs.get("attention_mask", args[0] if args else None)
            if mask is not None:  # (1 or rows, 1, length, length): the masked row's own
                mask = mask.expand(len(hidden), 1, -1, -1)[self._rows, 0, self._at].unsqueeze(1)
            return short(layer, hidden, self, mask, kwargs)

        layer.forward = forward

    def _after_encoder(self, module: torch.nn.Module, args: Any, output: Any) -> Any:
        """Hook of the encoder: the head's dense layer, too, sees the masked row alone."""
        if self._now and "last_hidden_state" in output and output["last_hidden_state"].shape[1] > 1:
            output["last_hidden_state"] = self.pick(output["last_hidden_state"])
        return output

    def _before_decoder(self, module: torch.nn.Module, args: tuple[torch.Tensor, ...]) -> tuple[torch.Tensor] | None:
        """Pre-hook of the output embedding: the vocabulary projection is taken at the masked row, whatever the head."""
        return (self.pick(args[0]),) if self._now and args[0].shape[1] > 1 else None


def _bert(layer: Any, hidden: torch.Tensor, row: MaskedRow, mask: torch.Tensor | None, _: Any) -> torch.Tensor:
    own, at = layer.attention.self, row.pick(hidden)
    query = own.query(at).view(len(at), own.num_attention_heads, -1)
    weights = _weights(_scores(query, own.key.weight, hidden) * own.scaling, mask)
    seen = layer.attention.output(_values(weights, own.value.weight, own.value.bias, hidden), at)
    out: torch.Tensor = layer.feed_forward_chunk(seen)
    return out


def _distilbert(layer: Any, hidden: torch.Tensor, row: MaskedRow, mask: torch.Tensor | None, _: Any) -> torch.Tensor:
    own, at = layer.attention, row.pick(hidden)
    query = own.q_lin(at).view(len(at), own.n_heads, -1)
    weights = _weights(_scores(query, own.k_lin.weight, hidden) * own.scaling, mask)
    seen = layer.sa_layer_norm(own.out_lin(_values(weights, own.v_lin.weight, own.v_lin.bias, hidden)) + at)
    out: torch.Tensor = layer.output_layer_norm(layer.ffn(seen) + seen)
    return out


def _modernbert(layer: Any, hidden: torch.Tensor, row: MaskedRow, mask: torch.Tensor | None, rest: Any) -> torch.Tensor:
    own, at, normed = layer.attn, row.pick(hidden), layer.attn_norm(hidden)
    matrices = own.Wqkv.weight.chunk(3)
    offsets = (None, None, None) if own.Wqkv.bias is None else own.Wqkv.bias.chunk(3)
    cos, sin = (part.expand(len(hidden), -1, -1) for part in rest["position_embeddings"])  # (rows, length, width)
    key = _rotate(nnf.linear(normed, matrices[1], offsets[1]), cos, sin, own.head_dim)
    query = nnf.linear(row.pick(normed), matrices[0], offsets[0])
    query = _rotate(query, row.pick(cos), row.pick(sin), own.head_dim)
    # The keys turn with their position, so that they are formed; the values need not be.
    weights = _weights(torch.einsum("rqhe,rlhe->rhl", query, key) * own.head_dim**-0.5, mask)
    seen = at + own.Wo(_values(weights, matrices[2], offsets[2], normed))
    out: torch.Tensor = seen + layer.mlp(layer.mlp_norm(seen))
    return out


FAMILIES: dict[str, Short] = {
    "BertLayer": _bert,
    "RobertaLayer": _bert,
    "XLMRobertaLayer": _bert,
    "CamembertLayer": _bert,
    "ElectraLayer": _bert,
    "TransformerBlock": _distilbert,
    "ModernBertEncoderLayer": _modernbert,
}


def _scores(query: torch.Tensor, matrix: torch.Tensor, hidden: torch.Tensor) -> torch.Tensor:
    """``q . (W_k h_j)`` of queries (rows, heads, width), shape (rows, heads, length)."""
    heads = matrix.view(query.shape[1], -1, matrix.shape[1])
    return torch.bmm(torch.bmm(query.transpose(0, 1), heads).transpose(0, 1), hidden.transpose(1, 2))


def _weights(scores: torch.Tensor, mask: torch.Tensor | None) -> torch.Tensor:
    """Attention weights, the softmax in float32 at least."""
    if mask is not None:
        scores = scores.masked_fill(~mask, -torch.inf) if mask.dtype == torch.bool else scores + mask
    wide = scores if scores.dtype == torch.float64 else scores.float()
    return wide.softmax(dim=2).to(scores.dtype)


def _values(
    weights: torch.Tensor, matrix: torch.Tensor, offset: torch.Tensor | None, hidden: torch.Tensor
) -> torch.Tensor:
    """``sum_j a_j (W_v h_j + b_v)`` of all heads side by side, shape (rows, 1, d); the weights of a head sum to 1."""
    heads = matrix.view(weights.shape[1], -1, matrix.shape[1])
    seen = torch.bmm(torch.bmm(weights, hidden).transpose(0, 1), heads.transpose(1, 2)).transpose(0, 1)
    seen = seen.reshape(len(hidden), 1, -1)
    return seen if offset is None else seen + offset


def _rotate(given: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor, width: int) -> torch.Tensor:
    """Rotary positions on (rows, length, d), shape (rows, length, heads, width)."""
    wide = given.view(*given.shape[:2], -1, width).float()  # in float32 whatever the network, as transformers has it
    half = torch.cat([-wide[..., width // 2 :], wide[..., : width // 2]], dim=3)
    return (wide * cos.unsqueeze(2) + half * sin.unsqueeze(2)).to(given.dtype)
