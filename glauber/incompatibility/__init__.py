"""Incompatibility: the rectangle test, entropy production, and the nearest compatible joint."""

from .joint import Nearest, nearest_joint, nearest_joints
from .production import entropy_production, production_trend, production_windows, trend
from .rectangles import SCHEMES, Grids, measure, rectangle_table, remeasure, worked_rectangle, worked_text
from .summary import STATISTICS, by_distance, noise_floor, normalised_against, summarise

__all__ = [
    "SCHEMES",
    "STATISTICS",
    "Grids",
    "Nearest",
    "by_distance",
    "entropy_production",
    "measure",
    "nearest_joint",
    "nearest_joints",
    "noise_floor",
    "normalised_against",
    "production_trend",
    "production_windows",
    "rectangle_table",
    "remeasure",
    "summarise",
    "trend",
    "worked_rectangle",
    "worked_text",
]
