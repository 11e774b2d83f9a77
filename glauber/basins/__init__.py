"""The landscape: topics, visits, clusters and traps along long chains (paper, section 5)."""

from .landscape import Landscape, clusters, principal, stability
from .moves import LagTest, TimeScales, lag_test, time_scales, transition_counts
from .nulls import beside_nulls, recurrence
from .scoring import keyword_scores, quality, reliability
from .topics import ELSEWHERE, NONE, CrossFitted, TopicModel, cross_fit, elsewhere, start_groups, train, windows
from .visits import first_passage, mean_shares, own_shares, shares, staying, summary, visits
from .wild import describe, quiet_stretches, templates

__all__ = [
    "ELSEWHERE",
    "NONE",
    "CrossFitted",
    "LagTest",
    "Landscape",
    "TimeScales",
    "TopicModel",
    "beside_nulls",
    "clusters",
    "cross_fit",
    "describe",
    "elsewhere",
    "first_passage",
    "keyword_scores",
    "lag_test",
    "mean_shares",
    "own_shares",
    "principal",
    "quality",
    "quiet_stretches",
    "recurrence",
    "reliability",
    "shares",
    "stability",
    "start_groups",
    "staying",
    "summary",
    "templates",
    "time_scales",
    "train",
    "transition_counts",
    "visits",
    "windows",
]
