# %% [markdown]
# # An engineer's first hour
#
# A service that learns from clicks, as your application would use it: rank, show, report clicks, look inside, kill it,
# and go on. Everything runs on this machine.

# %%
import os
import random
import socket
import subprocess
import sys
import time
from pathlib import Path

from driftrank.client import Client

# %% [markdown]
# ## Start it
#
# In a shell this is `driftrank serve`. It keeps everything in one file, `driftrank.db`, in the current folder.

# %%
with socket.socket() as probe:
    probe.bind(("127.0.0.1", 0))
    port = str(probe.getsockname()[1])


def start() -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "driftrank", "serve"]
    with open("server.log", "wb") as log:
        server = subprocess.Popen(command, env=os.environ | {"DRIFTRANK_PORT": port}, stdout=log, stderr=log)
    while "listens on" not in Path("server.log").read_text():
        assert server.poll() is None, Path("server.log").read_text()
        time.sleep(0.1)
    return server


server = start()
client = Client(f"http://127.0.0.1:{port}")

# %% [markdown]
# ## Rank, and report what was clicked
#
# Send the candidates in the order in which you would show them. While nothing is known, they come back in that order.
# With `fallback=True` a page never fails because of the service.

# %%
shelf = ["trail", "road", "track", "sandal", "boot"]
ranking = client.rank("running shoes", shelf, k=3, fallback=True)
print([item.id for item in ranking.items])
client.feedback(ranking.event_id, clicks=[])

# %% [markdown]
# Visitors who want boots: they read from the top, and click what attracts them.

# %%
taste = {"trail": 0.1, "road": 0.15, "track": 0.1, "sandal": 0.05, "boot": 0.7}
visitors = random.Random(7)


def visit() -> list[str]:
    """Show one list to a visitor; return what was shown."""
    shown = client.rank("running shoes", shelf, k=3)
    clicked = next(([item.id] for item in shown.items if visitors.random() < taste[str(item.id)]), [])
    client.feedback(shown.event_id, clicks=clicked)
    return [str(item.id) for item in shown.items]


deadline = time.monotonic() + 120  # the very first start compiles the policy; until then lists are your own order
while [visit()[0] for _ in range(30)].count("boot") < 20:
    assert time.monotonic() < deadline
print(visit())

# %% [markdown]
# ## Look inside
#
# Estimates with the number of observations behind them, and the prior that came from your order.

# %%
for item in client.query("running shoes").items:
    print(item.id, round(item.estimate or 0, 2), round(item.samples or 0))

# %% [markdown]
# ## Kill it
#
# An acknowledged click is on disk. After `kill -9` the service replays its log and knows what it knew. The client sends
# clicks in the background, so that no page waits for them; `flush` waits until all are acknowledged.

# %%
client.flush()
before = client.query("running shoes").steps
server.kill()
server.wait()
server = start()
assert client.query("running shoes").steps == before
print(f"{before} lists are still known")

# %% [markdown]
# ## Visitors change their minds
#
# Boots are out, sandals are in. The policy notices, and reports the change.

# %%
taste |= {"boot": 0.05, "sandal": 0.7}
for _ in range(400):
    visit()
client.flush()
print(visit(), "changes found:", client.query("running shoes").changes)
assert visit()[0] == "sandal"

# %%
client.close()
server.terminate()
server.wait()

# %% [markdown]
# Next: [compare it with your present order](../how-to/shadow-then-live.md) before you rely on it, and [operate
# it](../how-to/operate.md).
