"""Mutants: small faults put into the code on purpose, one at a time, to see that the tests notice them.

``python benchmarks/mutants.py`` copies the tree, puts in one fault after the other, and runs the tests that should
notice it. The tests that fail must pass without the fault. The exit code is 0 if every mutant was caught.
A new mutant gets its row in the page, and the others keep theirs, with::

    python benchmarks/mutants.py --only NAME --json benchmarks/mutants.json --markdown benchmarks/mutants.md

Compare two versions of the project with::

    python benchmarks/mutants.py --tree ../older --json before.json
    python benchmarks/mutants.py --before before.json --markdown mutants.md
"""

from __future__ import annotations

import argparse
import concurrent.futures
import json
import os
import queue
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import NamedTuple

CAUGHT, TIMEOUT, ESCAPED, ERROR = "caught", "timeout", "ESCAPED", "ERROR"
NONE = "no test"  #: no test was selected

#: notes the tests that fail: pytest's summary may be missing
PLUGIN = """
import os

def pytest_runtest_logreport(report):
    if report.failed:
        with open(os.environ["MUTANT_FAILURES"], "a", encoding="utf-8") as file:
            file.write(f"{report.nodeid}\\n")
"""


class Mutant(NamedTuple):
    """A fault, and the tests that should notice it.

    ``code`` is a part of a line that occurs once in ``driftrank/``. ``tests`` are the ends of paths below ``tests/``
    and options of pytest. Of alternatives, separated by ``||`` in ``code`` and ``instead`` and by ``|`` in a path, the
    first that exists is taken: so the same mutant fits versions of the project in which names differ.
    """

    name: str
    fault: str
    code: str
    instead: str
    tests: str
    compiled: bool = False  #: True: first the tests with compiled kernels; False: first those with kernels as Python


@dataclass(frozen=True)
class Outcome:
    """The result of one mutant."""

    name: str
    status: str
    detail: str = ""  #: the test that caught it, or the reason of an error
    file: str = ""
    seconds: float = 0.0
    compiled: bool = False  #: the kernels were, when the test caught it
    commit: str = ""  #: the version of the tree


class Unusable(Exception):
    """A mutant that does not fit this tree."""


