"""Beta posteriors of attraction, theta(a) ~ Beta(a0 + S(a), b0 + F(a)), for Thompson sampling."""

from __future__ import annotations

from typing import Any

from driftrank.kernels import kernel
from driftrank.kernels.distributions import beta, beta_above_one, gamma_scale
from driftrank.kernels.layout import Field, field
from driftrank.kernels.rng import derive
from driftrank.validation import check_number


def check_prior(policy: Any) -> None:
    check_number("a0", policy.a0, 0, open_low=True)
    check_number("b0", policy.b0, 0, open_low=True)


def scale_fields() -> dict[str, Field]:
    """2 L floats."""
    return {"scale_S": field("L"), "scale_F": field("L")}


@kernel
def refresh_scales(p, s, a, S, F):
    """Store the scales of the draws, so that no draw takes a root."""
    s.scale_S[a] = gamma_scale(p.a0 + S - 1.0 / 3.0)
    s.scale_F[a] = gamma_scale(p.b0 + F - 1.0 / 3.0)


@kernel
def draw(p, e, c, a, S, F):
    """A draw from the posterior of item ``a``."""
    return beta(derive(e.key, c.token[a]), p.a0 + S, p.b0 + F)


@kernel
def draw_scaled(p, s, e, c, a, S, F):
    """The same draw with precomputed scales."""
    if p.a0 < 1.0 or p.b0 < 1.0:
        return draw(p, e, c, a, S, F)
    return beta_above_one(derive(e.key, c.token[a]), p.a0 + S, s.scale_S[a], p.b0 + F, s.scale_F[a])


@kernel
def posterior_mean(p, S, F):
    return (p.a0 + S) / (p.a0 + p.b0 + S + F)
