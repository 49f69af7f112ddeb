# %% [markdown]
# # A researcher's first hour
#
# From a first simulation to a result that you could defend: paired comparisons, a sweep of a parameter on other seeds
# than those that are reported, and a run that can be repeated to the last bit.

# %%
import driftrank as dr

# %% [markdown]
# ## Users who change
#
# Five queries with ten items each. Every 2,000 steps three unattractive items become attractive, or everything is as
# before. `attraction` is the truth, which no policy sees.

# %%
env = dr.environments.Abrupt(dr.queries.yandex_like(5, seed=0), k=3, period=2_000)
print(env.breakpoints(10_000))
print(env.attraction(2_000).round(2), env.attraction(2_001).round(2))

# %% [markdown]
# ## Three policies, the same users
#
# CascadeKLUCB assumes that nothing changes, CascadeSWUCB forgets by a window, and the default policy looks for changes.

# %%
policies = [dr.CascadeKLUCB(), dr.CascadeSWUCB(), dr.default_policy()]
result = dr.simulate(policies, env, horizon=10_000, runs=4, seed=1, progress=False)
print(result.table())

# %% [markdown]
# Users are random numbers that depend on seed, query, run and step, and not on what a policy did. All policies meet the
# same users, so differences are far more certain than the regret of either.

# %%
difference, error = result.compare("PriorRegimeTS", "CascadeSWUCB")
print(f"PriorRegimeTS has {-difference:.0f} ± {error:.0f} less regret than CascadeSWUCB")
assert difference < -2 * error

# %% [markdown]
# A stationary policy is better until the first change, and pays for it afterwards.

# %%
for name in ("CascadeKLUCB", "CascadeSWUCB"):
    print(name, round(result.regret(name, 0, 2_000)), round(result.regret(name, 2_000, 10_000)))
assert result.regret("CascadeKLUCB", 0, 2_000) < result.regret("CascadeSWUCB", 0, 2_000)

# %% [markdown]
# ## Was the rival tuned fairly?
#
# The window of CascadeSWUCB is a parameter. Choose it on one seed, and report on another: tuning on the runs that are
# reported measures luck.

# %%
swept = dr.sweep("CascadeSWUCB:window=geom(100,3000,4)", env, horizon=10_000, runs=2, seed=2, progress=False)
best = swept.best()
print(best.spec, f"{best.regret:.0f} ± {best.error:.0f}, by itself {best.reference:.0f}")

# %%
fair = dr.simulate([best.make(), dr.default_policy()], env, horizon=10_000, runs=4, seed=1, progress=False)
difference, error = fair.compare("PriorRegimeTS", best.spec)
print(f"against the tuned one: {difference:.0f} ± {error:.0f}")

# %% [markdown]
# ## Repeat it
#
# A result has its environment and its seed. The same runs again give the same numbers, on any machine, with any number
# of cores, on a GPU or a cluster.

# %%
again = result.repeat(threads=1, progress=False)
assert (again.values == result.values).all()

# %% [markdown]
# Next: [add a policy of your own](../how-to/add-a-policy.md), [sweep parameters](../how-to/sweep.md), or read [how the
# leaderboard is made](../explanation/leaderboard.md).
