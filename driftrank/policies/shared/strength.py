r"""The strength of a prior: how far queries stray from the mean that the shared model predicts.

A pair of query and item has an attraction from :math:`\mathrm{Beta}(\nu m, \nu (1 - m))`, m from the model. The
posterior of :math:`\nu` is kept on a grid, by the beta-binomial predictive of pairs that were observed before.
"""

from __future__ import annotations

import numpy as np

from driftrank.kernels import kernel

#: the grid
GRID = np.array([1.0, 3.0, 8.0, 24.0, 64.0, 192.0])
#: the strength before the first label that tells
FIRST_STRENGTH = 8.0
#: the range of a prior's strength
LEAST, MOST = 0.5, 256.0
#: each weight returns to the average by this much at every label, so that the strength can move
_LEAK = 1e-5


@kernel
def shrunk_strength(nu, m, v):
    """The strength that also accounts for the variance ``v`` of the logit of ``m``."""
    return max(LEAST, 1.0 / (1.0 / (nu + 1.0) + m * (1.0 - m) * v) - 1.0)


@kernel
def weigh_strength(p, h, j, m, v, S, n, y):
    """Weigh the grid of model ``j`` by a label of a pair with S clicks in n observations. Returns the probability of a
    click, before."""
    size = GRID.shape[0]
    one = 0.0
    total = 0.0
    for k in range(size):
        nu = shrunk_strength(GRID[k], m, v) if p.shrink_strength else GRID[k]
        click = (nu * m + S) / (nu + n)
        w = h.grid[j * size + k]
        one += w * click
        w *= click if y else 1.0 - click
        h.grid[j * size + k] = w
        total += w
    mean = 0.0
    for k in range(size):
        w = (1.0 - _LEAK) * h.grid[j * size + k] / total + _LEAK / size
        h.grid[j * size + k] = w
        mean += w * GRID[k]
    h.nu[j] = mean
    return one
