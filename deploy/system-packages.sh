#!/bin/sh
# Debian packages, by what they are for. As root on Debian or Ubuntu the missing ones are installed; anywhere else one
# command is printed that installs them, and the caller goes on: what is still missing is skipped by the tests with its
# reason, or fails them when CI is set.
#
#   system-packages.sh GROUP...     the groups stand in the table below
#
# One row each: a command or library that shows that it is installed, the package, its groups, what it is for.
packages='
bwrap           bubblewrap        run,test,mongo,peers    the sandbox of handlers
node            nodejs            languages,test,peers    handlers in node
php             php-cli           languages,test          handlers in php
npm             npm               test,peers              packages of node handlers; queues written for node
redis-server    redis-server      peers                   queues on Redis
beanstalkd      beanstalkd        peers                   a peer
curl            curl              test                    tests of the interface as a user calls it
nc              netcat-openbsd    test                    tests of the Bedrock protocol as a user types it
ip              iproute2          test                    tests of daemons in networks that break
openssl         openssl           test                    certificates for tests and for compose
nginx           nginx-light       test                    tests behind a proxy
promtool        prometheus        test                    tests of alert rules and metrics
strace          strace            test                    tests of the order of system calls
systemd-analyze systemd           test                    tests of the systemd units
chromium        chromium          test,browser            tests of the pages
libatomic.so.1  libatomic1        test,browser            what drives it
mmdebstrap      mmdebstrap        mongo,fresh,machine,image   Debian roots: the MongoDB test server, pristine machines
unshare         util-linux        fresh                   a mount namespace for a pristine machine
systemd-nspawn  systemd-container machine                 a machine that boots
buildah         buildah           image                   builds the container image
runc            runc              image                   runs it
'
has() {
    case $1 in
    *.so.*) /sbin/ldconfig -p | grep -q "$1" ;;
    *) command -v "$1" >/dev/null 2>&1 || [ -x "/usr/sbin/$1" ] ;;
    esac
}
missing=
for group in "$@"; do
    found=$(echo "$packages" | while read -r command package groups _; do
        case ",$groups," in *",$group,"*) ;; *) continue ;; esac
        has "$command" || printf '%s ' "$package"
    done)
    missing="$missing$found"
done
missing=$(printf '%s\n' $missing | sort -u | tr '\n' ' ')
[ -n "${missing% }" ] || exit 0

if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then
    echo "system: installing ${missing% }"
    # Tools for tests must not become services of this machine: while they are installed, Debian's policy is to start none.
    policy=/usr/sbin/policy-rc.d
    if [ ! -e $policy ]; then
        printf '#!/bin/sh\nexit 101\n' >$policy && chmod +x $policy
        trap 'rm -f $policy' EXIT
    fi
    install() {
        # shellcheck disable=SC2086  # a list of package names
        DEBIAN_FRONTEND=noninteractive apt-get -o DPkg::Lock::Timeout=300 install -y -qq --no-install-recommends $missing
    }
    log=$(mktemp)
    # Lists may be old or, on a new machine, not there; where they are, asking for new ones is most of the time.
    if install >"$log" 2>&1 || { apt-get update -qq && install; } >"$log" 2>&1; then
        rm -f "$log"
        exit 0
    fi
    echo "system: apt-get could not install ${missing% }:" >&2
    tail -n 3 "$log" >&2
    rm -f "$log"
    exit 0
fi
echo "system: not installed: ${missing% }. What needs them is left out. To install them:" >&2
echo "        sudo apt-get install ${missing% }" >&2
