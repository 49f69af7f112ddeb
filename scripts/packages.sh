#!/bin/sh
# Install what the checks use from Debian, where that may be done: as root, and only what is missing.
# Elsewhere the tests that need it say so and are passed over.
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
