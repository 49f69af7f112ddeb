from __future__ import annotations

import math

import numpy as np

from driftrank.kernels.compile import specialise
from tests.reference.cascade_klucb import kl_ucb
from tests.reference.cascade_ts import _draw
from tests.reference.detectors import PLAIN
from tests.reference.index import _IndexReference, key_below, level


class CascadeCD(_IndexReference):
    def __init__(
        self, L, K, horizon=None, *, base="klucb", detector="glr", explore="auto", schedule="auto", restart="global",
        n_breakpoints=1, clock="steps", c=0.0, width=1.5, a0=1.0, b0=1.0, ties="random", feedback="first",
        order="decreasing", **options,
    ):  # fmt: skip
        super().__init__(L, K, horizon, ties=ties, feedback=feedback, order=order)
        self.base, self.local, self.clock, self.changes = base, restart == "local", clock, n_breakpoints
        self.c, self.width, self.a0, self.b0 = c, width, a0, b0
        self.draw = specialise(_draw, {}) if base == "ts" else None
        self.new_detector = lambda: PLAIN[detector](L, horizon, n_breakpoints=n_breakpoints, **options)
        if schedule == "auto":
            schedule = "diminishing" if horizon is None and explore == "auto" else "constant"
        self.schedule, self.explore = schedule, explore
        if explore == "auto" and schedule == "diminishing":
            self.explore = 1.0
        elif explore == "auto" and horizon is not None:
            self.explore = self.recommended(detector, horizon, options.get("window", 800))
        self.restarts, self.alarms = 0, []
        self.tau = [0] * L
        self.N, self.X = np.zeros(L), np.zeros(L)
        self.detectors = [self.new_detector() for _ in range(L)]
        self.anew(0)

    def recommended(self, detector, n, w):
        """What the authors of the detectors spend on exploration."""
        if detector in ("cusum", "pht"):
            p = self.changes / n * max(1.0, math.log(n / self.changes))
        elif detector == "window":
            p = self.changes * self.L * (2 * self.new_detector().b(n) + 3 * math.sqrt(w)) / (2 * n)
        else:
            p = self.changes * self.L * math.log(n) / n
        return min(1.0, math.sqrt(p))

    # -- forced exploration

    def rate(self, t):
        p = self.explore
        if p == "auto":
            p = math.sqrt(self.changes * self.L * math.log(max(t, 3)) / max(t, 3))
        return min(1.0, p * (math.sqrt(self.restarts + 1) if self.schedule == "episode" else 1))

    def following(self, t):
        """When the next sweep begins, in steps since everything was started anew."""
        if self.schedule == "diminishing":
            return max(self.begin + self.L, math.floor(self.L * ((self.sweeps + 1) / (2 * self.explore)) ** 2))
        return self.begin + max(self.L, math.floor(self.L / self.rate(t)))

    def anew(self, t):
        """Everything starts anew after step t."""
        self.g, self.begin, self.sweeps = t, 0, 0
        self.coin = self.rate(t) if self.schedule != "diminishing" else None
        self.next = self.following(t) if self.explore != 0 and self.schedule != "random" else None

    def forced(self, t, key):
        if self.explore == 0:
            return None
        if self.schedule == "random":
            u = (key_below(key, 2**64 - 2) >> 11) / 2**53
            lots = [key_below(key_below(key, 2**64 - 3), a) for a in range(self.L)]
            return int(np.argmin(np.array(lots, np.uint64))) if u < self.coin else None
        j = t - self.g - self.begin
        return j - 1 if 1 <= j <= self.L else None

    # -- the list

    def index(self, t, key):
        out = []
        for a in range(self.L):
            N, X = self.N[a], self.X[a]
            own = max(self.N.sum(), 1) if self.clock == "pulls" else t - self.tau[a]
            if self.base == "ts":
                out.append(self.draw(np.uint64(key_below(key, a)), self.a0 + X, self.b0 + N - X))
            elif N == 0:
                out.append(math.inf)
            elif self.base == "klucb":
                out.append(kl_ucb(X / N, level(own, self.c) / N))
            elif self.base == "ucb1":
                out.append(X / N + math.sqrt(self.width * math.log(own) / N))
            else:  # ucbv, whose clock is the policy's
                p, log_t = X / N, math.log(t - self.g)
                out.append(min(1.0, p + math.sqrt(4 * p * (1 - p) * log_t / N) + 6 * log_t / N))
        return out

    def rank(self, t, key):
        forced = self.forced(t, key)
        if forced is None:
            return super().rank(t, key)
        U, tie = self.index(t, key), range(self.L)
        if self.ties == "random":
            tie = [key_below(key, a) for a in range(self.L)]
        rest = sorted((a for a in range(self.L) if a != forced), key=lambda a: (-U[a], tie[a]))[: self.K - 1]
        return [forced, *(rest if self.order == "decreasing" else rest[::-1])]

    # -- learning

    def wipe(self, a, t):
        self.N[a] = self.X[a] = 0
        self.tau[a] = t
        self.detectors[a] = self.new_detector()

    def observe(self, t, items, labels):
        for a, y in zip(items, labels, strict=True):
            self.N[a] += 1
            self.X[a] += y
            if self.detectors[a].observe(y, t):
                self.restarts += 1
                self.alarms.append((t, a))
                if not self.local:
                    for b in range(self.L):
                        self.wipe(b, t)
                    self.anew(t)
                    return
                self.wipe(a, t)
        if self.explore == "auto":
            self.coin = self.rate(t)
        if t - self.g == self.next:
            self.sweeps += 1
            self.begin = self.next
            self.next = self.following(t)
