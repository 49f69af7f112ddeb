"""As much of curl as pages use, for machines that have none. What it does not know it refuses."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import httpx


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="curl", allow_abbrev=False)
    parser.add_argument("url")
    parser.add_argument("-s", "--silent", action="store_true")
    parser.add_argument("-i", "--include", action="store_true")
    parser.add_argument("-X", "--request")
    parser.add_argument("-H", "--header", action="append", default=[])
    parser.add_argument("--json")
    parser.add_argument("-o", "--output")
    parser.add_argument("-w", "--write-out", default="")
    given = parser.parse_args(arguments)
    body = None
    if given.json is not None:
        body = Path(given.json[1:]).read_bytes() if given.json.startswith("@") else given.json.encode()
    headers = dict(header.split(": ", 1) for header in given.header)
    if body is not None:
        headers |= {"Content-Type": "application/json", "Accept": "application/json"}
    method = given.request or ("GET" if body is None else "POST")
    answer = httpx.request(method, given.url, content=body, headers=headers, timeout=120)
    if given.include:
        print(f"HTTP/1.1 {answer.status_code} {answer.reason_phrase}", end="\r\n")
        for name, value in answer.headers.items():
            print(f"{name}: {value}", end="\r\n")
        print(end="\r\n", flush=True)
    if given.output:
        Path(given.output).write_bytes(answer.content)
    else:
        sys.stdout.buffer.write(answer.content)
    told = given.write_out.replace("\\n", "\n").replace("%{http_code}", str(answer.status_code))
    sys.stdout.buffer.write(told.encode())
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
