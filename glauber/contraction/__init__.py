"""Contraction: sampled influence, criteria of rapid mixing with the bounds they give, and a rigorous certificate."""

from .certificate import (
    Certificate,
    Head,
    alpha_cert,
    certified_lengths,
    certified_steps,
    certify,
    farthest_pair,
    find_head,
    oscillations,
    tau_cert,
)
from .criteria import CRITERIA, Crossing, criteria, crossing, lower_bounds, ruled_out, t_mix_bound, weights
from .influence import SCHEMES, by_context, by_distance, exact_influence, measure

__all__ = [
    "CRITERIA",
    "SCHEMES",
    "Certificate",
    "Crossing",
    "Head",
    "alpha_cert",
    "by_context",
    "by_distance",
    "certified_lengths",
    "certified_steps",
    "certify",
    "criteria",
    "crossing",
    "exact_influence",
    "farthest_pair",
    "find_head",
    "lower_bounds",
    "measure",
    "oscillations",
    "ruled_out",
    "t_mix_bound",
    "tau_cert",
    "weights",
]
