from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from driftrank.kernels.compile import specialise
from tests.reference.cascade_ts import _draw
from tests.reference.index import key_below, observed_positions


@dataclass
class Hypothesis:
    """Changed at step T; S clicks and F skips since."""

    S: float = 0.0
    F: float = 0.0
    W: float = 1.0
    T: float = 0.0
    Q: float = 1.0

    @property
    def age(self):
        return self.S + self.F


class Item:
    def __init__(self, S=0.0, F=0.0, T=0.0):
        self.held = [Hypothesis(S, F, T=T)]
        self.last, self.pending = T, 0.0

    @property
    def root(self):
        return self.held[0]

    def normalise(self):
        total = sum(h.W for h in self.held)
        for h in self.held:
            h.W /= total

    def nearest(self, tau):
        """The hypothesis of a change that was born nearest to tau, the older of two."""
        return min(self.held[1:], key=lambda h: abs(h.T - tau), default=None)


class CascadeRegimeTS:
    """Lists of hypotheses and dictionaries of regimes, as one would write it on paper."""

    def __init__(
        self, L, K, horizon=None, *, order="challengers-first", feedback="first", a0=0.5, b0=0.5, sharpness=1.5,
        vigilance=0.25, hazard_changes=0.5, hazard_steps=1000.0, hypotheses=16, declare_below=0.02, co_changes=2.0,
        joint_every=32, regimes=4, comeback=0.001, comeback_events=30.0,
    ):  # fmt: skip
        self.L, self.K, self.order, self.feedback = L, K, order, feedback
        self.a0, self.b0, self.sharpness, self.vigilance = a0, b0, sharpness, vigilance
        self.A, self.B, self.M, self.declare_below = hazard_changes, hazard_steps, hypotheses, declare_below
        self.co_changes, self.joint_every, self.G = co_changes, joint_every, regimes
        self.comeback, self.comeback_events = comeback, comeback_events
        self.items = [Item() for _ in range(L)]
        self.changes = self.events = self.co = 0
        self.event_at, self.since, self.active = -1, 0, None
        self.kept = []  # regimes: counts by item, when last in force, how often back
        self.belief = [1.0]  # of the filters, then of every kept regime
        self.alarms = []  # (step, item or None)
        self.draw = specialise(_draw, {})

    # -- rates

    def hazard(self, t):
        return min(0.01, (self.A + self.changes) / (self.B + self.L * t))

    def look_rate(self, t):
        return min(0.01, self.vigilance * (1 + self.changes) / (self.B + self.L * t))

    def event_rate(self, t):
        return (self.A + self.events) / (self.B + t)

    def rho(self):
        return min(0.5, (self.co_changes + self.co) / (max(1, self.L - 1) * (1 + self.events)))

    def click(self, S, F):
        return (S + self.a0) / (S + F + self.a0 + self.b0)

    def click_under(self, a, h):
        return self.click(h.S, h.F)

    def click_in_regime(self, a, S, F):
        return self.click(S, F)

    # -- ranking

    def rank(self, t, key):
        regime = None
        u = _uniform(key_below(key, 2**64 - 1))
        for g in range(len(self.kept)):
            if u < self.belief[g + 1]:
                regime = g
                break
            u -= self.belief[g + 1]
        theta, explorer = [], []
        for a, item in enumerate(self.items):
            own = key_below(key, a)
            u = _uniform(own)
            q = 1 - (1 - item.pending) * math.exp(-self.look_rate(t) * (t - item.last - 1))
            S = F = 0.0
            explores = u < q
            if not explores and regime is not None:
                S, F = self.kept[regime]["counts"][a]
            elif not explores:
                u = (u - q) / (1 - q)
                chosen = item.held[-1]
                for h in item.held[:-1]:
                    if u < h.W:
                        chosen = h
                        break
                    u -= h.W
                S, F, explores = chosen.S, chosen.F, chosen is not item.root
            c = self.sharpness
            theta.append(self.draw(np.uint64(own), self.a0 + c * S, self.b0 + c * F))
            explorer.append(explores)
        shown = sorted(range(self.L), key=lambda a: -theta[a])[: self.K]
        if self.order == "natural":
            return shown
        means = [self.click(item.root.S, item.root.F) for item in self.items]
        first = [a for a in shown if explorer[a] or sum(m > means[a] for m in means) >= self.K]
        return first + [a for a in shown if a not in first]

    # -- learning

    def update(self, t, ranking, clicks):
        n = observed_positions(clicks, self.feedback)
        for a, y in zip(ranking[:n], clicks[:n], strict=True):
            self.observe(t, a, y)
        if self.joint_every and t % self.joint_every == 0:
            self.joint_test(t)
        if self.kept:
            self.believe(t)

    def observe(self, t, a, y):
        item = self.items[a]
        q = 1 - (1 - item.pending) * math.exp(-self.hazard(t) * (t - item.last))
        item.pending, item.last = 0.0, t
        if len(item.held) == self.M + 1:
            i = min(range(self.M), key=lambda i: item.held[i].age / item.held[i + 1].age)
            old, young = item.held[i], item.held.pop(i + 1)
            if i > 0:
                if young.W > old.W:
                    old.S, old.F, old.T = young.S, young.F, young.T
                old.Q += young.Q
            old.W += young.W
        for h in item.held:
            h.W *= 1 - q
        item.held.append(Hypothesis(W=q, T=t, Q=q))
        for h in item.held:
            p = self.click_under(a, h)
            h.W *= p if y else 1 - p
            h.S, h.F = h.S + y, h.F + 1 - y
        total = sum(h.W for h in item.held)
        for h in item.held:
            h.W = max(h.W / total, 1e-100)
        for g, regime in enumerate(self.kept):
            p = self.click_in_regime(a, *regime["counts"][a])
            self.belief[g + 1] *= (p if y else 1 - p) / total
        if self.declare_below > item.root.W:
            self.declare(t, a)

    def declare(self, t, a):
        item = self.items[a]
        k = max(range(1, len(item.held)), key=lambda k: item.held[k].W)
        tau, rho = item.held[k].T, self.rho()
        if tau <= self.event_at:
            self.co += 1
        else:
            self.event(tau, t)
        self.changes += 1
        self.alarms.append((t, a))
        root = item.held[k]
        root.W = sum(h.W for h in item.held[1 : k + 1])
        item.held = [root, *item.held[k + 1 :]]
        item.normalise()
        for b in range(self.L):
            if b != a:
                self.suspect(b, tau, rho)

    def event(self, tau, t):
        self.events += 1
        self.event_at = t
        self.keep(tau)

    def suspect(self, b, tau, rho):
        item = self.items[b]
        if item.last < tau:
            item.pending = max(item.pending, rho)
        elif tau > item.root.T:
            h = item.nearest(tau)
            if h is not None and rho > h.Q:
                h.W *= rho / h.Q
                h.Q = rho
                item.normalise()

    def joint_test(self, t):
        worst = min(self.items, key=lambda item: item.root.W)
        rho, best, best_tau = self.rho(), -math.inf, None
        for k, h in enumerate(worst.held[1:], 1):
            if self.event_at >= h.T:
                continue
            width = max(1, h.T - worst.held[k - 1].T) if k > 1 else 1
            evidence = math.log(self.event_rate(t) * width)
            for item in self.items:
                if item.last >= h.T and item.root.T < h.T:
                    near = item.nearest(h.T)
                    if near is not None:
                        evidence += math.log(1 - rho + rho * near.W / (near.Q * item.root.W))
            if evidence > best:
                best, best_tau = evidence, h.T
        if best > math.log(10):
            self.event(best_tau, t)
            for b in range(self.L):
                self.suspect(b, best_tau, rho)

    # -- regimes

    def keep(self, tau):
        if self.G == 0:
            return
        g, self.active = self.active, None
        short = tau - self.since < 500
        self.since = tau
        if g is None:
            if short:
                return
            if len(self.kept) < self.G:
                self.kept.append({"visits": 0})
                self.belief.append(0.0)
                g = len(self.kept) - 1
            else:
                g = min(range(self.G), key=lambda g: self.kept[g]["at"])
                self.belief[0] += self.belief[g + 1]
                self.kept[g]["visits"] = 0
        self.belief[g + 1] = 0.0
        counts = []
        for item in self.items:
            S, F = item.root.S, item.root.F
            if item.last >= tau and tau > item.root.T:
                h = item.nearest(tau)
                if h is not None and tau - 1 <= h.T:
                    S, F = S - h.S, F - h.F
            counts.append((S, F))
        self.kept[g].update(counts=counts, at=tau)

    def believe(self, t):
        if self.active is not None:
            self.belief[self.active + 1] = 0.0
        total = sum(self.belief)
        self.belief = [x / total for x in self.belief]
        others = [g for g in range(len(self.kept)) if g != self.active]
        if not others:
            return
        rate, filters = min(0.01, self.event_rate(t)), self.belief[0]
        for g in others:
            back = self.comeback_events * self.comeback / len(others) + self.kept[g]["visits"]
            share = filters * rate * back / (self.comeback_events + self.events)
            self.belief[g + 1] = self.belief[g + 1] * (1 - rate) + share
            self.belief[0] -= share
        g = max(others, key=lambda g: self.belief[g + 1])
        if self.belief[g + 1] > 0.95:
            self.recall(t, g)

    def recall(self, t, g):
        self.kept[g]["at"] = t
        if self.active is None:
            self.keep(t)
        elif t - self.since >= 500:
            self.kept[self.active]["at"] = t
        self.items = [Item(S, F, t) for S, F in self.kept[g]["counts"]]
        self.active, self.since = g, t
        self.kept[g]["visits"] += 1
        self.belief = [1.0] + [0.0] * len(self.kept)
        self.events += t - self.event_at > 1
        self.event_at = t
        self.changes += 1
        self.alarms.append((t, None))


def _uniform(key):
    return (key >> 11) / 2**53
