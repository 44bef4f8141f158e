#!/bin/sh
# Installs Functory as a systemd service from this source tree, or upgrades it. Run it again as often as you like: what
# is there already is left alone, settings are never overwritten, and a running service is restarted only if something
# that it runs has changed.
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
changed=false
if [ "$(readlink "$prefix/current" 2>/dev/null || true)" != "$release" ]; then
    ln -sfn "$release" "$prefix/current.new"
    mv -T "$prefix/current.new" "$prefix/current" # at once: there is always a whole release
    changed=true
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
        mv "$work_unit" "$units/$unit"
        changed=true
        say "unit $units/$unit"
    fi
done

$files_only && say "done; user, service and $state are yours to make" && exit 0

# 4. The service.
systemctl daemon-reload
systemctl enable --quiet functory.service
if ! systemctl is-active --quiet functory.service; then
    systemctl start functory.service
elif $changed; then
    say "restarting functory.service"
    systemctl restart functory.service
fi
for other in $(systemctl list-units --plain --no-legend --state=active 'functory@*.service' | cut -d' ' -f1); do
    if $changed; then systemctl restart "$other"; fi
done
say "done: systemctl status functory; the operator's key is in $state/operator.key"
