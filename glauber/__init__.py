"""Glauber dynamics on masked language models: the sampler and the estimators of the book."""

from .errors import GlauberError, ModelError, ParameterError, PassageError
from .models import CausalLM, MaskedLM, load_control, load_model

__all__ = [
    "CausalLM",
    "GlauberError",
    "MaskedLM",
    "ModelError",
    "ParameterError",
    "PassageError",
    "load_control",
    "load_model",
]
