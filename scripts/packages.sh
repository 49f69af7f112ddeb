#!/bin/sh
# Install the Debian packages that the checks use, if missing and if allowed (as root).
# Otherwise the tests that need them are skipped with a reason.
set -u

missing=
command -v chromium >/dev/null 2>&1 || missing="$missing chromium"       # tests of pages
ls /usr/lib/postgresql/*/bin/initdb >/dev/null 2>&1 || missing="$missing postgresql" # a store of several nodes
command -v nginx >/dev/null 2>&1 || [ -x /usr/sbin/nginx ] || missing="$missing nginx-light" # load balancers
command -v haproxy >/dev/null 2>&1 || [ -x /usr/sbin/haproxy ] || missing="$missing haproxy"
[ -z "$missing" ] && exit 0

install() {
    apt-get install -y -q --no-install-recommends $missing >/dev/null 2>&1
}

if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then
    echo "driftrank: installing$missing, for the tests"
    export DEBIAN_FRONTEND=noninteractive
    # the tests start servers of their own: no package may start one
    policy=/usr/sbin/policy-rc.d
    if [ ! -e $policy ]; then
        printf '#!/bin/sh\nexit 101\n' >$policy && chmod +x $policy
        trap 'rm -f $policy' EXIT
    fi
    cluster=/etc/postgresql-common/createcluster.conf
    if [ ! -e $cluster ]; then
        mkdir -p /etc/postgresql-common && echo 'create_main_cluster = false' >$cluster
    fi
    install || { apt-get update -q >/dev/null 2>&1 && install; } || echo "driftrank: could not install$missing" >&2
fi
exit 0
