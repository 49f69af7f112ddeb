"""The shared model in plain Python: dictionaries of weights, one covariance matrix for the curve of each model."""

from __future__ import annotations

import math
from collections import defaultdict

import numpy as np

from tests.reference.index import key_below

KNOTS = 13
GRID = (1, 3, 8, 24, 64, 192)


def first_covariance():
    j = np.arange(KNOTS)
    return 1 + 0.05 * np.outer(j, j) + 0.1 * np.minimum.outer(j, j)


class Weights(defaultdict):
    """Means and variances by name of a column, with the first variance of its kind."""

    FIRST = {"bias": 4.0, "score": 0.25, "query": 0.25, "item": 1.0, "cross": 0.5, "dense": 1.0}

    def __missing__(self, name):
        self[name] = [0.0, self.FIRST[name[0]]]
        return self[name]


class Model:
    def __init__(self):
        self.weights = Weights()
        self.curve, self.P = -1.5 - 0.45 * np.arange(KNOTS), first_covariance()
        self.grid, self.nu, self.evidence = np.full(6, 1 / 6), 8.0, 0.0


class SharedModel:
    def __init__(self, hash_bits=15, shrink_strength=False, stops=True):
        self.models = [Model() for _ in range(4)]
        self.bits, self.shrink, self.stops = hash_bits, shrink_strength, stops
        self.use, self.reading = 0, Reading()
        self.squares, self.labels = defaultdict(float), 0
        self.numbers = defaultdict(list)

    def hashed(self, kind, a, b=0):
        return key_below(key_below(kind, int(a)), int(b)) % 2**self.bits

    def standard(self, features):
        """Pairs of token and value, with numbers (odd tokens) standardised by all numbers of their name so far."""
        out = []
        for token, x in features:
            z = 1.0
            if token % 2:
                seen = self.numbers[self.number(token)]
                deviation = np.std([*seen, x])
                z = 0.0
                if seen and deviation > 0:
                    z = min(5.0, max(-5.0, (x - np.mean(seen)) / deviation))
            out.append((token, z))
        return out

    def number(self, token):
        return key_below(key_below(6, token), 0) % 2 ** min(self.bits, 10)

    def columns(self, j, query, item, place, dense, crosses, score=None, features=(), context=()):
        """Names and values of the columns, and the hats of the curve."""
        features, context = self.standard(features), self.standard(context)
        hats = np.zeros(KNOTS)
        named = []
        if place > 0:
            x = math.log2(place)
            k = min(int(x), KNOTS - 2)
            hats[k], hats[k + 1] = 1 - min(x - k, 1), min(x - k, 1)
        else:
            named.append((("bias",), 1.0))
        if score is not None:
            named.append((("score",), score))
        if j >= 1:
            named.append((("query", self.hashed(1, query)), 1.0))
        if j >= 2:
            named.append((("item", self.hashed(2, item)), 1.0))
            for c, x in enumerate(dense):
                scaled = x / math.sqrt((1 + self.squares[c]) / (1 + self.labels))
                named.append((("dense", c), min(5, max(-5, scaled)) / math.sqrt(len(dense))))
            unit = 1 / math.sqrt(max(4, len(features)))
            named += [(("item", self.hashed(4, token)), z * unit) for token, z in features]
        if j >= 3:
            request = [(token, 1.0) for token in crosses] + context
            unit = 1 / math.sqrt(len(request) * (1 + len(features))) if request else 0.0
            named += [(("cross", self.hashed(3, token, item)), z * unit) for token, z in request]
            for token, z in request:
                named += [(("cross", self.hashed(5, token, other)), z * zz * unit) for other, zz in features]
        return named, hats

    def logit(self, j, columns):
        model, (named, hats) = self.models[j], columns
        eta = hats @ model.curve + sum(model.weights[name][0] * x for name, x in named)
        v = hats @ model.P @ hats + sum(model.weights[name][1] * x * x for name, x in named)
        return eta, v

    def strength(self, nu, m, v):
        return max(0.5, 1 / (1 / (nu + 1) + m * (1 - m) * v) - 1) if self.shrink else nu

    def prior(self, query, item, place=0, dense=(), crosses=(), **more):
        """A, B."""
        model = self.models[self.use]
        eta, v = self.logit(self.use, self.columns(self.use, query, item, place, dense, crosses, **more))
        m = min(max(sigmoid(eta / math.sqrt(1 + math.pi / 8 * v)), 1e-4), 1 - 1e-4)
        nu = min(max(self.strength(model.nu, m, v), 0.5), 256)
        return nu * m, nu * (1 - m)

    @property
    def going_on(self):
        return self.reading.going_on if self.stops else 1.0

    @property
    def after_click(self):
        return self.reading.after_click if self.stops else 0.0

    def label(self, y, S, n, query, item, place=0, dense=(), crosses=(), **more):
        for j, model in enumerate(self.models):
            columns = named, hats = self.columns(j, query, item, place, dense, crosses, **more)
            eta, v = self.logit(j, columns)
            eta = min(max(eta, -12), 12)
            m, shrunk, nu = sigmoid(eta), sigmoid(eta / math.sqrt(1 + math.pi / 8 * v)), model.nu
            if n <= 32:
                one = shrunk
                if n > 0:
                    click = [(s * shrunk + S) / (s + n) for s in (self.strength(point, shrunk, v) for point in GRID)]
                    one = float(model.grid @ click)
                    model.grid = model.grid * [c if y else 1 - c for c in click]
                    model.grid = (1 - 1e-5) * model.grid / model.grid.sum() + 1e-5 / 6
                    model.nu = float(model.grid @ GRID)
                model.evidence = (1 - 1e-5) * model.evidence + math.log(one if y else 1 - one)
            omega = nu / (nu + n)
            p = min(max(omega * m + S / (nu + n), 1e-6), 1 - 1e-6)
            g = omega * m * (1 - m)
            R = p * (1 - p) + g * g * v
            if hats.any():
                gain = model.P @ hats
                model.curve = model.curve + gain * g * (y - p) / R
                model.P = model.P - np.outer(gain, gain) * g * g / R
                model.P = model.P + 2e-4 * (first_covariance() - model.P)
            for name, x in named:
                weight = model.weights[name]
                floor = 0.004 if name[0] in ("dense", "score") else 0.02
                weight[0] += weight[1] * x * g * (y - p) / R
                weight[1] = max(weight[1] * (1 - weight[1] * x * x * g * g / R), min(weight[1], floor))
        self.use = 0
        for j in (1, 2, 3):
            if self.models[j].evidence > self.models[self.use].evidence + 3:
                self.use = j
        for c, x in enumerate(dense):
            self.squares[c] += x * x
        self.labels += len(dense) > 0
        for token, x in [*more.get("features", ()), *more.get("context", ())]:
            if token % 2:
                self.numbers[self.number(token)].append(x)

    def read(self, means, going_on, after_click, clicks, feedback="last"):
        if self.stops:
            self.reading.count(means, going_on, after_click, clicks, feedback)


