"""Templates that parse the Yandex log: lines of bytes to columns of integers."""

# mypy: ignore-errors

from __future__ import annotations

from driftrank.kernels import kernel

# indices into ``state``
SESSION, TIME, LINE = 0, 1, 2  #: of the last line that could be used; the number of lines so far
LISTS, CLICKS = 3, 4  #: numbers of lists and clicks in the columns
OPEN, OPEN_CLICKS = 5, 6  #: the first list that may still be clicked, and the first click on these
SEEN = 7  #: the session has had a list
BARRED = 8  #: the session has had a list that could not be used
ORPHAN = 9  #: a list that could not be used, of an unknown session
SKIPPING = 10  #: in the middle of a line too long to be kept
STATE = 11

#: kinds of problems, by number
KINDS = (
    "fields", "urls", "number", "encoding", "action", "repeated", "unshown", "early", "consequence", "backwards",
    "endless", "blank",
)  # fmt: skip
FIELDS, URLS, NUMBER, ENCODING, ACTION, REPEATED, UNSHOWN, EARLY, CONSEQUENCE, BACKWARDS, ENDLESS, BLANK = range(12)

#: URLs of a list
TEN = 10
#: lists of a session that a click is searched in
MANY = 1000
#: longer lines, in bytes, are not kept in memory
LONG = 1 << 20

TAB, NEWLINE, RETURN, Q, C = 9, 10, 13, 81, 67


def parse(
    buffer, end, final, state, user, query, region, line, urls, click_list, click_position, counts, examples, keep
):  # fmt: skip
    """Read lines until the buffer ends or a column is full; returns the start of the first unread line.

    If ``final``, no more bytes follow and the last line needs no line end. ``counts`` and at most ``keep`` ``examples``
    (line number, start and end in the buffer) are filled in by kind of problem.
    """
    at = 0
    while at < end and state[LISTS] < query.shape[0] and state[CLICKS] < click_list.shape[0]:
        stop = at
        while stop < end and buffer[stop] != NEWLINE and buffer[stop] != RETURN:
            stop += 1
        # a carriage return may be half of a line end
        unfinished = not final and (stop == end or (buffer[stop] == RETURN and stop + 1 == end))
        if state[SKIPPING] == 0:
            if unfinished and stop - at <= LONG:
                return at
            state[LINE] += 1
            marks = _read(buffer, at, stop, state, user, query, region, line, urls, click_list, click_position)
            if marks < 0:
                marks = _unusable(buffer, at, min(stop, at + LONG), state)
            kind = 0
            while marks > 0:
                if marks & 1:
                    if counts[kind] < keep:
                        examples[kind, counts[kind], 0] = state[LINE]
                        examples[kind, counts[kind], 1] = at
                        examples[kind, counts[kind], 2] = min(stop, at + LONG)
                    counts[kind] += 1
                marks >>= 1
                kind += 1
        state[SKIPPING] = 0
        if unfinished:  # the rest of a line that is too long is skipped
            state[SKIPPING] = 1
            return stop
        at = stop + 1
        if at < end and buffer[stop] == RETURN and buffer[at] == NEWLINE:
            at += 1
    return at


def arrange(click_list, click_position, clicks, offsets, positions):
    """Group clicks by list, in the order of clicking; ``offsets`` is 0 at first."""
    lists = offsets.shape[0] - 1
    for i in range(clicks):
        offsets[click_list[i] + 1] += 1
    for i in range(lists):
        offsets[i + 1] += offsets[i]
    # every offset advances to the next one while its list is filled
    for i in range(clicks):
        row = click_list[i]
        positions[offsets[row]] = click_position[i]
        offsets[row] += 1
    for i in range(lists, 0, -1):
        offsets[i] = offsets[i - 1]
    offsets[0] = 0