MUTANTS = [
    # -- kernels ---------------------------------------------------------------------------------------------------
    Mutant(
        "rng-branch", "the branches of a key begin at another place",
        "(np.uint64(n) + np.uint64(1)) * _WEYL", "np.uint64(n) * _WEYL",
        "kernels/test_rng.py -k 'not beta and not gamma and not normal'",
    ),
    Mutant(
        "rng-purpose", "users and policies share their randomness",
        "USERS = 1", "USERS = 2",
        "kernels/test_rng.py -k 'not beta and not gamma and not normal'",
    ),
    Mutant(
        "gamma-acceptance", "a term is missing where a Gamma number is accepted",
        "0.5 * square + d * (1.0 - v + log(v))", "0.5 * square + d * (1.0 - v)",
        "kernels/test_rng.py -k gamma",
    ),
    Mutant(
        "exp-coefficient", "a coefficient of the exponential is wrong in its last digits",
        "0.041666666666624164", "0.0416666666666",
        "kernels/test_elementary.py -k units",
    ),
    Mutant(
        "kl-newton", "the KL bound stops a step too early",
        "abs(step) < 1e-3 * min(q - p, 1.0 - q)", "abs(step) < 1e-1 * min(q - p, 1.0 - q)",
        "kernels/test_kl.py",
    ),
    Mutant(
        "kl-near-one", "the KL bound is too small near 1",
        "1.0 - exp((negative_entropy - d) / (1.0 - p))", "1.0 - exp((negative_entropy - 0.9 * d) / (1.0 - p))",
        "kernels/test_kl.py",
    ),
    Mutant(
        "kl-level", "ln ln t counts before it is positive",
        "if level > 1.0:", "if level > 0.0:",
        "kernels/test_kl.py",
    ),
    Mutant(
        "top-tie", "of equal items the first to come stays",
        "if u < v or (u == v and not wins_tie(a, r.items[i], e.key, c, ties)):", "if u <= v:",
        "kernels/test_top.py|kernels/test_top_k.py",
    ),
    Mutant(
        "last-click-on-top", "a last click at the first position is not seen",
        "for i in range(shown - 1, -1, -1):", "for i in range(shown - 1, 0, -1):",
        "kernels/test_feedback.py|kernels/test_observed.py",
    ),
    Mutant(
        "kernel-fastmath", "compiled kernels may reorder their arithmetic",
        '"nogil": True, "_nrt": False}', '"nogil": True, "_nrt": False, "fastmath": True}',
        "policies/test_compiled.py|kernels/test_elementary.py",
        compiled=True,
    ),
    Mutant(
        "kernel-fingerprint", "machine code is found again though a constant has changed",
        "yield repr(value).encode()", 'yield b""',
        "kernels/test_compile.py -k fingerprint",
    ),
    # -- policies: how the past counts -----------------------------------------------------------------------------
    Mutant(
        "window-length", "a window is one step too long",
        "if s.held[0] >= s.window[0]", "if s.held[0] > s.window[0]",
        "test_cascade_swucb.py -k 'plain_version or hand'",
    ),
    Mutant(
        "window-seconds", "an observation as old as the window still counts",
        "if now - s.time[n] < p.span:", "if now - s.time[n] <= p.span:",
        "test_wall_clock.py -k 'not contract and not sums'",
    ),
    Mutant(
        "window-filling", "the bonus stops growing a step before the window is full",
        "elif doubled or e.t < s.window[0]:", "elif doubled or e.t + 1 < s.window[0]:",
        "test_cascade_swucb.py -k 'plain_version or double'",
    ),
    Mutant(
        "window-level", "the bonus of a window counts the step too few",
        "level_of(p, min(e.t + 1.0, s.window[0]))", "level_of(p, min(e.t, s.window[0]))",
        "test_cascade_swucb.py -k 'plain_version or hand'",
    ),
    Mutant(
        "discounted-clock", "the number of steps is not discounted",
        "s.clock[0] = s.gamma[0] * before + (", "s.clock[0] = before + (",
        "test_cascade_ducb.py -k 'not million'",
    ),
    Mutant(
        "discount-auto", "the discount that follows from the horizon is wrong",
        "1.0 - 0.25 * np.sqrt(n_breakpoints / horizon)", "1.0 - 0.5 * np.sqrt(n_breakpoints / horizon)",
        "test_cascade_ducb.py -k 'not million'",
    ),
    Mutant(
        "half-life", "the past loses half its weight in half the time",
        "exp(min(elapsed * p.decay, _MOST))", "exp(min(2.0 * elapsed * p.decay, _MOST))",
        "test_wall_clock.py -k 'not contract and not sums'",
    ),
    Mutant(
        "rescaled-clicks", "clicks keep their unit when counts are rescaled",
        "s.X[a] /= unit", "s.X[a] /= 1.0",
        "test_cascade_ducb.py test_pbm.py -k 'million or overflow'",
    ),
    # -- policies: formulas ----------------------------------------------------------------------------------------
    Mutant(
        "ucb1-time", "UCB1 takes t for t - 1",
        "log(max(e.t - 1.0, 1.0))", "log(max(e.t, 1.0))",
        "test_cascade_ucb1.py -k 'not problem'",
    ),
    Mutant(
        "ucbv-variance", "UCB-V has half the variance",
        "np.sqrt(4.0 * mean * (1.0 - mean) / s.N[a])", "np.sqrt(2.0 * mean * (1.0 - mean) / s.N[a])",
        "test_cascade_ucbv.py",
    ),
    Mutant(
        "kl-pruning", "an item is left out whose bound was needed",
        "> q * (1.0 + 1e-6)", "> q * 0.9",
        "test_cascade_klucb.py test_cascade_dklucb.py -k 'not problem'",
    ),
    Mutant(
        "beta-scale", "a Beta number is drawn with the scale of the other side",
        "p.b0 + F, s.scale_F[a])", "p.b0 + F, s.scale_S[a])",
        "test_cascade_ts.py",
    ),
    Mutant(
        "softmax-weight", "a draw does not look at the weight",
        "log(inner_uniform(derive(e.key, c.token[a]))) / s.weight[a]", "log(inner_uniform(derive(e.key, c.token[a])))",
        "test_cascade_softmax.py -k 'not long'",
    ),
    Mutant(
        "exp3-estimate", "a loss is not divided by its probability",
        "estimate = (reward - 1.0) / probability if", "estimate = (reward - 1.0) if",
        "test_exp3.py test_ranked_exp3.py",
    ),
    Mutant(
        "ranked-replacement", "a click on a replacement is a reward",
        "1.0 if clicks[i] and b == shown else 0.0", "1.0 if clicks[i] else 0.0",
        "test_ranked_exp3.py",
    ),
    Mutant(
        "toprank-width", "TopRank settles pairs without the logarithm of their number",
        "lead * lead < total * (p.width + log(total))", "lead * lead < total * p.width",
        "test_top_rank.py",
    ),
    Mutant(
        "ridge-fades", "discounting takes the ridge away",
        "row[i] += 1.0 - gamma", "row[i] += 0.0",
        "test_linear.py|test_ridge.py -k 'not thousand'",
    ),
    Mutant(
        "pie-slope", "PIE takes an item for better that is not",
        "slope += (n - x) * at_theta[3 * k + 2] - x", "slope += (n - x) * at_theta[3 * k + 2] - 2.0 * x",
        "test_pbm.py -k 'better or turns or bound or plain'",
    ),
    # -- policies: changes -----------------------------------------------------------------------------------------
    Mutant(
        "glr-threshold", "the threshold of the GLR test grows too slowly",
        "leading = level + 1.5 * log_N", "leading = level + log_N",
        "detectors/test_glr.py -k 'not million and not rare'",
    ),
    Mutant(
        "glr-wait", "the GLR test is put off for too long",
        "= threshold - top", "= threshold",
        "detectors/test_glr.py -k 'not million and not rare'",
    ),
    Mutant(
        "cusum-down", "CUSUM sees no fall",
        "s.walk_down[a] + (usual - y) - p.walk_slack", "s.walk_down[a] + (y - usual) - p.walk_slack",
        "detectors/test_walks.py|detectors/test_two_sided_walk.py",
    ),
    Mutant(
        "window-test-middle", "the middle of the test's window is a label off",
        "place - half if place >= half else", "place - half if place > half else",
        "detectors/test_window_test.py",
    ),
    Mutant(
        "forced-last", "the last item of a sweep has no turn",
        "if j < 1 or j > p.L:", "if j < 1 or j >= p.L:",
        "test_change_detection.py|detecting/test_base.py -k 'schedule or turn'",
    ),
    Mutant(
        "filter-prior", "a change takes no weight from the other hypotheses",
        "w = q if k == born else s.W[k] * (1.0 - q)", "w = q if k == born else s.W[k]",
        "test_cascade_regime_ts.py",
    ),
    Mutant(
        "master-test", "MASTER's second test is three times as wide",
        ">= 3.0 * s.slack[0] * rho(p, done) * done", ">= 9.0 * s.slack[0] * rho(p, done) * done",
        "test_cascade_master.py",
    ),
    Mutant(
        "alarm-ring", "the oldest alarm is read as the newest",
        "s.alarm_code[n % REMEMBERED]\n", "s.alarm_code[(n + 1) % REMEMBERED]\n",
        "test_alarms.py engine/test_detections.py|engine/test_alarm_scoring.py",
        compiled=True,
    ),
    # -- learners --------------------------------------------------------------------------------------------------
    Mutant(
        "load-steps", "a loaded learner begins at step 1",
        'learner.steps = saved.steps||learner.steps = header["steps"]', "learner.steps = 0||learner.steps = 0",
        "test_learner.py -k 'load or save or bytes'",
    ),
    Mutant(
        "copy-shares", "a copy shares the slots of its original",
        "other._slots = self._slots.copy()", "pass",
        "test_learner.py -k 'copy or copies'",
    ),
    Mutant(
        "copy-shares-state", "a copy shares the state of its original",
        "other._slots = self._slots.copy()", "other._slots, other._floats = self._slots.copy(), self._floats",
        "test_learner.py -k 'copy or copies'",
    ),
    Mutant(
        "load-version", "a state of another version of the policy is read",
        'if header["version"] != policy.version:||if version != self.version:',
        'if header["version"] is None:||if version is None:',
        "test_learner.py -k 'kind or fit'",
    ),
    Mutant(
        "click-position", "position 0 is taken for a click",
        "if not 1 <= clicks <= len(shown) + 1:", "if not 0 <= clicks <= len(shown) + 1:",
        "test_clicks.py|test_click_vector.py",
    ),
    # -- click models ----------------------------------------------------------------------------------------------
    Mutant(
        "dbn-satisfaction", "whether a click satisfies depends on whether it happened",
        "satisfied = clicked and uniform(derive(own, 1)) < m[1 + a]",
        "satisfied = clicked and uniform(own) < m[1 + a]",
        "clickmodels/test_models.py -k 'users or known'",
        compiled=True,
    ),
    Mutant(
        "pbm-examination", "users of the PBM look at the next position's examination",
        "uniform(derive(key, a)) < m[k] * alpha[a]", "uniform(derive(key, a)) < m[0] * alpha[a]",
        "clickmodels/test_models.py -k 'users or known'",
        compiled=True,
    ),
    Mutant(
        "chain-optimum", "the best list is looked for among too few items",
        "table[j * K + k] = max(table[(j + 1) * K + k], taken)",
        "table[j * K + k] = taken",
        "clickmodels/test_models.py -k 'best or known'",
        compiled=True,
    ),
    Mutant(
        "em-dbn", "EM counts a satisfied user among those who may read on",
        "g_den[0] += 1.0 - satisfied", "g_den[0] += 1.0",
        "clickmodels/test_fit.py|fitting/test_em.py -k 'DBN and not SDBN'",
        compiled=True,
    ),
    Mutant(
        "em-ccm", "EM takes leaving for a sign of no relevance",
        "off * x[0] * (1.0 - g[2]) / (1.0 - go_on)", "off * x[0] * g[2] / (1.0 - go_on)",
        "clickmodels/test_fit.py|fitting/test_em.py -k CCM",
        compiled=True,
    ),
    Mutant(
        "em-last-click", "EM does not weigh whether the user read on after the last click",
        "read = clicked_on * back[k + 1] / ends", "read = clicked_on / ends",
        "clickmodels/test_fit.py|fitting/test_em.py -k 'DBN and not SDBN'",
        compiled=True,
    ),
    # -- environments ----------------------------------------------------------------------------------------------
    Mutant(
        "abrupt-epochs", "the first epoch is perturbed",
        "if epoch % 2 == 1:||boosted = t > begin + p.period", "if epoch % 2 == 0:||boosted = t <= begin + p.period",
        "environments/test_abrupt.py",
    ),
    Mutant(
        "churn-announcement", "an arrival is announced a step too early",
        "t == arrivals * p.period + 1", "t == arrivals * p.period",
        "environments/test_churn.py -k announce",
    ),
    Mutant(
        "drift-walk", "a random walk is too wild between its corners",
        "np.sqrt(0.25 * (after - before))", "np.sqrt(0.5 * (after - before))",
        "environments/test_drift.py",
    ),
    Mutant(
        "segment-start", "a segment that goes on begins again",
        "starts[n] = t - 1 if n == 0 and t < until else t", "starts[n] = t",
        "environments/test_base.py engine/test_churn.py engine/test_identity.py -k 'chunk'",
    ),
    # -- engine ----------------------------------------------------------------------------------------------------
    Mutant(
        "regret-first-step", "the regret of the first step is lost",
        "regret += best - value", "regret += best - value if t > 1 else 0.0",
        "engine/test_identity.py -k 'CascadeUCB1 or CascadeSWUCB or users'",
        compiled=True,
    ),
    Mutant(
        "regret-value", "regret is counted against the clicks that came",
        "regret += best - value", "regret += best - clicks[0]",
        "engine/test_identity.py -k 'CascadeUCB1 or CascadeSWUCB or users'",
        compiled=True,
    ),
    Mutant(
        "detection-delay", "the delay of a detection is a step too short",
        "totals[5] += t - changed_at + 1.0", "totals[5] += t - changed_at",
        "engine/test_detections.py|engine/test_alarm_scoring.py",
        compiled=True,
    ),
    # -- experiments -----------------------------------------------------------------------------------------------
    Mutant(
        "journal-runs", "the runs of a unit get each other's numbers",
        "run, measures[i]) for i, run in enumerate(runs)]||np.concatenate([measures for _, measures, _ in self._new])",
        "run, measures[0]) for i, run in enumerate(runs)]||np.concatenate([x[::-1] for _, x, _ in self._new])",
        "experiments/test_run.py|simulation/test_run.py",
        compiled=True,
    ),
    Mutant(
        "journal-identity", "numbers of another simulation are taken for ours",
        'if about.get("of") != self.identity:||if _of(about) != self._identity:',
        'if about.get("of") is None:||if _of(about) is None:',
        "experiments/test_run.py|simulation/test_run.py",
        compiled=True,
    ),
    Mutant(
        "standard-error", "the standard error divides by n",
        "np.nanstd(samples, axis=0, ddof=1)", "np.nanstd(samples, axis=0, ddof=0)",
        "experiments/test_results.py|simulation/test_result.py",
        compiled=True,
    ),
    Mutant(
        "holm", "Holm's adjustment forgets that larger p-values stay larger",
        "largest = max(largest, min(1.0, (len(tested) - rank) * p))", "largest = min(1.0, (len(tested) - rank) * p)",
        "experiments/test_statistics.py|test_significance.py",
        compiled=True,
    ),
    # -- the service: state ----------------------------------------------------------------------------------------
    Mutant(
        "fold-twice", "a record that was in the log is folded again",
        "if new and self._broken is None:||if is_new and self._broken is None:",
        "if self._broken is None:||if self._broken is None:",
        "serve/test_committer.py|test_committer.py",
    ),
    Mutant(
        "fold-replay", "a replay teaches what the snapshot has",
        "if query.seq >= seq:", "if query.seq > seq:",
        "serve/test_fold.py|state/test_state.py",
    ),
    Mutant(
        "clicks-collected", "a second click takes the place of the first",
        "sorted({*clicks, *record.clicks})", "sorted({*record.clicks})",
        "serve/test_service.py -k 'collected or clicks'",
    ),
    Mutant(
        "seen-collected", "the items seen are those of the last feedback",
        "else max(shown, record.shown)", "else record.shown",
        "serve/test_service.py -k 'collected or clicks'",
    ),
    Mutant(
        "restart-settings", "another seed keeps what was learnt",
        '("policy", "k", "seed", "horizon")', '("policy", "k", "horizon")',
        "serve/test_service.py serve/test_fold.py|state/test_state.py -k 'settings or becomes or Life or Traffic'",
    ),
    Mutant(
        "waiting-due", "a list is due a moment too late",
        "part.times[at] > until", "part.times[at] >= until",
        "serve/test_pending.py|state/test_waiting.py",
    ),
    Mutant(
        "query-memo", "what a policy noted of a list is not given back to it",
        "np.full(n * width, -1.0) if like.memo is None||memo = np.frombuffer(record.memo, \"<f8\")[: n * width].copy()",
        "np.full(n * width, -1.0) if True||memo = np.full(n * width, -1.0)",
        "serve/test_service.py -k served",
    ),
    # -- the service: feedback, keys, store ------------------------------------------------------------------------
    Mutant(
        "feedback-window", "feedback counts at the very end of its window",
        "if now >= event.began + ranker.wait:||if now >= impression.opened_at + window:",
        "if now > event.began + ranker.wait:||if now > impression.opened_at + window:",
        "serve/test_service.py -k 'wait or late or window'",
    ),
    Mutant(
        "feedback-duplicate", "other feedback is taken for a duplicate",
        "if (final.clicks, final.shown) == (clicks, shown):||return (final.clicks, final.shown, final.values) ==",
        "if final.shown == shown:||return (self.clicks, final.shown, final.values) ==",
        "serve/test_judging.py|state/test_outcome.py",
    ),
    Mutant(
        "feedback-shown", "a click below what was shown is taken",
        "if shown is not None and out and max(out) > shown:", "if shown is not None and out and max(out) > length:",
        "serve/test_judging.py|serve/test_feedback.py",
    ),
    Mutant(
        "holdout-share", "the holdout is twice as large",
        ">> 11) * 2.0**-53 < settings.holdout||{unit}\") < self._holdout",
        ">> 11) * 2.0**-54 < settings.holdout||{unit}\") < 2 * self._holdout",
        "serve/test_service.py -k holdout",
    ),
    Mutant(
        "arm-learns", "every arm learns from all lists of its ranker",
        "return self if not name or name in OWN_ARMS else self.arms.get(name)", "return self",
        "serve/test_experiment.py",
    ),
    Mutant(
        "experiment-share", "lists count alike, whatever the share of their arm",
        "clicks = (len(final.clicks) - every.clicks / before) / ranked.share",
        "clicks = len(final.clicks) - every.clicks / before",
        "serve/test_experiment.py",
    ),
    Mutant(
        "experiment-buckets", "lists of one subject are taken as independent",
        "bucket = (ranked.subject or key_of(", "bucket = (key_of(",
        "serve/test_experiment.py",
    ),
    Mutant(
        "reward-draw", "one draw for all positions of a list",
        'place = f"/{position}" if position > 1 else ""', 'place = ""',
        "serve/test_rewards.py",
    ),
    Mutant(
        "page-draw", "a page is ranked by a draw of its own",
        "if page.key is None else page.key", "",
        "serve/test_paging.py",
    ),
    Mutant(
        "key-of-another", "a ranker's key opens every ranker",
        "good = not admin and (bool(owned) if ranker is None else ranker in owned)",
        "good = not admin and bool(owned)",
        "serve/test_keys.py",
    ),
    Mutant(
        "key-is-admin", "a ranker's key opens administration",
        "good = not admin and (", "good = (",
        "serve/test_keys.py",
    ),
    Mutant(
        "gate-delete", "a ranker's key may delete its queries",
        'elif method in ("GET", "HEAD") and (rest in||delete_query, Need.ADMIN',
        'elif method in ("GET", "HEAD", "DELETE") and (rest in||delete_query, Need.RANKER',
        "serve/test_middleware.py|http/test_gate.py serve/test_isolation.py|http/test_isolation.py",
    ),
    Mutant(
        "gate-basic", "a password sent by any site opens the interface",
        'if browser and scheme.lower() == b"basic":||if page and scheme.lower() == b"basic":',
        'if scheme.lower() == b"basic":||if scheme.lower() == b"basic":',
        "serve/test_middleware.py|http/test_gate.py serve/test_isolation.py|http/test_isolation.py",
    ),
    Mutant(
        "store-new", "an entry that was there before is said to be new",
        "settled = [(seqs[id], seqs[id] == seq) for", "settled = [(seqs[id], True) for",
        "store/test_checks.py",
    ),
    Mutant(
        "store-forget", "one record too many is forgotten",
        "SELECT seq FROM log WHERE seq < ? ORDER BY", "SELECT seq FROM log WHERE seq <= ? ORDER BY",
        "store/test_checks.py",
    ),
    Mutant(
        "store-numbers", "numbers of records are given a second time",
        "\"UPDATE meta SET value = ? WHERE name = 'last'\", (self.last,)",
        "\"UPDATE meta SET value = ? WHERE name = 'last'\", (0,)",
        "store/test_checks.py store/test_sqlite.py",
    ),
    Mutant(
        "store-checksum", "the checksum of a long body covers its last piece only",
        "crc = zlib.crc32(view[start : start + _PIECE], crc)", "crc = zlib.crc32(view[start : start + _PIECE])",
        "store/test_sqlite.py -k 'checksum or whole'",
    ),
    Mutant(
        "retention", "records are forgotten that a replay needs",
        "bound = min(self._fold.oldest, self._fold.needed,||self._state.oldest, self._state.needed, checkpoint.seq",
        "bound = min(self._fold.oldest,||self._state.oldest, checkpoint.seq",
        "serve/test_upkeep.py|serve/test_maintenance.py",
    ),
    # -- the client ------------------------------------------------------------------------------------------------
    Mutant(
        "client-retries", "one attempt too few",
        "if self._done > self._rules.retries or", "if self._done >= self._rules.retries or",
        "client/test_client.py",
    ),
    Mutant(
        "client-retry-after", "the client does not wait as long as the service says",
        "wait = max(backoff(self._done), error.retry_after or 0.0)", "wait = backoff(self._done)",
        "client/test_client.py",
    ),
    Mutant(
        "outbox-order", "feedback that could not be sent comes back in reverse",
        "self._waiting.extendleft(reversed(self._taken))", "self._waiting.extendleft(self._taken)",
        "client/test_client.py",
    ),
    # -- logs ------------------------------------------------------------------------------------------------------
    Mutant(
        "sql-examined", "a list without clicks counts as not examined",
        '"examined": "mask = 0 OR below > 0"', '"examined": "below > 0"',
        "logs/test_statistics.py|count/test_statistics.py",
        compiled=True,
    ),
    Mutant(
        "sql-above", "the click at the position itself counts as one above",
        "mask % (CAST(1 AS BIGINT) << place) AS above", "mask % (CAST(2 AS BIGINT) << place) AS above",
        "logs/test_statistics.py|count/test_statistics.py",
        compiled=True,
    ),
    Mutant(
        "sql-coarser", "examined lists with a click are counted twice",
        "views - clicks, 0, examined - clicks, 0", "views - clicks, 0, examined, 0",
        "logs/test_statistics.py|count/test_statistics.py logs/test_stored.py|count/test_load_statistics.py",
        compiled=True,
    ),
    Mutant(
        "yandex-backwards", "two lines of the same time are reported",
        "1 << BACKWARDS if time < state[TIME]", "1 << BACKWARDS if time <= state[TIME]",
        "test_yandex.py",
        compiled=True,
    ),
    Mutant(
        "yandex-barred", "a click is counted for a list it may not belong to",
        "state[BARRED] = state[ORPHAN]", "state[BARRED] = 0",
        "test_yandex.py",
        compiled=True,
    ),
    Mutant(
        "log-between", "the end of a period belongs to it",
        '(end, "end", "<"))', '(end, "end", "<="))',
        "logs/test_log.py",
        compiled=True,
    ),
    Mutant(
        "changes-overlap", "changes that are not found between their neighbours are kept",
        "if weakest < 0 or splits[weakest][3] > 0:||if weakest < 0 or placed[weakest][1] > 0:", "if True:||if True:",
        "logs/test_changes.py -k 'neighbours or papers'",
        compiled=True,
    ),
    Mutant(
        "drift-certain", "a change that the examination explains is taken for one of the users",
        "if pair[1].certain]", "]",
        "logs/test_changes.py",
        compiled=True,
    ),
    # -- evaluation ------------------------------------------------------------------------------------------------
    Mutant(
        "dr-next-click", "the doubly robust estimator weighs a click by its own rest of the list",
        "corrections = batch.read * weight * surprise * batch.rest[:, 1:]",
        "corrections = batch.read * weight * surprise * batch.rest[:, :-1]",
        "evaluation/test_estimators.py",
    ),
    Mutant(
        "product-limit-risk", "lists with a click above are at risk",
        "np.hstack([weight * batch.read, weight * batch.first_clicks])",
        "np.hstack([weight, weight * batch.first_clicks])",
        "evaluation/test_estimators.py",
    ),
    Mutant(
        "sequence-plan", "a confidence sequence is tuned to the lists at each look",
        "mixture_width(round(lists), how.planned, 1 - how.level)",
        "mixture_width(round(lists), round(lists), 1 - how.level)",
        "evaluation/test_evaluate.py -k looks_at_one_sequence",
    ),
    Mutant(
        "sequence-early", "a confidence sequence has an interval from the tenth effective row on",
        "_ENOUGH * rows.squares", "10 * rows.squares",
        "evaluation/test_confidence.py",
    ),
    Mutant(
        "exact-guess", "the guess of a bucket has seen the bucket",
        "guess = np.minimum((0.5 + np.cumsum(sums) - sums)", "guess = np.minimum((0.5 + np.cumsum(sums))",
        "evaluation/test_users.py",
    ),
    Mutant(
        "few-users", "lists of one user have an interval",
        "if scope.buckets() < LEAST_BUCKETS:", "if scope.buckets() < 0:",
        "evaluation/test_users.py",
    ),
    Mutant(
        "one-list", "one list may have all weight of whole lists",
        "weights, effective, largest = scope.weights(whole), scope.effective(whole), scope.dominance(whole)",
        "weights, effective, largest = scope.weights(whole), scope.effective(whole), 0.0",
        "evaluation/test_evaluate.py -k must_not_decide",
    ),
    Mutant(
        "overlap", "lists that were never shown have a value",
        "if not far and not abs(off) > 3 * weights.error:", "if not abs(off) > 300 * weights.error:",
        "evaluation/test_evaluate.py -k no_overlap",
    ),
    Mutant(
        "hazards-fold", "hazards come from the labels of the row's own half",
        "others = [other for other in range(len(looks)) if other != fold]",
        "others = [other for other in range(len(looks)) if other == fold]",
        "evaluation/test_evaluate.py -k plain_versions",
    ),
    Mutant(
        "pages", "pages after the first are evaluated as lists",
        "'\"offset\" > 0'", "'\"offset\" > 1000'",
        "evaluation/test_users.py -k set_apart",
    ),
    # -- several nodes ---------------------------------------------------------------------------------------------
    Mutant(
        "node-tail", "of a query that is loaded, the records after its snapshot are left out",
        "    for entry in loaded.entries:", "    for entry in loaded.entries[:0]:",
        "serve/test_nodes.py -k 'settings_of_their_time or dropped_is_loaded'",
    ),
    Mutant(
        "node-as-of", "a query is loaded as of the record before those that are taken in with it",
        "store.load(wanted, until) if wanted", "store.load(wanted, at) if wanted",
        "serve/test_equality.py -k three_nodes",
    ),
    Mutant(
        "node-snapshot-ahead", "a snapshot that is ahead of the node is used",
        "if found.snapshot is not None and found.snapshot.seq > state.seq:", "if False:",
        "serve/test_nodes.py -k snapshot_ahead",
    ),
    Mutant(
        "node-settings-then", "records are folded with the settings of today",
        "then.go_back(entry.seq, ranker)", "pass",
        "serve/test_nodes.py -k settings_of_their_time",
    ),
    Mutant(
        "node-others-first", "own records are folded before those of others that came earlier",
        "while at < appended.base and (", "while False and (",
        "serve/test_nodes.py -k 'a_click_on_one or at_the_same_time'",
    ),
    Mutant(
        "node-durable", "an answer is about a record that nobody has acknowledged",
        "if self._durable < self._state.seq:", "if False:",
        "serve/test_nodes.py -k until_it_is_durable",
    ),
    Mutant(
        "keeper-lease", "a lease is taken from a node that has it",
        "WHERE leases.node = excluded.node OR leases.until < clock_timestamp()", "WHERE true",
        "serve/test_nodes.py -k keeper_is_one",
    ),
    Mutant(
        "keeper-cover", "records of queries are forgotten that no snapshot covers",
        "return int(await self._committer.run(self._shared.covered)) + 1", "return 2**63 - 1",
        "serve/test_nodes.py -k in_use_by_nobody",
    ),
    Mutant(
        "append-doubt", "entries of an append whose answer was lost are taken for those of another",
        "again, self.doubts = before, self.doubts + 1", "self.doubts += 1",
        "log/store/test_postgres.py -k settled_by_ids",
    ),
    Mutant(
        "log-cut", "a log that lacks what was read is followed on",
        "if not self._value(connection, query, seq, id, seq):", "if False:",
        "log/store/test_postgres.py -k cut_log",
    ),
    Mutant(
        "snapshot-older", "an older snapshot replaces a newer one",
        '" WHERE snapshots.seq <= excluded.seq"\n        )\n        delete', '""\n        )\n        delete',
        "log/store/test_checks.py -k postgresql",
    ),
    Mutant(
        "snapshot-order", "nodes lock the rows of snapshots in different orders",
        "in sorted(snapshots, key=lambda it: (it.name.encode(), it.seq)):", "in snapshots:",
        "log/store/test_postgres.py -k do_not_wait",
    ),
    Mutant(
        "route-order", "the node of a query depends on which others there are",
        'blake2b(f"{route} {url}".encode(), digest_size=8)', 'blake2b(f"{route} {self.urls}".encode(), digest_size=8)',
        "client/test_node_choice.py",
    ),
    # -- what came later -------------------------------------------------------------------------------------------
    Mutant(
        "pdgd-exchange", "the list with two items exchanged is as likely as the list",
        "ratio *= s.left[i] / (max(s.left[i] - down, 0.0) + up)", "ratio *= 1.0",
        "policies/contextual/test_linear_rankers.py",
    ),
    Mutant(
        "compile-waits-for-nobody", "processes that need the same kernel all compile it",
        "fcntl.flock(handle, fcntl.LOCK_EX)", "fcntl.flock(handle, fcntl.LOCK_SH)",
        "kernels/test_compile.py -k 'waited'",
        compiled=True,
    ),
    Mutant(
        "traffic-arm", "clicks of the holdout count as those of the policy",
        '(found.holdout if arm == "holdout" else found.ranked).count(clicks)', "found.ranked.count(clicks)",
        "serve/state/test_traffic.py",
    ),
    Mutant(
        "changes-lost", "changes found after the last checkpoint are gone after a restart",
        "if self._changes is not None and (seq is None or seq >= self._changes.seq):", "if False:",
        "serve/state/test_changes.py",
    ),
    Mutant(
        "page-token", "a change on the live page needs no token",
        "not _same(form.get(\"token\", \"\"), viewer.token)", "False",
        "serve/page/test_pages.py",
    ),
    Mutant(
        "page-ranker", "the key of a ranker shows the pages of others",
        "if ranker is not None and not viewer.sees(ranker):", "if False:",
        "serve/page/test_pages.py",
    ),
    Mutant(
        "page-session", "a session does not expire",
        "or not _later(end, self._now())", "",
        "serve/page/test_sessions.py",
    ),
    Mutant(
        "page-discard", "the page discards what was learnt without having said so",
        'discard=form.get("discard") == "yes"', "discard=True",
        "serve/page/test_pages.py",
    ),
    Mutant(
        "page-open", "an open page of a session that has ended is kept current",
        "if not listener.allowed():", "if False:",
        "serve/page/test_broadcast.py",
    ),
]  # fmt: skip


