"""The landscape: topics, visits, clusters and traps along long chains (paper, section 5)."""

from .landscape import Landscape, clusters, principal, stability
from .moves import LagTest, TimeScales, lag_test, time_scales, transition_counts
from .topics import NONE, TopicModel, held_out, keyword_scores, quality, reliability, train, windows
from .visits import first_passage, shares, staying, summary, visits
from .wild import describe, quiet_stretches, templates

__all__ = [
    "NONE",
    "LagTest",
    "Landscape",
    "TimeScales",
    "TopicModel",
    "clusters",
    "describe",
    "first_passage",
    "held_out",
    "keyword_scores",
    "lag_test",
    "principal",
    "quality",
    "quiet_stretches",
    "reliability",
    "shares",
    "stability",
    "staying",
    "summary",
    "templates",
    "time_scales",
    "train",
    "transition_counts",
    "visits",
    "windows",
]