@kernel
def _read(buffer, at, stop, state, user, query, region, line, urls, click_list, click_position):
    """Parse one line; returns its problems, a bit per kind, or -1, without changes, if it cannot be used."""
    if at == stop:
        return 1 << BLANK
    session, i = _number(buffer, at, stop)
    if session < 0 or i + 1 >= stop or buffer[i] != TAB or stop - at > LONG:
        return -1
    time, i = _number(buffer, i + 1, stop)
    if time < 0 or i + 3 >= stop or buffer[i] != TAB or buffer[i + 2] != TAB:
        return -1
    action = buffer[i + 1]
    first, i = _number(buffer, i + 3, stop)
    row = state[LISTS]
    if first < 0 or (action != Q and action != C) or (action == C and i != stop):
        return -1
    place = 0
    if action == Q:
        for k in range(-1, TEN):
            if i >= stop or buffer[i] != TAB:
                return -1
            url, i = _number(buffer, i + 1, stop)
            if url < 0:
                return -1
            if k < 0:
                place = url
            else:
                urls[row, k] = url
        if i != stop:
            return -1
        for k in range(1, TEN):
            for j in range(k):
                if urls[row, j] == urls[row, k]:
                    return -1

    _enter(session, state)
    marks = 1 << BACKWARDS if time < state[TIME] else 0
    state[TIME] = time
    if action == Q:
        if row - state[OPEN] >= MANY:
            marks |= 1 << ENDLESS
            state[OPEN] = row
            state[OPEN_CLICKS] = state[CLICKS]
        user[row] = session
        query[row] = first
        region[row] = place
        line[row] = state[LINE]
        state[LISTS] = row + 1
        state[SEEN] = 1
        return marks
    while row > state[OPEN]:
        row -= 1
        for k in range(TEN):
            if urls[row, k] == first:
                click_list[state[CLICKS]] = row
                click_position[state[CLICKS]] = k + 1
                state[CLICKS] += 1
                return marks
    return marks | 1 << (CONSEQUENCE if state[BARRED] != 0 else UNSHOWN if state[SEEN] != 0 else EARLY)


@kernel
def _unusable(buffer, at, stop, state):
    """The problem of an unusable line. After one that may have been a list, earlier lists get no more clicks."""
    fields, letter = 1, 0
    begin, numbers, ids = at, True, True  # session and time, and all other fields, are numbers
    session = -1
    for i in range(at, stop + 1):
        if i == stop or buffer[i] == TAB:
            value, after = _number(buffer, begin, i)
            good = value >= 0 and after == i
            if fields == 1 and good:
                session = value
            if fields <= 2:
                numbers = numbers and good
            elif fields == 3:
                letter = buffer[begin] if i == begin + 1 else 0
            else:
                ids = ids and good
            if i < stop:
                fields += 1
                begin = i + 1
    if session >= 0:
        _enter(session, state)
    if letter == Q or (letter != C and fields > 4):
        state[OPEN] = state[LISTS]
        state[OPEN_CLICKS] = state[CLICKS]
        state[BARRED] = 1
        state[ORPHAN] = session < 0
    if not _is_utf8(buffer, at, stop):
        kind = ENCODING
    elif fields < 3:
        kind = FIELDS
    elif letter != Q and letter != C:
        kind = ACTION
    elif not numbers:
        kind = NUMBER
    elif (letter == C and fields != 4) or (letter == Q and fields < 5) or stop - at == LONG:
        kind = FIELDS
    elif letter == Q and fields != 5 + TEN:
        kind = URLS
    elif not ids:
        kind = NUMBER
    else:
        kind = REPEATED
    return 1 << kind


@kernel
def _enter(session, state):
    """Note the session of a line, which may be a new one."""
    if session != state[SESSION]:
        state[SESSION] = session
        state[TIME] = -1
        state[SEEN] = 0
        state[BARRED] = state[ORPHAN]
        state[OPEN] = state[LISTS]
        state[OPEN_CLICKS] = state[CLICKS]
    state[ORPHAN] = 0


@kernel
def _number(buffer, i, stop):
    """The integer that begins here, and its end; -1 if there is none, or it exceeds 63 bits."""
    begin = i
    value = 0
    while i < stop and 48 <= buffer[i] <= 57:
        value = value * 10 + (buffer[i] - 48)
        i += 1
    if i == begin or i - begin > 19 or value < 0:
        return -1, i
    return value, i


@kernel
def _is_utf8(buffer, at, stop):
    i = at
    while i < stop:
        b = buffer[i]
        if b < 0x80:
            i += 1
            continue
        low, high = 0x80, 0xBF  # of the second byte: no overlong forms, no surrogates, nothing beyond U+10FFFF
        if 0xC2 <= b <= 0xDF:
            more = 1
        elif 0xE0 <= b <= 0xEF:
            more = 2
            low = 0xA0 if b == 0xE0 else 0x80
            high = 0x9F if b == 0xED else 0xBF
        elif 0xF0 <= b <= 0xF4:
            more = 3
            low = 0x90 if b == 0xF0 else 0x80
            high = 0x8F if b == 0xF4 else 0xBF
        else:
            return False
        for k in range(1, more + 1):
            if i + k >= stop or not low <= buffer[i + k] <= high:
                return False
            low, high = 0x80, 0xBF
        i += more + 1
    return True
