#!/bin/sh
# Installs Functory as a systemd service from this source tree, or upgrades it. Run it again as often as you like: what
# is there already is left alone, settings are never overwritten, a running service is restarted only if something that it
# runs has changed, and one that you stopped stays stopped.
#
#   deploy/systemd/install.sh [--prefix DIR] [--etc DIR] [--state DIR] [--units DIR] [--bin DIR] [--python PYTHON] [--files-only]
#
# Each version goes into a directory of its own below PREFIX/releases, and PREFIX/current points to the one in use: to go
# back, point it to the one before (docs/operations.md). --files-only makes no user and does not talk to systemd.
set -eu

prefix=/opt/functory etc=/etc/functory state=/var/lib/functory units=/etc/systemd/system bin=/usr/local/bin
python=python3 files_only=false
while [ $# -gt 0 ]; do
    case $1 in
    --prefix) prefix=$2 && shift ;;
    --etc) etc=$2 && shift ;;
    --state) state=$2 && shift ;;
    --units) units=$2 && shift ;;
    --bin) bin=$2 && shift ;;
    --python) python=$2 && shift ;;
    --files-only) files_only=true ;;
    *) echo "install: unknown option $1; the head of this file lists them" >&2 && exit 2 ;;
    esac
    shift
done
source=$(cd "$(dirname "$0")/../.." && pwd)
umask 022

say() { echo "install: $*"; }
fail() { echo "install: $*" >&2 && exit 1; }

