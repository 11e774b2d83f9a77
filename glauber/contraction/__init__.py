"""Contraction: sampled influence, a rigorous certificate, and the mixing-time bound that follows from either."""

from .certificate import (
    Certificate,
    Head,
    alpha_cert,
    certify,
    farthest_pair,
    find_head,
    oscillations,
    t_mix_bound,
    tau_cert,
)
from .influence import SCHEMES, Crossing, alpha, by_context, by_distance, crossing, exact_influence, measure

__all__ = [
    "SCHEMES",
    "Certificate",
    "Crossing",
    "Head",
    "alpha",
    "alpha_cert",
    "by_context",
    "by_distance",
    "certify",
    "crossing",
    "exact_influence",
    "farthest_pair",
    "find_head",
    "measure",
    "oscillations",
    "t_mix_bound",
    "tau_cert",
]
