"""Python that runs one block after the other: a JSON text in, what it printed and what went wrong out."""

from __future__ import annotations

import contextlib
import io
import json
import sys
import traceback
from typing import Any


def main() -> None:
    names: dict[str, Any] = {"__name__": "__main__"}
    for line in sys.stdin:
        printed = io.StringIO()
        error = None
        with contextlib.redirect_stdout(printed):
            try:
                exec(compile(json.loads(line), "page", "exec"), names)
            except BaseException:
                error = traceback.format_exc()
        print(json.dumps([printed.getvalue(), error]), flush=True)


if __name__ == "__main__":
    main()
