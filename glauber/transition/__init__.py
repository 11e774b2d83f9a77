"""The phase transition: mixing against temperature and length (paper, section 5)."""

from .cells import cells
from .crossover import crossover, crossover_shift, level
from .fits import GROWTHS, Fit, compare, fit, n_log_n, residuals
from .grid import budget, chain_grid, meeting_grid, pairs_of_topics
from .order import drift_threshold, drift_times, order_parameters, pseudo_log_likelihood, semantic_distance
from .paper import beside_paper
from .truth import coupling_against_exact, mixing_profile, relaxation, window

__all__ = [
    "GROWTHS",
    "Fit",
    "beside_paper",
    "budget",
    "cells",
    "chain_grid",
    "compare",
    "coupling_against_exact",
    "crossover",
    "crossover_shift",
    "drift_threshold",
    "drift_times",
    "fit",
    "level",
    "meeting_grid",
    "mixing_profile",
    "n_log_n",
    "order_parameters",
    "pairs_of_topics",
    "pseudo_log_likelihood",
    "relaxation",
    "residuals",
    "semantic_distance",
    "window",
]
