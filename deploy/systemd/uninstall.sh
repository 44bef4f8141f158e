#!/bin/sh
# Stops Functory and removes what install.sh has put here, but no data: settings, store, journal and keys stay, and a later
# install goes on with them.
#
#   deploy/systemd/uninstall.sh [--prefix DIR] [--etc DIR] [--state DIR] [--units DIR] [--bin DIR] [--files-only]
set -eu

prefix=/opt/functory etc=/etc/functory state=/var/lib/functory units=/etc/systemd/system bin=/usr/local/bin
files_only=false
while [ $# -gt 0 ]; do
    case $1 in
    --prefix) prefix=$2 && shift ;;
    --etc) etc=$2 && shift ;;
    --state) state=$2 && shift ;;
    --units) units=$2 && shift ;;
    --bin) bin=$2 && shift ;;
    --files-only) files_only=true ;;
    *) echo "uninstall: unknown option $1; the head of this file lists them" >&2 && exit 2 ;;
    esac
    shift
done

prefix=$(realpath -ms -- "$prefix") # as install.sh has it in its links

if ! $files_only; then
    # Without those that only their failure is remembered of.
    for unit in $(systemctl list-units --all --plain --no-legend 'functory.service' 'functory@*.service' |
        awk '$2 != "not-found" { print $1 }'); do
        systemctl disable --now --quiet "$unit"
    done
    systemctl reset-failed 'functory.service' 'functory@*.service' 2>/dev/null || true # none has failed, as a rule
fi
rm -f "$units/functory.service" "$units/functory@.service"
if [ "$(readlink "$bin/functory" 2>/dev/null || true)" = "$prefix/current/bin/functory" ]; then
    rm "$bin/functory"
fi
# Only what install.sh makes: a wrong --prefix must not cost anybody a directory.
rm -rf "$prefix/releases"
rm -f "$prefix/current" "$prefix/current.new" "$prefix/.left-to-do" "$prefix/.left-to-do.new"
[ ! -d "$prefix" ] || rmdir "$prefix" 2>/dev/null || true
$files_only || systemctl daemon-reload
echo "uninstall: done. Kept: $etc (settings), $state (store, journal, keys) and the user functory."
echo "           To remove the data, too, for good:  rm -r $state $etc && userdel functory"
