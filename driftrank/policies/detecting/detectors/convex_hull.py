"""The lower and the upper convex hull of a walk that grows step by step.

The walk of item a passes the points (s, S_s), S_s the sum of the first s labels. A vertex of a hull is a possible split
of the walk: a convex function of the points is largest at one of the vertices.

Hulls are stacks of points with integer coordinates, from (0, 0) to the end of the walk, updated by the monotone chain:
a new point removes those at the end that are no longer vertices. A point is added and removed once, which costs O(1)
per observation.
"""

from __future__ import annotations

import numpy as np

from driftrank.kernels import kernel
from driftrank.kernels.layout import Field, integers

#: capacity of a hull, in points. The hulls of N coin tosses, fair or not, have about ln N points each; see
#: :func:`_drop_the_flattest` for streams that need more.
VERTICES = 64


def hull_fields() -> dict[str, Field]:
    """2 L (2 * 64 + 1) integers."""
    return {
        "hull_size": integers("L", 2),  # points on the lower and the upper hull
        "hull": integers("L", 2, VERTICES, 2),  # s and S_s of each
    }


@kernel
def start_hulls(s, a):
    for side in range(2):
        h = 2 * np.int64(a) + side
        s.hull_size[h] = 1
        s.hull[2 * h * VERTICES] = 0
        s.hull[2 * h * VERTICES + 1] = 0


@kernel
def walk_end(s, a):
    """The end of the walk of item ``a``: the number of labels and their sum."""
    j = 2 * (2 * np.int64(a) * VERTICES + s.hull_size[2 * a] - 1)
    return np.int64(s.hull[j]), np.int64(s.hull[j + 1])


@kernel
def _turn(hull, i, j, x, y):
    """The turn of the path from point i over point j to (x, y): positive for a left turn. Exact."""
    x0 = np.int64(hull[2 * i])
    y0 = np.int64(hull[2 * i + 1])
    return (hull[2 * j] - x0) * (y - y0) - (hull[2 * j + 1] - y0) * (x - x0)


@kernel
def _drop_the_flattest(hull, first, end, x, y, sign):
    """Remove the point of a full hull that spans the smallest triangle with its neighbours; (x, y) comes next.

    The rest is still convex, and its points are points of the walk: at worst a maximum over them is a little too small.
    """
    flattest = end - 1
    least = sign * _turn(hull, end - 2, end - 1, x, y)
    for j in range(first + 1, end - 1):
        size = sign * _turn(hull, j - 1, j, np.int64(hull[2 * j + 2]), np.int64(hull[2 * j + 3]))
        if size < least:
            least = size
            flattest = j
    for i in range(2 * flattest, 2 * end - 2):
        hull[i] = hull[i + 2]


@kernel
def extend_hulls(s, a, x, y):
    """Extend the walk of item ``a`` to (x, y)."""
    for side in range(2):
        h = 2 * np.int64(a) + side
        sign = 1 - 2 * side
        first = h * VERTICES
        end = first + s.hull_size[h]
        while end - first >= 2 and sign * _turn(s.hull, end - 2, end - 1, x, y) <= 0:
            end -= 1
        if end - first == VERTICES:
            _drop_the_flattest(s.hull, first, end, x, y, sign)
            end -= 1
        s.hull[2 * end] = x
        s.hull[2 * end + 1] = y
        s.hull_size[h] = end + 1 - first
