#!/bin/sh
# Debian packages that the sandbox and the tests use. As root on Debian or Ubuntu it installs the missing ones;
# anywhere else it lists them with the command that installs them, and goes on: what is still missing is skipped
# by the tests with its reason, or fails them when CI is set.
#
#   system-packages.sh          all of them
#   system-packages.sh run      those that running the service needs, without those of the tests
#
# One row each: the command that shows it is there, the package, what it is for.
packages='
bwrap      bubblewrap  sandbox of the runners
node       nodejs      handlers in node
php        php-cli     handlers in php
promtool   prometheus  tests of the alert rules, and of what a daemon shows to Prometheus
nginx      nginx-light tests behind a proxy
ip         iproute2    tests of daemons in networks that break
chromium   chromium    tests of the pages
'
missing=$(echo "$packages" | while read -r command package purpose; do
    case "$1 $purpose" in run\ tests*) continue ;; esac
    [ -z "$command" ] || command -v "$command" >/dev/null 2>&1 || printf '%s ' "$package"
done)
[ -z "$missing" ] && exit 0

if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then
    echo "system: installing $missing"
    # Tools for tests must not become services of this machine: while they are installed, Debian's policy is to start none.
    policy=/usr/sbin/policy-rc.d
    if [ ! -e $policy ]; then
        printf '#!/bin/sh\nexit 101\n' >$policy && chmod +x $policy
        trap 'rm -f $policy' EXIT
    fi
    # shellcheck disable=SC2086  # a list of package names
    if { apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $missing; } >/dev/null; then
        exit 0
    fi
    echo "system: apt-get could not install: $missing" >&2
    exit 0
fi
echo "system: not installed, what needs them is skipped: $missing" >&2
echo "        to install:  sudo apt-get install $missing" >&2