def located(mutant: Mutant, root: Path) -> tuple[Path, str]:
    """The file that holds the mutant's code, and its text with the fault in it."""
    sources = {path: path.read_text(encoding="utf-8") for path in sorted((root / "driftrank").rglob("*.py"))}
    for code, instead in zip(mutant.code.split("||"), mutant.instead.split("||"), strict=True):
        found = [(path, text.count(code)) for path, text in sources.items() if code in text]
        if len(found) > 1 or (found and found[0][1] > 1):
            where = ", ".join(f"{path.relative_to(root)} ({n})" for path, n in found)
            raise Unusable(f"ambiguous code {code!r}: {where}")
        if found:
            path = found[0][0]
            return path, sources[path].replace(code, instead)
    raise Unusable(f"no such code: {mutant.code!r}")


def selection(mutant: Mutant, root: Path) -> list[str]:
    """The arguments of pytest."""
    out = []
    for word in shlex.split(mutant.tests):
        if not word.partition("|")[0].endswith(".py"):
            out.append(word)
            continue
        for end in word.split("|"):
            found = [
                path for path in (root / "tests").rglob("*.py") if f"/{path.relative_to(root)}".endswith(f"/{end}")
            ]
            if len(found) > 1:
                raise Unusable(f"ambiguous tests {end!r}: {', '.join(str(path.relative_to(root)) for path in found)}")
            if found:
                out.append(str(found[0].relative_to(root)))
                break
        else:
            raise Unusable(f"no such tests: {word!r}")
    return out


