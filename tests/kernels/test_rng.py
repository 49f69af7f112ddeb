"""Keys are fixed, so these tests are deterministic; bounds are five standard deviations."""

from __future__ import annotations

import ast
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

import driftrank
from driftrank.kernels import distributions, rng
from driftrank.kernels.compile import specialise

KEY = np.uint64(rng.run_key(7, "some query", 3))


def keys_below(key, out):
    """out[i, j] = the j-th key below the i-th key below ``key``."""
    for i in range(out.shape[0]):
        above = DERIVE(key, i)  # noqa: F821
        for j in range(out.shape[1]):
            out[i, j] = DERIVE(above, j)  # noqa: F821


def one_argument(keys, out):
    for i in range(keys.shape[0]):
        out[i] = FUNCTION(keys[i])  # noqa: F821


def two_arguments(keys, a, out):
    for i in range(keys.shape[0]):
        out[i] = FUNCTION(keys[i], a)  # noqa: F821


def three_arguments(keys, a, b, out):
    for i in range(keys.shape[0]):
        out[i] = FUNCTION(keys[i], a, b)  # noqa: F821


TEMPLATES = {0: one_argument, 1: two_arguments, 2: three_arguments}


def draws(function, keys, *arguments):
    out = np.empty(len(keys))
    specialise(TEMPLATES[len(arguments)], {"FUNCTION": function})(keys, *arguments, out)
    return out


@pytest.fixture(scope="module")
def tree():
    """The keys of 20,000 steps, 8 items each."""
    out = np.empty((20_000, 8), np.uint64)
    specialise(keys_below, {"DERIVE": rng.derive})(KEY, out)
    return out


@pytest.fixture(scope="module")
def keys(tree):
    return tree.ravel()


@pytest.fixture(scope="module")
def uniforms(tree):
    return draws(rng.uniform, tree.ravel()).reshape(tree.shape)


def independent(x, y):
    """Correlation within five standard errors of 0, and no pattern on a grid of 16 x 16."""
    x, y = x.ravel(), y.ravel()
    assert abs(np.corrcoef(x, y)[0, 1]) < 5 / np.sqrt(len(x))
    counts, _, _ = np.histogram2d(x, y, bins=16, range=[[0, 1], [0, 1]])
    assert stats.chisquare(counts.ravel()).pvalue > 1e-4


@pytest.mark.parametrize("parent", rng.RESERVED)
def test_reserved_branches_are_distinct(parent):
    branches = [int(branch) for branch in rng.RESERVED[parent]]
    assert len(set(branches)) == len(branches)


def test_reserved_branches_of_a_policy_are_no_tokens():
    assert min(map(int, rng.RESERVED["policy"])) >= 2**63


def test_reserved_branches_have_the_values_that_results_depend_on():
    """Another value would change every number drawn below it."""
    assert (rng.USERS, rng.POLICY, rng.WORLD, rng.FIRST_LEVELS) == (1, 2, 3, 2**62)
    assert [int(branch) - 2**64 for branch in rng.RESERVED["policy"]] == [-(2**63), -6, -5, -4, -3, -2, -1]
    assert int(rng.NEXT_TRY) == int(rng.GAMMA_FACTOR) == 2**64 - 1


def test_fixed_branches_are_defined_in_one_place():
    """In the whole package, ``derive(key, CONSTANT)`` takes a constant of ``kernels.rng``."""
    names = {name for name in vars(rng) if name.isupper()}
    for path in Path(driftrank.__file__).parent.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "derive":
                used = {n.id for n in ast.walk(node.args[1]) if isinstance(n, ast.Name)}
                assert {name for name in used if name.isupper() and len(name) > 1} <= names, path  # K, L are sizes


def test_uniform_is_uniform(uniforms):
    assert uniforms.min() >= 0
    assert uniforms.max() < 1
    assert stats.kstest(uniforms.ravel(), "uniform").pvalue > 1e-3
    for item in range(uniforms.shape[1]):
        assert stats.kstest(uniforms[:, item], "uniform").pvalue > 1e-4
    counts = np.bincount((uniforms.ravel() * 1024).astype(int), minlength=1024)
    assert stats.chisquare(counts).pvalue > 1e-3


def test_largest_and_smallest_uniform():
    assert draws(rng.uniform, np.array([0, 2**64 - 1], np.uint64)).tolist() == [0.0, 1 - 2**-53]


def test_all_bits_are_fair(tree):
    bits = np.unpackbits(tree.ravel().view(np.uint8).reshape(-1, 8), axis=1)
    n = len(bits)
    assert np.abs(bits.mean(axis=0) - 0.5).max() < 5 * 0.5 / np.sqrt(n)
    # and do not depend on each other
    correlation = np.corrcoef(bits, rowvar=False, dtype=np.float32) - np.eye(64)
    assert np.abs(correlation).max() < 5.5 / np.sqrt(n)