class Reading:
    """How often users went on and stopped, after a skipped item and after a clicked one."""

    def __init__(self):
        self.skip, self.click = [18.0, 2.0], [0.5, 9.5]

    @property
    def going_on(self):
        return self.skip[0] / sum(self.skip)

    @property
    def after_click(self):
        return self.click[0] / sum(self.click)

    def count(self, means, going_on, after_click, clicks, feedback):
        clicked = [i for i, c in enumerate(clicks) if c]
        if clicked and feedback == "first":
            self.skip[0] += clicked[0]
        else:
            known = clicked[-1] if clicked else 0  # went on after each of these
            self.skip[0] += sum(not c for c in clicks[:known])
            self.click[0] += sum(map(bool, clicks[:known]))
            if feedback == "last" or not clicked:
                for left, w in leaving(means, going_on, after_click, clicks).items():
                    for i in range(known, min(left, len(means) - 1)):  # a user at the end neither goes on nor stops
                        (self.click if clicks[i] else self.skip)[left - 1 == i] += w
        for counts in (self.skip, self.click):
            factor = min(1.0, 20_000 / sum(counts))
            counts[:] = [factor * n for n in counts]


def leaving(means, going_on, after_click, clicks):
    """By number of positions read, the probability that the list was left there."""
    n = len(means)
    out = {}
    for j in range(1, n + 1):
        if any(clicks[j:]):
            continue
        path = 1.0
        for i in range(j):
            on = after_click if clicks[i] else going_on
            path *= 1.0 if clicks[i] else 1 - means[i]
            path *= on if i < j - 1 else 1 - on if j < n else 1.0
        out[j] = path
    return {j: path / sum(out.values()) for j, path in out.items()}


def left_at(means, going_on, after_click, clicks, key):
    """The number of positions read, by the randomness of the event."""
    u = (key_below(key, 2**64 - 4) >> 11) / 2**53
    for j, w in leaving(means, going_on, after_click, clicks).items():
        if u < w:
            return j
        u -= w
    return len(means)


def sigmoid(z):
    return 1 / (1 + math.exp(-z))
