"""The masked-language-model loss, with its gradient computed in the same pass over the vocabulary."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from transformers import BertForMaskedLM

from data import Batch

ROWS_AT_A_TIME = 256
SMALLEST = 1e-30


class LinearCrossEntropy(torch.autograd.Function):
    """Mean cross-entropy of a linear decoder.

    Autograd would keep and fill several arrays of positions by vocabulary, on CPU a quarter of a training
    step. Here blocks of rows stay in the cache, and only the gradient of the logits is kept.
    """

    @staticmethod
    def forward(ctx: Any, hidden: Tensor, weight: Tensor, bias: Tensor, targets: Tensor) -> Tensor:
        """Return the loss and keep the gradients.

        Parameters
        ----------
        ctx
            Autograd's context.
        hidden, weight, bias
            The decoder's input ``(m, d)`` and parameters ``(v, d)`` and ``(v,)``, products in hidden's dtype.
        targets
            True ids, shape ``(n,)``; rows of ``hidden`` from ``n`` on are filling.
        """
        n = len(targets)
        decoder, offset = weight.to(hidden.dtype), bias.to(hidden.dtype)
        grad_logits = hidden.new_zeros(len(hidden), len(weight))
        grad_bias = torch.zeros_like(bias)
        loss = bias.new_zeros(())
        for start in range(0, n, ROWS_AT_A_TIME):
            true = targets[start : start + ROWS_AT_A_TIME, None]
            logits = torch.addmm(offset, hidden[start : start + ROWS_AT_A_TIME], decoder.T)[: len(true)].float()
            grad = logits.softmax(dim=1)
            loss -= grad.gather(1, true).clamp_min(SMALLEST).log().sum()
            grad.scatter_add_(1, true, grad.new_full(true.shape, -1.0))
            grad_bias += grad.sum(dim=0)
            grad_logits[start : start + len(true)] = grad
        grad_weight = (grad_logits.T @ hidden).to(weight.dtype)
        ctx.save_for_backward(grad_logits @ decoder, grad_weight, grad_bias)
        ctx.n = n
        return loss / n

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Tensor) -> tuple[Tensor | None, ...]:
        """Scale the kept gradients, which are those of the sum over rows."""
        scale = grad_outputs[0] / ctx.n
        hidden, weight, bias = ctx.saved_tensors
        return hidden * scale, weight * scale, bias * scale, None


def linear_cross_entropy(hidden: Tensor, weight: Tensor, bias: Tensor, targets: Tensor) -> Tensor:
    """Apply `LinearCrossEntropy`."""
    loss: Tensor = LinearCrossEntropy.apply(hidden, weight, bias, targets)  # type: ignore[no-untyped-call]
    return loss


def masked_loss(model: BertForMaskedLM, some: Batch, dtype: torch.dtype) -> Tensor:
    """Mean cross-entropy in nats over the chosen positions; the decoder runs at those alone.

    Parameters
    ----------
    model
        The model, its parameters in float32.
    some
        A batch.
    dtype
        The type of the products.
    """
    device = model.device
    inputs, targets, chosen = (t.to(device, non_blocking=True) for t in some)
    head = model.cls.predictions
    places = chosen.flatten().nonzero()[:, 0]
    # A new size of matrix costs oneDNN a new kernel, in time and in memory, so only few sizes occur.
    filled = torch.nn.functional.pad(places, (0, -len(places) % ROWS_AT_A_TIME))
    with torch.autocast(device.type, dtype, enabled=dtype != torch.float32):
        hidden = head.transform(model.bert(inputs).last_hidden_state.flatten(0, 1)[filled])
    true = targets.flatten()[places]
    return linear_cross_entropy(hidden.to(dtype), head.decoder.weight, head.decoder.bias, true)
