#!/bin/sh
# Install the Debian packages that the checks use, if missing and if allowed (as root).
# Otherwise the tests that need them are skipped with a reason.
set -u

command -v chromium >/dev/null 2>&1 && exit 0
if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then
    echo "driftrank: installing chromium, for the tests of pages"
    export DEBIAN_FRONTEND=noninteractive
    apt-get install -y -q --no-install-recommends chromium >/dev/null 2>&1 ||
        { apt-get update -q >/dev/null 2>&1 && apt-get install -y -q --no-install-recommends chromium >/dev/null 2>&1; } ||
        echo "driftrank: chromium could not be installed" >&2
fi
exit 0