# Directories go into units, where they begin at the root and are not quoted.
place() {
    absolute=$(realpath -ms -- "$1")
    case $absolute in *[!A-Za-z0-9._/@+-]*) fail "$absolute: a directory has letters, digits and ._/@+- only" ;; esac
    echo "$absolute"
}
prefix=$(place "$prefix")
etc=$(place "$etc")
state=$(place "$state")
units=$(place "$units")
bin=$(place "$bin")
# The service has /tmp and /var/tmp of its own (PrivateTmp), and does not see the others (ProtectHome).
$files_only || for hidden in "$prefix" "$etc" "$state"; do
    case $(realpath -m -- "$hidden")/ in
    /home/* | /root/* | /run/user/* | /tmp/* | /var/tmp/*)
        fail "$hidden: the service does not see what is below /home, /root, /run/user, /tmp and /var/tmp" ;;
    esac
done

sh "$source/deploy/preflight.sh" "$python"
$files_only || [ "$(id -u)" = 0 ] || fail "run it as root, or with --files-only and directories of your own"
command -v bwrap >/dev/null || say "bubblewrap is missing, tenants' code will be refused: apt-get install bubblewrap"

# 0. The user and the place of its data, first: where these cannot be, nothing else is changed.
if ! $files_only; then
    systemd-sysusers "$source/deploy/systemd/functory.sysusers"
    if [ "$state" != /var/lib/functory ]; then # which systemd makes itself
        if [ ! -e "$state" ] || { [ -z "$(ls -A "$state")" ] && [ "$(stat -c %u "$state")" = 0 ]; }; then
            install -d -o functory -g functory -m 0700 "$state"
        fi
        runuser -u functory -- sh -c 'test -d "$1" && test -w "$1" && test -x "$1"' sh "$state" ||
            fail "user functory cannot write to $state: give it to that user, or name a directory that is empty or new"
    fi
fi

# What is left to do so that what runs is what is installed: `start` the service, or `restart` what runs. It is noted before
# anything changes, and outlives an install that is broken off or of files only.
left=$prefix/.left-to-do
note_change() {
    [ ! -e "$left" ] || return 0
    mkdir -p "$prefix"
    if [ -e "$units/functory.service" ]; then echo restart; else echo start; fi >"$left.new"
    mv "$left.new" "$left"
}

# 1. The release: a virtual environment with the locked dependencies and the program as a wheel.
version=$(sed -n 's/^__version__ = "\(.*\)"$/\1/p' "$source/functory/__init__.py")
[ -n "$version" ] || fail "$source/functory/__init__.py names no version"
# The name tells releases of one version apart, so that a change in the source is never taken for installed.
digest=$(cd "$source" && find functory handlers journal runner scheduler store vocabulary requirements.lock pyproject.toml docs/operations.md \
    -type f ! -name '*.pyc' | LC_ALL=C sort | xargs sha256sum | sha256sum | cut -c1-12)
release=$prefix/releases/$version-$digest
# One that is complete may not run any more: a newer python3 does not see what was installed for the one before.
if [ ! -e "$release/.complete" ] || ! "$release/bin/functory" --version >/dev/null 2>&1; then
    say "building $release"
    note_change
    rm -rf "$release" # what an interrupted install left
    mkdir -p "$prefix/releases"
    work=$(mktemp -d)
    trap 'rm -rf "$work"' EXIT
    pip="-m pip --disable-pip-version-check --quiet"
    "$python" -m venv "$release"
    # shellcheck disable=SC2086  # words of a command
    {
        "$release/bin/python" $pip install --require-hashes --target "$work/build" -r "$source/requirements-build.lock"
        PYTHONPATH=$work/build "$release/bin/python" $pip wheel --no-deps --no-build-isolation --wheel-dir "$work" "$source"
        "$release/bin/python" $pip install --require-hashes -r "$source/requirements.lock"
        "$release/bin/python" $pip install --no-deps --no-index "$work"/functory-*.whl
    }
    mkdir -p "$release/share/doc/functory"
    cp "$source/docs/operations.md" "$release/share/doc/functory/"
    "$release/bin/functory" --version >/dev/null
    touch "$release/.complete"
fi
if [ "$(readlink "$prefix/current" 2>/dev/null || true)" != "$release" ]; then
    note_change
    ln -sfn "$release" "$prefix/current.new"
    mv -T "$prefix/current.new" "$prefix/current" # at once: there is always a whole release
    say "in use: $release"
fi
mkdir -p "$bin"
if [ "$(readlink "$bin/functory" 2>/dev/null || true)" != "$prefix/current/bin/functory" ]; then
    ln -sfn "$prefix/current/bin/functory" "$bin/functory"
fi

# 2. Settings: only what is not there yet.
mkdir -p "$etc"
[ -e "$etc/functory.toml" ] || install -m 0644 "$source/deploy/systemd/functory.toml" "$etc/functory.toml"
[ ! -e "$etc/store.url" ] || chmod 0600 "$etc/store.url"

# 3. Units, with the directories of this machine.
mkdir -p "$units"
# Elsewhere than in /var/lib systemd does not make the directory, and the service may write there only if it is named.
elsewhere=
[ "$state" = /var/lib/functory ] ||
    elsewhere="s|^StateDirectory=.*|ReadWritePaths=$state|; /^StateDirectoryMode=/d; s|^WorkingDirectory=|&-|"
for unit in functory.service functory@.service; do
    work_unit=$units/.$unit.new
    sed -e "s|/opt/functory|$prefix|g" -e "s|/etc/functory|$etc|g" -e "s|/var/lib/functory|$state|g" -e "$elsewhere" \
        "$source/deploy/systemd/$unit" >"$work_unit"
    if cmp -s "$work_unit" "$units/$unit"; then
        rm "$work_unit"
    else
        chmod 0644 "$work_unit"
        note_change
        mv "$work_unit" "$units/$unit"
        say "unit $units/$unit"
    fi
done

if $files_only; then
    say "done; user, service and $state are yours to make"
    exit 0
fi

# 4. The service.
systemctl daemon-reload
failed=
restart() {
    say "restarting $1"
    systemctl restart "$1" || failed="$failed $1"
}
todo=$(cat "$left" 2>/dev/null || true)
is=$(systemctl is-active functory.service || true)
case $todo-$is in
start-*)
    systemctl enable --quiet functory.service
    restart functory.service # not `start`, which would join an attempt of the release before
    ;;
*-inactive) say "functory.service is stopped and stays so: systemctl start functory" ;;
restart-*) restart functory.service ;;
-active) ;;
*) say "functory.service is $is: see journalctl -u functory" ;;
esac
[ -z "$todo" ] || for other in $(systemctl list-units --all --plain --no-legend \
    --state=active,activating,reloading,failed 'functory@*.service' | cut -d' ' -f1); do
    restart "$other"
done
[ -z "$failed" ] || fail "not restarted:$failed (see journalctl -u NAME). Run this again when that is solved"
rm -f "$left"
say "done: systemctl status functory; the operator's key is in $state/operator.key"
