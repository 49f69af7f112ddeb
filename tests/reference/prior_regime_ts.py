from __future__ import annotations

import math

import numpy as np

from tests.reference import cascade_regime_ts as plain
from tests.reference.index import key_below, observed_positions
from tests.reference.shared_model import Reading, left_at


class PriorRegimeTS(plain.CascadeRegimeTS):
    """The filters of CascadeRegimeTS with a prior for every item; every item has a state from the start."""

    def __init__(
        self, L, K, horizon=None, *, stops=True, explore_max=1, explore_from=1, guard=False, ties="order",
        change_mean=0.1, early_sharpness=64.0, most_items=80, hash_bits=15, dense=16, shrink_strength=False,
        **others,
    ):  # fmt: skip
        super().__init__(L, K, horizon, **{"hypotheses": 8, "feedback": "last", **others})
        self.stops, self.explore_max, self.explore_from = stops, explore_max, explore_from
        self.guard, self.ties, self.early = guard, ties, early_sharpness
        self.change_mean = change_mean
        self.reading = Reading()
        self.seen, self.changed = set(), set()

    # -- rates: of the items that were observed

    def hazard(self, t):
        return min(0.01, (self.A + self.changes) / (self.B + len(self.seen) * t))

    def rho(self):
        return min(0.5, (self.co_changes + self.co) / (max(1, len(self.seen) - 1) * (1 + self.events)))

    # -- priors

    def change(self, a):
        A, B = self.prior[a]
        mean = max(self.change_mean, self.going_on * A / (A + B))
        return mean, 1 - mean

    def root_prior(self, a):
        return self.change(a) if a in self.changed else self.prior[a]

    def click_under(self, a, h):
        A, B = self.root_prior(a) if h is self.items[a].root else self.change(a)
        return (h.S + A) / (h.S + h.F + A + B)

    def click_in_regime(self, a, S, F):
        A, B = self.prior[a]
        return (S + A) / (S + F + A + B)

    def mean(self, a):
        root, *others = self.items[a].held
        mean = root.W * self.click_under(a, root)
        if root.W < 0.9999:
            mean += sum(h.W * self.click_under(a, h) for h in others)
        return mean

    # -- ranking

    def rank(self, t, key, prior=None, users=None, candidates=None):
        """``prior`` is a pair (A, B) by item, ``users`` how the shared model has them read; ``candidates`` are in the
        caller's order."""
        candidates = list(range(self.L)) if candidates is None else list(candidates)
        self.prior = dict.fromkeys(candidates, (0.5, 0.5)) if prior is None else prior
        self.factor = 2 if users is None else 1
        going_on, after_click = users or (self.reading.going_on, self.reading.after_click)
        self.going_on, self.after_click = (going_on, after_click) if self.stops else (1.0, 0.0)
        self.key = key
        regime = self._regime(key)
        theta = {a: self._theta(t, a, key, regime, len(candidates)) for a in candidates}
        mean = {a: self.mean(a) for a in candidates}
        tie = (lambda a: key_below(key, a)) if self.ties == "random" else candidates.index
        K = min(self.K, len(candidates))
        best = sorted(candidates, key=lambda a: (-mean[a], tie(a)))[:K]
        thompson = sorted(candidates, key=lambda a: -theta[a])[:K]
        explorers = [a for a in thompson if a not in best][: self.explore_max]
        shown = best[: K - len(explorers)]
        at = self.explore_from - 1
        for a in explorers:
            if users:
                at = self.cheapest(shown, [*shown, best[len(shown)]], a, at, mean)
            else:
                while at < len(shown) and mean[shown[at]] >= theta[a]:
                    at += 1
            shown.insert(at, a)
            at = shown.index(a) + 1
        if self.guard and self.value(shown, mean) < self.value(candidates[:K], mean):
            shown = best
        self.means = [mean[a] for a in shown]
        roots = [self.items[a].root for a in shown]
        self.counts = [(h.S, -1 if a in self.changed else h.S + h.F) for a, h in zip(shown, roots, strict=True)]
        return shown

    def _regime(self, key):
        u = plain._uniform(key_below(key, 2**64 - 1))
        for g in range(len(self.kept)):
            if u < self.belief[g + 1]:
                return g
            u -= self.belief[g + 1]
        return None

    def _theta(self, t, a, key, regime, n):
        item, own = self.items[a], key_below(key, self.token(a))
        c, (A, B) = self.sharpness + self.early / t, self.prior[a]
        look = self.factor * min(0.01, self.vigilance * (1 + self.changes) / (self.B + n * t))
        u, q = plain._uniform(own), 1 - (1 - item.pending) * math.exp(-look * (t - item.last - 1))
        if u < q:
            shapes = self.change(a)
        elif regime is not None:
            S, F = self.kept[regime]["counts"][a]
            shapes = c * A + self.sharpness * S, c * B + self.sharpness * F
        else:
            u = (u - q) / (1 - q)
            chosen = item.held[-1]
            for h in item.held[:-1]:
                if u < h.W:
                    chosen = h
                    break
                u -= h.W
            if chosen is item.root and a not in self.changed:
                shapes = c * (A + chosen.S), c * (B + chosen.F)
            else:
                shapes = self.change(a)[0] + self.sharpness * chosen.S, self.change(a)[1] + self.sharpness * chosen.F
        return self.draw(np.uint64(own), *map(float, shapes))

    def token(self, a):
        return a

    def value(self, items, mean):
        """The expected clicks of a list, by position."""
        read = [math.prod((1 - mean[b]) * self.going_on for b in items[:i]) for i in range(len(items))]
        return sum(r * mean[a] for r, a in zip(read, items, strict=True))

    def cheapest(self, shown, instead, explorer, first, mean):
        """The position at which an observation of the explorer costs least."""

        def cost(i):
            new = [*shown[:i], explorer, *shown[i:]]
            arrive = math.prod((1 - mean[a]) * self.going_on for a in shown[:i])
            return (self.value(instead, mean) - self.value(new, mean)) / arrive

        return min(range(first, len(shown) + 1), key=cost)

    # -- learning

    def read(self, clicks):
        if self.stops and (self.feedback == "last" or not any(clicks)):
            return left_at(self.means, self.going_on, self.after_click, clicks, self.key)
        return observed_positions(clicks, self.feedback)

    def update(self, t, ranking, clicks):
        n = self.read(clicks)
        for a, y in zip(ranking[:n], clicks[:n], strict=True):
            self.seen.add(a)
            self.observe(t, a, y)
        if self.joint_every and t % self.joint_every == 0:
            self.joint_test(t)
        if self.kept:
            self.believe(t)
        if self.stops:
            self.reading.count(self.means, self.going_on, self.after_click, clicks, self.feedback)

    def declare(self, t, a):
        super().declare(t, a)
        self.changed.add(a)
