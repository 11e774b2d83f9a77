"""Language models as sets of conditionals: loading, allowed vocabulary, logits at one masked position per row."""

from .cards import facts, training_logs, training_summary
from .causal import CausalLM, random_causal
from .conditionals import Conditionals, RectangleSource
from .loading import EMBEDDED, load_control, load_model
from .masked import MaskedLM
from .text import Text

__all__ = [
    "EMBEDDED",
    "CausalLM",
    "Conditionals",
    "MaskedLM",
    "RectangleSource",
    "Text",
    "facts",
    "load_control",
    "load_model",
    "random_causal",
    "training_logs",
    "training_summary",
]
