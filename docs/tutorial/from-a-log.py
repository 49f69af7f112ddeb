# %% [markdown]
# # From a log to a decision
#
# You have a log of lists and clicks, and two questions: would another order earn more, and would a policy that learns
# by itself?

# %%
import driftrank as dr
from driftrank.fitting.fit import fit_log

# %% [markdown]
# ## A log
#
# Here one is generated: 8,000 lists in random order. Yours may be a Parquet file, CSV, or the store of the service
# ([all formats](../how-to/learn-your-users.md)).

# %%
queries = dr.queries.Queries.of({"tea": [0.35, 0.25, 0.15, 0.1], "hats": [0.1, 0.2, 0.05, 0.3]})
users = dr.environments.Stationary(queries, k=2)
dr.logs.generate("log.parquet", users, lists=8_000, length=2, seed=1)
log = dr.logs.open_log("log.parquet")
print(log.count(), "lists")

# %% [markdown]
# ## Is it sound?
#
# Duplicates, clicks on items that were not shown, clocks that jump: a check comes before any estimate.

# %%
found = dr.logs.check(log)
print(found.counts)
assert not found.report.counts, "rows that cannot be used"

# %% [markdown]
# ## How do these users read?
#
# Click models are fitted to the first part of the log, and compared on lists that came later.

# %%
fitted = fit_log(log, "CM,PBM")
print(fitted.table())
print("best:", fitted.best)

# %% [markdown]
# ## What would other lists have earned?
#
# The log has propensities, since its lists were shuffled, so the value of other lists can be estimated, with an
# interval. If it could not be, the result would say so instead of giving a number.

# %%
better = {"tea": [1000, 1001], "hats": [2003, 2001]}
result = dr.evaluate("log.parquet", [better, "best-now"])
target = result["rankings"]
print(f"{target.value:.3f} clicks a list, between {target.low:.3f} and {target.high:.3f}; grade {target.grade}")
print("against the logged lists:", target.difference)
assert target.difference is not None

# %% [markdown]
# ## Would a policy that learns pay off?
#
# Simulate the users of the log: with few lists per query learning may cost more than it earns.

# %%
world = dr.logs.environment(log, k=2)
policies = [dr.default_policy(), dr.CascadeKLUCB(), dr.Random()]
simulated = dr.simulate(policies, world, horizon=4_000, runs=2, progress=False)
print(simulated.table())
lost = simulated.regret("PriorRegimeTS") / 4_000
print(f"the default policy loses {lost:.3f} clicks a list to the best order, a random order much more")
assert simulated.regret("PriorRegimeTS") < simulated.regret("Random") / 3

# %% [markdown]
# ## Decide
#
# The better lists are certain to earn more than those of the log: show them. If users change, or items come and go, let
# a policy do it, [in the shadow of your present order first](../how-to/shadow-then-live.md), or [as an
# experiment](../how-to/run-an-experiment.md).
