r"""Named features: categories and numbers of items and requests, of any number, as the shared model sees them.

A feature is a token, the hash of its name, and of its value if it is a category; tokens of numbers are odd. A category
has the value 1. A number is standardised by the mean :math:`\bar{x}` and the variance :math:`s^2` of the n values of
its name in the labels so far,

.. math::
    z = (x - \bar{x}) \Big/ \sqrt{\frac{n}{n + 1} \Big( s^2 + \frac{(x - \bar{x})^2}{n + 1} \Big)},

clipped to [-5, 5]: the variance is the one that the new value would give. So no unit matters, a number that is missing
is an average one, and the first number of a name is 0. The mean moves for ever: from ``_MEMORY`` values on, n stays.

Field of the shared model: ``scale``, with n, mean and variance by hashed token.
"""

from __future__ import annotations

import numpy as np

from driftrank.kernels import kernel
from driftrank.kernels.rng import derive

#: numbers of a scale, and bits of the hash of a number's name
SCALE, SCALE_BITS = 3, 10
#: the branch of that hash
_SCALE = 6
#: the memory of a scale, in labels
_MEMORY = 1e5
_MOST_NUMBER = 5.0
#: an item with fewer named features has weights as though it had so many: a missing one must not move the others
_FEWEST = 4


@kernel
def named_at(x, i):
    """The begin and end of the named features of described item ``i``, and of those of the request."""
    n = x.item.shape[0]
    if x.begin.shape[0] == 0:
        return 0, 0, 0, 0
    return x.begin[i], x.begin[i + 1], x.begin[n], x.begin[n + 1]


@kernel
def named_weight(n):
    """The value of a category of an item with ``n`` named features: their weights together vary as that of an item."""
    return 1.0 / np.sqrt(np.float64(max(n, _FEWEST)))


@kernel
def scale_named(p, h, x, begin, end):
    """Write the values of these named features, with numbers standardised, to the buffer."""
    for c in range(begin, end):
        x.scaled[c] = 1.0
        if x.named[c] & np.uint64(1):
            w = _scale_of(p, x.named[c])
            n = h.scale[w]
            from_mean = x.value[c] - h.scale[w + 1]
            variance = (h.scale[w + 2] + from_mean * from_mean / (n + 1.0)) * n / (n + 1.0)
            x.scaled[c] = 0.0
            if variance > 0.0:
                x.scaled[c] = min(max(from_mean / np.sqrt(variance), -_MOST_NUMBER), _MOST_NUMBER)


@kernel
def learn_scales(p, h, x, begin, end):
    """Count these numbers in their means and variances."""
    for c in range(begin, end):
        if x.named[c] & np.uint64(1):
            w = _scale_of(p, x.named[c])
            n = min(h.scale[w] + 1.0, _MEMORY)
            from_mean = x.value[c] - h.scale[w + 1]
            h.scale[w] = n
            h.scale[w + 1] += from_mean / n
            h.scale[w + 2] += (from_mean * (x.value[c] - h.scale[w + 1]) - h.scale[w + 2]) / n


@kernel
def _scale_of(p, token):
    """The place of a number's scale."""
    mask = (np.uint64(1) << np.uint64(min(p.hash_bits, SCALE_BITS))) - np.uint64(1)
    return SCALE * np.int64(derive(derive(np.uint64(_SCALE), token), 0) & mask)