def test_neighbours_are_independent(uniforms):
    independent(uniforms[:, :-1], uniforms[:, 1:])  # items
    independent(uniforms[:-1], uniforms[1:])  # steps
    independent(uniforms[:-2, :-1], uniforms[2:, 1:])
    independent(uniforms[:-1, 1:], uniforms[1:, :-1])  # the same sum of step and item


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ((7, "q", 3), (7, "q", 4)),
        ((7, "q", 3), (8, "q", 3)),
        ((7, "q", 3), (8, "q", 2)),
        ((7, "q", 3), (7, "r", 3)),
    ],
)
def test_runs_seeds_and_queries_are_independent(one, other):
    pair = []
    for where in (one, other):
        out = np.empty((20_000, 2), np.uint64)
        specialise(keys_below, {"DERIVE": rng.derive})(np.uint64(rng.run_key(*where)), out)
        pair.append(draws(rng.uniform, out.ravel()))
    independent(*pair)
    assert not np.isin(pair[0], pair[1]).any()


def test_purposes_are_independent():
    run = rng.run_key(0, "", 0)
    out = np.empty((20_000, 4), np.uint64)
    specialise(keys_below, {"DERIVE": rng.derive})(np.uint64(run), out)
    assert [rng.policy_key(run, t) for t in (1, 2)] == [int(out[t, rng.POLICY]) for t in (1, 2)]
    assert int(rng.world_keys(np.array([run], np.uint64))[0]) == int(out[0, rng.WORLD])
    users, policy = (draws(rng.uniform, out[1:, purpose].copy()) for purpose in (rng.USERS, rng.POLICY))
    independent(users, policy)


def test_keys_are_distinct(tree):
    assert len(np.unique(tree)) == tree.size


def test_below(keys):
    for n in (1, 2, 7):
        drawn = draws(rng.below, keys, n).astype(int)
        counts = np.bincount(drawn, minlength=n)
        assert len(counts) == n
        assert n == 1 or stats.chisquare(counts).pvalue > 1e-4
    assert draws(rng.below, np.array([2**64 - 1], np.uint64), 3) == 2  # never n itself


def test_ziggurat_covers_the_curve_with_layers_of_equal_area():
    width, height = distributions._WIDTH, distributions._HEIGHT
    area = width[1:] * np.diff(np.append(height[1:], 1.0))
    assert np.allclose(area, distributions._AREA, rtol=1e-6)
    tail = np.sqrt(2 * np.pi) * stats.norm.sf(distributions._EDGE)
    assert distributions._EDGE * height[1] + tail == pytest.approx(distributions._AREA, rel=1e-6)


def test_normal_tail(keys):
    """Numbers beyond the ziggurat's edge have the right frequency and distribution."""
    z = np.abs(draws(distributions.normal, keys))
    edge = 2.0  # far enough out to need wedges and tail, near enough to be seen
    beyond = z[z > edge]
    expected = 2 * stats.norm.sf(edge) * len(z)
    assert abs(len(beyond) - expected) < 5 * np.sqrt(expected)
    assert stats.kstest(beyond, stats.truncnorm(edge, np.inf).cdf).pvalue > 1e-3
    some = draws(distributions.normal, keys & ~np.uint64(0xFF) | np.uint64(0))  # the lowest layer only
    tail = np.abs(some)[np.abs(some) > distributions._EDGE]
    assert len(tail) > 100
    assert stats.kstest(tail, stats.truncnorm(distributions._EDGE, np.inf).cdf).pvalue > 1e-3


def test_normal(keys):
    z = draws(distributions.normal, keys)
    assert stats.kstest(z, "norm").pvalue > 1e-3
    assert abs(z.mean()) < 5 / np.sqrt(len(z))
    assert abs(z.var() - 1) < 5 * np.sqrt(2 / len(z))
    assert np.isfinite(draws(distributions.normal, np.array([0, 2**64 - 1], np.uint64))).all()


def test_inner_uniform(keys):
    u = draws(distributions.inner_uniform, keys)
    assert stats.kstest(u, "uniform").pvalue > 1e-3
    assert stats.kstest(-np.log(-np.log(u)), stats.gumbel_r.cdf).pvalue > 1e-3
    ends = draws(distributions.inner_uniform, np.array([0, 2**64 - 1], np.uint64))
    assert ends.tolist() == [2.0**-53, 1 - 2.0**-53]


@pytest.mark.parametrize("shape", [0.05, 0.5, 0.999, 1.0, 1.5, 7.0, 300.0, 1e4, 1e8])
def test_gamma(keys, shape):
    x = draws(distributions.gamma, keys, shape)
    assert (x >= 0).all()
    assert stats.kstest(x, stats.gamma(shape).cdf).pvalue > 1e-3
    assert abs(x.mean() - shape) < 5 * np.sqrt(shape / len(x))