class Bench:
    """A copy of the tree in which one mutant at a time is tried."""

    def __init__(self, root: Path, timeout: float) -> None:
        self.root, self.timeout = root, timeout
        self.marked = '"interpreted:' in (root / "pyproject.toml").read_text(encoding="utf-8")

    def run(self, arguments: Sequence[str], compiled: bool) -> tuple[str, list[str]]:
        """Run tests; returns the status and the tests that failed, or the end of the output."""
        plugin, failures = self.root.parent / "mutant_report.py", self.root.parent / "failures"
        plugin.write_text(PLUGIN, encoding="utf-8")
        failures.write_text("", encoding="utf-8")
        environment = os.environ | {
            "PYTHONPATH": os.pathsep.join([str(self.root), str(plugin.parent)]),
            "MUTANT_FAILURES": str(failures),
            "NUMBA_DISABLE_JIT": "0" if compiled else "1",
            "DRIFTRANK_CACHE_DIR": str(self.root / ".kernels"),
        }
        shutil.rmtree(self.root / ".hypothesis", ignore_errors=True)  # examples that failed with another mutant
        command = [sys.executable, "-m", "pytest", "-q", "--tb=line", "-p", "no:cacheprovider", "-p", "mutant_report"]
        command += ["--hypothesis-seed=0", *arguments]
        if self.marked:  # the tests of make test; most give the same verdict with kernels as Python, and sooner
            command += ["-m", f"not slow and ({'compiled or not interpreted' if compiled else 'not compiled'})"]
        with subprocess.Popen(
            command, cwd=self.root, env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            start_new_session=True,
        ) as process:  # fmt: skip
            try:
                output, _ = process.communicate(timeout=self.timeout)
            except BaseException as error:
                os.killpg(process.pid, signal.SIGKILL)
                process.communicate()
                if isinstance(error, subprocess.TimeoutExpired):
                    return TIMEOUT, [f"no end after {self.timeout:.0f} s"]
                raise
        failed = failures.read_text(encoding="utf-8").splitlines()
        if failed:
            return CAUGHT, failed
        if process.returncode in (0, 5):  # 5: no test was selected
            return (NONE if process.returncode else ESCAPED), []
        return ERROR, [f"exit code {process.returncode}: {' / '.join(output.strip().splitlines()[-3:])}"]

    def attempt(self, mutant: Mutant) -> Outcome:
        began = time.perf_counter()
        path, text = located(mutant, self.root)
        original = path.read_text(encoding="utf-8")
        try:
            self._write(path, text)
            status = NONE
            for compiled in (mutant.compiled, not mutant.compiled)[: 1 + self.marked]:
                found, detail = self.run(["-x", *selection(mutant, self.root)], compiled)
                status = status if found == NONE else found
                if status not in (NONE, ESCAPED):
                    break
        finally:
            self._write(path, original)
        seconds = round(time.perf_counter() - began, 1)
        if status == NONE:
            status, detail = ERROR, [f"no test is selected by {mutant.tests}"]
        return Outcome(mutant.name, status, "".join(detail[:1]), str(path.relative_to(self.root)), seconds, compiled)

    def _write(self, path: Path, text: str) -> None:
        path.write_text(text, encoding="utf-8")
        for cached in (path.parent / "__pycache__").glob(f"{path.stem}.*.pyc"):
            cached.unlink()  # its key is size and second, which may be the same


