"""Figures: the one visual style. Tables in, Figures out."""

from .incompatibility import discrepancy_by_distance, discrepancy_distribution, production_curve
from .style import use_style

__all__ = ["discrepancy_by_distance", "discrepancy_distribution", "production_curve", "use_style"]
