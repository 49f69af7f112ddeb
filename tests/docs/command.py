"""What ``driftrank`` is in a session: ``serve`` goes to the background, everything else is as it is."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

#: runs a command, and says who it is and how it ended: whoever started it need not be there any more by then
_WATCHED = '"$@" & echo $! > "$SESSION/server.pid"; wait $!; echo $? > "$SESSION/server.ended"'


def main(arguments: list[str]) -> int:
    command = [sys.executable, "-m", "driftrank", *arguments]
    if arguments[:1] != ["serve"] or "--help" in arguments:
        return subprocess.call(command)
    folder = Path(os.environ["SESSION"])
    pid, ended, said, log = (folder / f"server.{name}" for name in ("pid", "ended", "out", "log"))
    if pid.exists() and not ended.exists():  # as Ctrl-C does
        os.kill(int(pid.read_text()), signal.SIGTERM)
        while not ended.exists():
            time.sleep(0.02)
    for file in (pid, ended, said):
        file.unlink(missing_ok=True)
    before = log.stat().st_size if log.exists() else 0
    with said.open("w") as out, log.open("a") as err:
        subprocess.Popen(
            ["sh", "-c", _WATCHED, "sh", *command], stdout=out, stderr=err, stdin=subprocess.DEVNULL,
            start_new_session=True,
        )  # fmt: skip
    while "listens on" not in said.read_text():
        if ended.exists():
            print(log.read_text()[before:], end="", file=sys.stderr)
            return int(ended.read_text() or 1)
        time.sleep(0.02)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