def _copy(tree: Path, root: Path) -> None:
    """Copy the files that git does not ignore."""
    command = ["git", "-C", str(tree), "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    for path in subprocess.run(command, check=True, capture_output=True, text=True).stdout.split("\0"):
        if path and (tree / path).is_file():
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(tree / path, root / path)


def run_all(tree: Path, mutants: Sequence[Mutant], jobs: int, timeout: float) -> list[Outcome]:
    """Try all mutants. The tests that caught one must pass without it: otherwise nothing was caught."""
    with tempfile.TemporaryDirectory(prefix="driftrank-mutants-") as folder:
        roots = [Path(folder) / f"copy-{n}" / "driftrank" for n in range(jobs)]
        _copy(tree, roots[0])
        for root in roots[1:]:  # all alike, even if the tree changes meanwhile
            shutil.copytree(roots[0], root)
        benches: queue.SimpleQueue[Bench] = queue.SimpleQueue()
        for root in roots:
            benches.put(Bench(root, timeout))

        def attempt(mutant: Mutant) -> Outcome:
            bench = benches.get()
            try:
                outcome = bench.attempt(mutant)
            except Unusable as error:
                outcome = Outcome(mutant.name, ERROR, str(error))
            finally:
                benches.put(bench)
            print(f"{outcome.status:8}{outcome.name:24}{outcome.seconds:7.1f} s  {outcome.detail}", flush=True)
            return outcome

        with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
            try:
                outcomes = list(pool.map(attempt, mutants))
            except BaseException:
                pool.shutdown(wait=False, cancel_futures=True)
                raise
        return _confirmed(benches.get(), outcomes)


def _confirmed(bench: Bench, outcomes: Sequence[Outcome]) -> list[Outcome]:
    """Run the tests that caught mutants without any mutant; what fails now has caught nothing."""
    out = list(outcomes)
    for compiled in (False, True):
        own = {n: o.detail for n, o in enumerate(outcomes) if (o.status, o.compiled) == (CAUGHT, compiled)}
        if not own:
            continue
        status, failed = bench.run(sorted(set(own.values())), compiled)
        print(f"{len(set(own.values()))} tests without a mutant: {', '.join(failed) or 'passed'}")
        for n, test in own.items():
            if status != ESCAPED and (status != CAUGHT or test in failed):
                out[n] = replace(outcomes[n], status=ERROR, detail=f"fails without a mutant: {test}")
    return out


def page(mutants: Sequence[Mutant], outcomes: Mapping[str, Outcome], before: Mapping[str, Outcome]) -> str:
    """The outcomes as a page of Markdown."""
    caught = sum(outcomes[mutant.name].status == CAUGHT for mutant in mutants)
    earlier = sum(mutant.name in before and before[mutant.name].status == CAUGHT for mutant in mutants)
    head = ["mutant", "fault", "file", *(["before"] if before else []), "now", "caught by", "run at"]
    lines = [
        "# Mutants",
        "",
        "Small faults put into the code one at a time, and the first test of `make test` that fails with each (made by",
        f"`python benchmarks/mutants.py --json FILE --markdown FILE`): {caught} of {len(mutants)} are caught"
        + (f"; before, it was {earlier}." if before else "."),
        "",
        f"| {' | '.join(head)} |",
        "|---" * len(head) + "|",
    ]
    for mutant in mutants:
        outcome = outcomes[mutant.name]
        was = [before[mutant.name].status.lower() if mutant.name in before else "-"] if before else []
        detail = f"`{outcome.detail.removeprefix('tests/')}`" if outcome.status == CAUGHT else outcome.detail
        row = [mutant.name, mutant.fault, f"`{outcome.file}`", *was, outcome.status.lower(), detail, outcome.commit]
        lines.append(f"| {' | '.join(cell.replace('|', '&#124;') for cell in row)} |")
    lines += ["", "*Run at* is the commit with which a mutant was last run; `mutants.json` has the same outcomes."]
    missing = [mutant.name for mutant in MUTANTS if mutant.name not in outcomes]
    if missing:
        lines += ["", f"Not run yet: {', '.join(missing)}."]
    return "\n".join(lines) + "\n"


def main() -> int:
    parser = argparse.ArgumentParser(description="Put small faults into the code and see that the tests catch them.")
    here = Path(__file__).resolve().parents[1]
    parser.add_argument("--tree", type=Path, default=here, help="a checkout of driftrank (default: this one)")
    parser.add_argument("--only", action="append", metavar="NAME", help="this mutant; may be repeated")
    parser.add_argument("--list", action="store_true", help="list the mutants; fail if one no longer fits")
    parser.add_argument("--jobs", type=int, default=2, help="processes at a time (default: 2)")
    parser.add_argument("--timeout", type=float, default=600.0, help="seconds for the tests of a mutant (default: 600)")
    parser.add_argument("--before", type=Path, metavar="JSON", help="outcomes of another version, to compare with")
    parser.add_argument("--json", type=Path, help="write the outcomes to this file, beside those of others")
    parser.add_argument("--markdown", type=Path, help="write the outcomes to this file as a page")
    options = parser.parse_args()
    unknown = set(options.only or ()) - {mutant.name for mutant in MUTANTS}
    if unknown:
        parser.error(f"--only {', '.join(sorted(unknown))}: no such mutant; --list shows them")
    chosen = [mutant for mutant in MUTANTS if options.only is None or mutant.name in options.only]
    tree = options.tree.resolve()
    if options.list:
        return _list(chosen, tree)
    before = _read(options.before) if options.before else {}
    outcomes = {outcome.name: outcome for outcome in run_all(tree, chosen, options.jobs, options.timeout)}
    known = _read(options.json) if options.json and options.json.exists() else {}
    commit = _commit(tree)
    known |= {name: replace(outcome, commit=commit) for name, outcome in outcomes.items()}
    if options.json:
        options.json.write_text(json.dumps([asdict(outcome) for outcome in known.values()], indent=1) + "\n")
    if options.markdown:
        there = [mutant for mutant in MUTANTS if mutant.name in known]
        options.markdown.write_text(page(there, known, before), encoding="utf-8")
    count = Counter(outcome.status for outcome in outcomes.values())
    print(f"{len(chosen)} mutants: {', '.join(f'{n} {status}' for status, n in sorted(count.items()))}")
    lost = [name for name, o in outcomes.items() if o.status == ESCAPED and before.get(name, o).status != ESCAPED]
    if lost:
        print(f"caught before, and not now: {', '.join(lost)}")
    return int(count[CAUGHT] < len(chosen))


def _commit(tree: Path) -> str:
    """The commit of a tree; empty without git."""
    command = ["git", "-C", str(tree), "rev-parse", "--short", "HEAD"]
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()


def _read(path: Path) -> dict[str, Outcome]:
    return {row["name"]: Outcome(**row) for row in json.loads(path.read_text(encoding="utf-8"))}


def _list(mutants: Iterable[Mutant], tree: Path) -> int:
    failed = 0
    for mutant in mutants:
        try:
            place = f"{located(mutant, tree)[0].relative_to(tree)} [{' '.join(selection(mutant, tree))}]"
        except Unusable as error:
            failed, place = 1, f"{ERROR}: {error}"
        print(f"{mutant.name:24}{mutant.fault}\n{'':24}{place}")
    return failed


if __name__ == "__main__":
    sys.exit(main())
