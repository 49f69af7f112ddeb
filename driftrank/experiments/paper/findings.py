"""The findings of a reproduction in text: the paper's claims beside the measurements."""

from __future__ import annotations

from driftrank.experiments.paper.reproduction import EPOCHS, OWN, PAPER, PRINTED, QUERIES, RUNS, SINGLE, Reproduction

_KLUCB = "CascadeKLUCB"


def reported() -> list[str]:
    """The claims of the paper."""
    (first, first_error), (late, late_error) = PRINTED[_KLUCB, 0], PRINTED[_KLUCB, 8]
    return [
        "On 100 queries of the Yandex click log, CascadeDUCB and CascadeSWUCB have less regret than RankedEXP3, "
        "CascadeKLUCB and BatchRank, whose regret is linear. CascadeSWUCB is better than CascadeDUCB by a small gap.",
        f"Only two numbers are printed: CascadeKLUCB loses {first:.2f} ± {first_error} in the first 10,000 steps and "
        f"{late:.2f} ± {late_error} in steps 80,000-90,000, although the users of both are the same. "
        "(The two ± cannot be the same statistic of 1,000 runs; the means can be compared.)",
    ]


def outcome(x: Reproduction) -> list[str]:
    """Each claim of the paper beside the measurement."""
    r, (sw, d) = x.result, OWN
    more, error = x.lead(sw, d)
    verdict = "not so here" if more <= 0 else "not clearly so here" if more <= 2 * error else "as in the paper"
    found = [f"{sw} below {d}: {verdict}. {d} loses {_pm(more, error)} more, {100 * more / r.regret(sw):+.0f}%."]
    best = min(PAPER[2:], key=r.regret)
    ahead = [name for name in OWN if r.regret(name) < r.regret(best)]
    verdict = "as in the paper" if len(ahead) == 2 else f"only {ahead[0]} is" if ahead else "neither is"
    more, error = x.lead(d, best)
    found.append(
        f"Both below every baseline of the paper: {verdict}. "
        f"The best of these, {best}, loses {_pm(more, error)} more than {d}."
    )
    for epoch in (0, 8):
        beside = f"; the paper has {PRINTED[_KLUCB, epoch][0]:.2f}" if x.exact else ""
        found.append(f"{_KLUCB} in steps {x.span(epoch)}: {_pm(*x.epoch(_KLUCB, epoch))}{beside}.")
    growth = ", ".join(f"{name} {_later(x, name):.2f}" for name in x.ranked())
    found.append(
        f"Regret of the last two epochs relative to that of the third and fourth: {growth}. "
        "1 means linear over epochs. The appendix calls the regret of the paper's two policies sub-linear; while "
        "changes keep coming at the same rate, that can be seen inside an epoch, but hardly over epochs."
    )
    return found


def losses(x: Reproduction) -> list[str]:
    """All epochs and queries in which another policy is better than one of the paper's two."""
    r = x.result
    rivals = [name for name in r.labels if name.partition(":")[0] not in OWN and "Oracle" not in name]
    found = []
    for own in OWN:
        worse = []
        for epoch in range(EPOCHS):
            mine = x.epoch(own, epoch)[0]
            least, best = min((x.epoch(name, epoch)[0], name) for name in rivals)
            if least < mine:
                worse.append(f"{x.span(epoch)}: {mine:,.0f} ({best} {least:,.0f})")
        epochs = f"{len(worse)} of {EPOCHS} epochs{': ' * bool(worse)}{'; '.join(worse)}"
        found.append(f"{own} has more regret than some baseline in {epochs}.")
        lost = {name: int((x.totals(name) < x.totals(own)).sum()) for name in rivals}
        some = [f"by {name} on {n}" for name, n in sorted(lost.items(), key=lambda item: -item[1]) if n]
        found.append(f"Over the whole run, of {len(r.queries)} queries it is beaten {', '.join(some) or 'on none'}.")
    found.append(
        "Forgetting has a price when nothing changes: even an item that is always shown keeps a confidence interval "
        "that never closes, so that items of nearly equal attraction are never distinguished. "
        "Before the first breakpoint that price buys nothing."
    )
    return found


def differences(x: Reproduction) -> list[str]:
    """Differences from the paper, and choices that it leaves open."""
    found = [
        "The queries are not the paper's, which are not published. These are drawn from a distribution fitted to 60 "
        "public queries of the same log (normal logits of the sorted attraction probabilities); "
        "--queries FILE.json takes real ones."
        if x.source.startswith("yandex-like:")
        else f"The queries are those of {x.source}; which ones the paper used is not published."
    ]
    if not x.exact:
        found.append(f"Runs have {x.result.horizon:,} steps in epochs of {x.period:,}, instead of 100,000 and 10,000.")
    if (len(x.result.queries), x.result.runs) != (QUERIES, RUNS):
        found.append(f"Queries: {len(x.result.queries)} instead of 100. Runs of each: {x.result.runs} instead of 10.")
    return [
        *found,
        "Read from the text: the first epoch is a default one (as the paper's numbers show; its recipe begins with a "
        "perturbation). The three perturbed items are drawn again in every perturbed epoch. "
        "Ten epochs have nine breakpoints between them; the paper counts ten.",
        "CascadeSWUCB counts observed items, as the paper's text has it; its pseudo-code counts displayed ones.",
        f"{_KLUCB} explores with ln t + 3 ln ln t, as it was published.",
        "Ties are broken at random, and items that were never seen come first.",
        f"{SINGLE} starts from a random list, and needs an extension because there are more items than positions.",
        "Regret is computed from the probabilities instead of the clicks that happened: the same mean, less noise.",
        "Standard errors are those of the mean over queries.",
    ]


def _later(x: Reproduction, policy: str) -> float:
    """Regret of the last two epochs, relative to that of the third and fourth."""
    early = x.epoch(policy, 2)[0] + x.epoch(policy, 3)[0]
    late = x.epoch(policy, EPOCHS - 2)[0] + x.epoch(policy, EPOCHS - 1)[0]
    return late / early if early else float("nan")


def _pm(mean: float, error: float) -> str:
    return f"{mean:,.1f}" + (f" ± {error:,.1f}" if error == error else "")
