"""The Yandex log read line by line in plain Python, straight from the description of the format."""

from __future__ import annotations

import re


def read(data: bytes) -> tuple[list[tuple], dict[str, list[int]]]:
    """Rows (query, time, ranking, clicks, user, region, line), and the lines of every kind of problem."""
    lines = re.split(rb"\r\n|\n|\r", data)
    if not lines[-1]:
        lines.pop()
    rows: list[tuple] = []
    problems: dict[str, list[int]] = {}
    session, clock, lists, lost_list, lost_somewhere = None, -1, [], False, False

    def enter(new: int) -> None:
        nonlocal session, clock, lists, lost_list, lost_somewhere
        if new != session:
            session, clock, lists, lost_list = new, -1, [], lost_somewhere
        lost_somewhere = False

    for number, line in enumerate(lines, 1):
        wrong = None
        fields = line.split(b"\t")
        action = fields[2] if len(fields) > 2 else b""
        if not line:
            problems.setdefault("blank", []).append(number)
            continue
        if not utf8(line):
            wrong = "encoding"
        elif len(fields) < 3:
            wrong = "fields"
        elif action not in (b"Q", b"C"):
            wrong = "action"
        elif None in map(integer, fields[:2]):
            wrong = "number"
        elif (action == b"C" and len(fields) != 4) or (action == b"Q" and len(fields) < 5):
            wrong = "fields"
        elif action == b"Q" and len(fields) != 15:
            wrong = "urls"
        elif None in map(integer, fields[3:]):
            wrong = "number"
        elif action == b"Q" and len({int(f) for f in fields[5:]}) < 10:
            wrong = "repeated"
        who = integer(fields[0])
        if who is not None:
            enter(who)
        if wrong:
            problems.setdefault(wrong, []).append(number)
            if action == b"Q" or (action != b"C" and len(fields) > 4):
                lists, lost_list, lost_somewhere = [], True, who is None
            continue
        time, what = int(fields[1]), int(fields[3])
        if time < clock:
            problems.setdefault("backwards", []).append(number)
        clock = time
        if action == b"Q":
            if len(lists) == 1000:
                problems.setdefault("endless", []).append(number)
                lists = []
            row = (what, len(rows) + 1, [int(f) for f in fields[5:]], [], who, int(fields[4]), number)
            rows.append(row)
            lists.append(row)
            continue
        for row in reversed(lists):
            if what in row[2]:
                row[3].append(row[2].index(what) + 1)
                break
        else:
            shown = any(row[4] == who and row[6] >= began for row in rows for began in [session_began(lines, number)])
            kind = "consequence" if lost_list else "unshown" if shown else "early"
            problems.setdefault(kind, []).append(number)
    return rows, problems


def session_began(lines: list[bytes], number: int) -> int:
    """The first line of the run of lines of one session; lines of no readable session are of any."""
    who = integer(lines[number - 1].split(b"\t")[0])
    while number > 1:
        before = integer(lines[number - 2].split(b"\t")[0])
        if before is not None and before != who:
            break
        number -= 1
    return number


def integer(field: bytes) -> int | None:
    good = re.fullmatch(rb"[0-9]{1,19}", field) and int(field) < 2**63
    return int(field) if good else None


def utf8(line: bytes) -> bool:
    try:
        line.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True
