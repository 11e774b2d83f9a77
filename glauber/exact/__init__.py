"""Ground truth by exact enumeration on small spaces."""

from .markov import (
    conditional_tables,
    distance_to_equilibrium,
    entropy_production,
    enumerate_states,
    mixing_time,
    phase_laws,
    scan_order,
    site_matrices,
    spectral_gap,
    stationary_law,
    total_variation,
    transition_matrix,
)
from .restricted import Restricted, restrict
from .table import Table, from_joint, tabulate

__all__ = [
    "Restricted",
    "Table",
    "conditional_tables",
    "distance_to_equilibrium",
    "entropy_production",
    "enumerate_states",
    "from_joint",
    "mixing_time",
    "phase_laws",
    "restrict",
    "scan_order",
    "site_matrices",
    "spectral_gap",
    "stationary_law",
    "tabulate",
    "total_variation",
    "transition_matrix",
]
