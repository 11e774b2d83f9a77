"""Figures: the one visual style. Tables in, Figures out."""

from .incompatibility import discrepancy_by_distance, discrepancy_distribution, production_curve
from .models import loss_against_loss, training_curves
from .speed import forwards_by_temperature, lazy_over_direct, speed_by_temperature, speed_scaling
from .style import use_style

__all__ = [
    "discrepancy_by_distance",
    "discrepancy_distribution",
    "forwards_by_temperature",
    "lazy_over_direct",
    "loss_against_loss",
    "production_curve",
    "speed_by_temperature",
    "speed_scaling",
    "training_curves",
    "use_style",
]