@pytest.mark.parametrize(
    ("a", "b"), [(1.0, 1.0), (0.5, 0.5), (0.1, 3.0), (2.0, 1.0), (3.5, 200.0), (1e4, 2e4), (1.0, 1e6)]
)
def test_beta(keys, a, b):
    x = draws(distributions.beta, keys, a, b)
    assert (x >= 0).all()
    assert (x <= 1).all()
    assert stats.kstest(x, stats.beta(a, b).cdf).pvalue > 1e-3


def test_beta_of_shapes_too_small_for_numbers(keys):
    x = draws(distributions.beta, keys, 0.001, 0.002)  # nearly a coin with probability 1/3
    assert not np.isnan(x).any()
    assert abs(x.mean() - 1 / 3) < 5 * np.sqrt(2 / 9 / len(x))
    assert ((x < 1e-6) | (x > 1 - 1e-6)).mean() > 0.9


def test_beta_of_neighbouring_items_is_independent(tree):
    x = stats.beta(3, 5).cdf(draws(distributions.beta, tree.ravel(), 3.0, 5.0)).reshape(tree.shape)
    independent(x[:, :-1], x[:, 1:])
    independent(x[:-1], x[1:])


def test_values_that_must_not_change():
    """To the last bit: a saved learner continues unchanged, and published results can be repeated."""
    assert rng.key_of("some query") == 10656700981871710306
    assert rng.run_key(0, "", 0) == 8367969571470473568
    assert rng.run_key(7, "some query", 3) == 16262785172658724839
    assert rng.policy_key(123, 45) == 10967883970839711954
    assert rng.world_keys(np.array([123], np.uint64)).tolist() == [9378882713119295057]
    some = np.array([1, 2**63, int(KEY)], np.uint64)
    assert draws(rng.uniform, some).tolist() == [0.0, 0.5, 0.8816073507430818]
    assert draws(distributions.normal, some).tolist() == [0.0, 1.9553789797685452, -0.6603738591144527]
    assert draws(distributions.gamma, some, 0.5).tolist() == [
        0.2250209013543117,
        0.020028315652577337,
        0.0012068729454480765,
    ]
    assert draws(distributions.gamma, some, 7.5).tolist() == [8.94786743499072, 6.528031757232079, 9.427909729368272]
    assert draws(distributions.beta, some, 2.0, 3.0).tolist() == [
        0.3272321239010767,
        0.15309723180448362,
        0.48518425953065686,
    ]


def test_seeds_and_runs_that_are_none():
    for seed, run, message in [(-1, 0, "seed=-1"), (0, -1, "run=-1"), (2**64, 0, "seed="), (0.5, 0, "seed=0.5")]:
        with pytest.raises(ValueError, match=message):
            rng.run_key(seed, "", run)
    assert rng.run_key(2**64 - 1, "", 0) != rng.run_key(0, "", 0)


@pytest.mark.parametrize("seed", range(5))
def test_keys_made_without_the_compiler_are_the_kernels(seed):
    """Python's integers, masked, are the same 64 bits."""
    generator = np.random.default_rng(seed)
    n = generator.integers(0, 2**64, 200, np.uint64, endpoint=False)
    n[:4] = 0, 1, 2**63, 2**64 - 1
    out = np.empty((200, 200), np.uint64)
    specialise(branches, {"DERIVE": rng.derive})(n, out)
    for i in range(0, 200, 7):
        for j in range(4 + i % 7, 200, 7):
            assert rng._branch(int(n[i]), int(n[j])) == int(out[i, j])
    key = rng.run_key(3, "shoes", 4)
    assert key == int(rng.run_keys(3, "shoes", [4])[0])
    assert rng.policy_key(key, 2**64 - 1) == rng._branch(rng._branch(key, 2**64 - 1), rng.POLICY)


def branches(keys, out):
    for i in range(keys.shape[0]):
        for j in range(keys.shape[0]):
            out[i, j] = DERIVE(keys[i], keys[j])  # noqa: F821


def test_numbers_of_a_list_are_apart_from_those_of_items() -> None:
    keys = [np.uint64(rng.policy_key(5, t)) for t in range(1, 400)]
    first, second = (np.array([rng.list_uniform(key, n) for key in keys]) for n in (0, 1))
    items = np.array([rng.uniform(rng.derive(key, 0)) for key in keys])
    assert [rng.list_uniform(keys[7], 0)] == [first[7]]  # the same in every call
    for one, other in ((first, second), (first, items), (second, items)):
        assert abs(np.corrcoef(one, other)[0, 1]) < 5 / np.sqrt(len(keys))
    assert 0.4 < first.mean() < 0.6
