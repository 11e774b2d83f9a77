"""Glauber dynamics on masked language models: the sampler and the estimators of the book."""

import warnings

# Libraries below import tqdm's notebook bar, which warns where ipywidgets is absent; nothing here shows it.
warnings.filterwarnings("ignore", message="IProgress not found")

from .errors import GlauberError, ModelError, ParameterError, PassageError  # noqa: E402
from .models import CausalLM, MaskedLM, load_control, load_model  # noqa: E402

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
