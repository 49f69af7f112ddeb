#!/bin/sh
# Create the virtual environment .venv in the current directory, or report in one line why that is not possible.
# $PYTHON selects the interpreter; by default the first usable one below.
set -eu

say() { printf '%s\n' "driftrank: $*" >&2; }

can_run() { command -v "$1" >/dev/null 2>&1 && "$1" -c 'import sys' >/dev/null 2>&1; }
new_enough() { "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))'; }
has_venv() { "$1" -c 'import ensurepip, venv' >/dev/null 2>&1; }

usable="" without_venv="" too_old=""
if [ -n "${PYTHON:-}" ]; then set -- "$PYTHON"; else set -- python3.13 python3.12 python3.11 python3 python; fi
for candidate in "$@"; do
    can_run "$candidate" || continue
    if ! new_enough "$candidate"; then
        too_old=${too_old:-$candidate}
    elif has_venv "$candidate"; then
        usable=$candidate
        break
    else
        without_venv=${without_venv:-$candidate}
    fi
done

if [ -z "$usable" ] && [ -n "$without_venv" ]; then
    # Debian has venv in a separate package
    package=$("$without_venv" -c 'import sys; print("python%d.%d-venv" % sys.version_info[:2])')
    if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then
        say "$without_venv has no venv module: installing $package"
        DEBIAN_FRONTEND=noninteractive apt-get install -y -q "$package" >/dev/null ||
            { apt-get update -q >/dev/null && DEBIAN_FRONTEND=noninteractive apt-get install -y -q "$package" >/dev/null; } ||
            true
    fi
    if ! has_venv "$without_venv"; then
        say "$without_venv lacks the modules venv and ensurepip; install them (Debian, Ubuntu: apt-get install $package), or set PYTHON=/path/to/another/python"
        exit 1
    fi
    usable=$without_venv
fi

if [ -z "$usable" ]; then
    if [ -n "$too_old" ]; then
        found="$too_old is $("$too_old" -c 'import sys; print("%d.%d" % sys.version_info[:2])')"
    else
        found="none of $* runs"
    fi
    say "Python 3.11 or newer is needed, but $found; install one, or set PYTHON=/path/to/python3.11"
    exit 1
fi

"$usable" -m venv --clear .venv
say "created .venv with $(.venv/bin/python -V)"
