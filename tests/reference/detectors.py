"""Plain detectors: every label is kept, and everything is worked out anew from all of them."""

from __future__ import annotations

import math

import numpy as np


def kl(p, q):
    """kl(p, q) for arrays p, with 0 ln 0 = 0."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(p > 0, p * np.log(p / q), 0) + np.where(p < 1, (1 - p) * np.log((1 - p) / (1 - q)), 0)


def statistic(labels):
    """The largest likelihood ratio over all splits, and where it is."""
    S, N = np.cumsum(labels), len(labels)
    if N < 2 or S[-1] in (0, N):
        return 0.0, 0
    s, q = np.arange(1, N), S[-1] / N
    G = s * kl(S[:-1] / s, q) + (N - s) * kl((S[-1] - S[:-1]) / (N - s), q)
    return float(G.max()), int(G.argmax()) + 1


class PlainGLR:
    def __init__(self, L, n, *, delta="auto", threshold="leading", every=1, **others):
        self.n, self.delta, self.form, self.every = n, delta, threshold, every
        self.labels = []

    def beta(self, t):
        delta = self.delta
        if delta == "auto":
            delta = 1 / self.n if self.n else "anytime"
        if delta == "anytime":
            delta = 1 / math.sqrt(t)
        assert self.form in ("leading", "jmlr")
        return math.log((3 if self.form == "leading" else 1) * len(self.labels) ** 1.5 / delta)

    def observe(self, y, t):
        self.labels.append(y)
        return len(self.labels) % self.every == 0 and statistic(self.labels)[0] > self.beta(t)


class PlainCUSUM:
    def __init__(self, L, n, *, h="auto", slack=0.05, calibration=100, n_breakpoints=1, **others):
        self.n, self.h, self.slack, self.M, self.changes = n, h, slack, calibration, n_breakpoints
        self.labels = []

    def height(self, t):
        if not isinstance(self.h, str):
            return self.h
        n = self.n if self.n and self.h == "auto" else max(t, 100)
        return max(1.0, math.log(n / self.changes))

    def usual(self, i):
        """What label i is held against."""
        return np.mean(self.labels[: self.M])

    def observe(self, y, t):
        self.labels.append(y)
        up = down = 0.0
        for i in range(self.M, len(self.labels)):
            difference = self.labels[i] - self.usual(i)
            up = max(0.0, up + difference - self.slack)
            down = max(0.0, down - difference - self.slack)
        return max(up, down) > self.height(t)


class PlainPageHinkley(PlainCUSUM):
    def __init__(self, L, n, **options):
        super().__init__(L, n, **{**options, "calibration": 0})

    def usual(self, i):
        return sum(self.labels[: i + 1]) / (i + 1)


class PlainWindowTest:
    def __init__(self, L, n, *, window=800, b="auto", **others):
        self.L, self.n, self.w, self.given = L, n, window, b
        self.labels = []

    def b(self, t):
        if not isinstance(self.given, str):
            return self.given
        n = self.n if self.n and self.given == "auto" else max(t, 100)
        return math.sqrt(self.w / 2 * math.log(2 * self.L * n**2))

    def observe(self, y, t):
        self.labels.append(y)
        last, half = self.labels[-self.w :], self.w // 2
        return len(last) == self.w and abs(sum(last[half:]) - sum(last[:half])) > self.b(t)


PLAIN = {"glr": PlainGLR, "cusum": PlainCUSUM, "pht": PlainPageHinkley, "window": PlainWindowTest}


def alarms(detector, labels):
    """When a detector, made by ``detector()``, fires on a stream; it starts anew each time."""
    out, one = [], detector()
    for t, y in enumerate(labels, 1):
        if one.observe(y, t):
            out.append(t)
            one = detector()
    return out
