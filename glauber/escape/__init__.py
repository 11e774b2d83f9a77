"""Escape: local margins, traps, how long chains stay in them, and drift basins of a repeated token."""

from ..margins import escape_bound, excluded_masses, leave_bound, leaving_probability, local_margins
from .drift import Window, by_count, candidate_tokens, fall_times, profile, search_tokens, window
from .fillings import adversarial, fill, visited
from .paths import FirstPassage, first_passage, replay
from .rates import up_down
from .shading import shade
from .times import arrhenius, escape_times, mean_time, shown_steps, summarise
from .traps import Descent, Traps, classify, descend, find_traps

__all__ = [
    "Descent",
    "FirstPassage",
    "Traps",
    "Window",
    "adversarial",
    "arrhenius",
    "by_count",
    "candidate_tokens",
    "classify",
    "descend",
    "escape_bound",
    "escape_times",
    "excluded_masses",
    "fall_times",
    "fill",
    "find_traps",
    "first_passage",
    "leave_bound",
    "leaving_probability",
    "local_margins",
    "mean_time",
    "profile",
    "replay",
    "search_tokens",
    "shade",
    "shown_steps",
    "summarise",
    "up_down",
    "visited",
    "window",
]
