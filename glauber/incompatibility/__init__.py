"""Incompatibility: the rectangle test, entropy production, and the nearest compatible joint."""

from .joint import Nearest, nearest_joint, nearest_joints
from .production import entropy_production
from .rectangles import SCHEMES, Grids, measure, rectangle_table, remeasure, worked_rectangle, worked_text
from .summary import STATISTICS, by_distance, noise_floor, summarise

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
    "rectangle_table",
    "remeasure",
    "summarise",
    "worked_rectangle",
    "worked_text",
]
