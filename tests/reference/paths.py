"""The probability of a click vector as a sum over everything that is hidden: what is read, what satisfies."""

from __future__ import annotations

import itertools


def _bernoulli(p, x):
    return p if x else 1 - p


def _reading(alpha, clicks, on_clicked, on_skipped):
    """Users who read from the top: the sum over the last rank that is read."""
    n = len(clicks)
    total = 0.0
    for last in range(n):
        p = 1.0 if not any(clicks[last + 1 :]) else 0.0
        for r in range(last + 1):
            p *= _bernoulli(alpha[r], clicks[r])
            on = on_clicked(r) if clicks[r] else on_skipped(r)
            if r < last:
                p *= on
            elif last < n - 1:
                p *= 1 - on
        total += p
    return total


def cm(alpha, clicks):
    return _reading(alpha, clicks, lambda r: 0.0, lambda r: 1.0)


def dcm(alpha, clicks, stop_after_click):
    return _reading(alpha, clicks, lambda r: 1 - stop_after_click[r], lambda r: 1.0)


def dbn(alpha, clicks, satisfaction, continuation):
    """The sum over which ranks satisfy, of those that are clicked."""
    total = 0.0
    for satisfied in itertools.product([0, 1], repeat=len(clicks)):
        if any(s and not c for s, c in zip(satisfied, clicks, strict=True)):
            continue
        p = 1.0
        for s, c, chance in zip(satisfied, clicks, satisfaction, strict=True):
            p *= _bernoulli(chance, s) if c else 1.0
        stays = [0.0 if s else continuation for s in satisfied]
        total += p * _reading(alpha, clicks, stays.__getitem__, stays.__getitem__)
    return total


def sdbn(alpha, clicks, satisfaction):
    return dbn(alpha, clicks, satisfaction, 1.0)


def ccm(alpha, clicks, continue_no_click, continue_click_not_relevant, continue_click_relevant):
    """The sum over which ranks are relevant, of those that are clicked."""
    total = 0.0
    for relevant in itertools.product([0, 1], repeat=len(clicks)):
        if any(s and not c for s, c in zip(relevant, clicks, strict=True)):
            continue
        p = 1.0
        for x, c, a in zip(relevant, clicks, alpha, strict=True):
            p *= _bernoulli(a, x) if c else 1.0
        stays = [continue_click_relevant if x else continue_click_not_relevant for x in relevant]
        total += p * _reading(alpha, clicks, stays.__getitem__, lambda r: continue_no_click)
    return total


def ubm(alpha, clicks, examination):
    """The sum over what is read; clicks follow where what is read attracts."""
    total = 0.0
    for read in itertools.product([0, 1], repeat=len(clicks)):
        p, previous = 1.0, 0
        for r, (e, c) in enumerate(zip(read, clicks, strict=True)):
            p *= _bernoulli(examination[r][previous - 1], e)  # without a click: the last one
            p *= _bernoulli(alpha[r], c) if e else float(not c)
            previous = r + 1 if c else previous
        total += p
    return total


def pbm(alpha, clicks, examination):
    return ubm(alpha, clicks, [[e] * len(clicks) for e in examination])
