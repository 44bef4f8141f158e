#!/bin/sh
# Runs one command of the unpacked PostgreSQL in a sandbox of its own: no network but its own loopback, nothing of
# the machine's files but DATA, which it sees as /data; all of it dies with the process that started it.
# Usage: engine.sh CACHE DATA COMMAND [ARGUMENT...]
set -eu
engine=$1/engine
data=$2
shift 2
exec bwrap --unshare-user --unshare-pid --unshare-ipc --unshare-net --uid 1000 --gid 1000 --die-with-parent \
    --clearenv --setenv PATH /usr/lib/postgresql/18/bin:/usr/bin --setenv LC_ALL C.UTF-8 \
    --ro-bind "$engine/usr" /usr --ro-bind "$engine/etc" /etc \
    --symlink usr/bin /bin --symlink usr/lib /lib --symlink usr/lib64 /lib64 \
    --dev /dev --proc /proc --tmpfs /tmp --tmpfs /run --bind "$data" /data --chdir /data \
    "$@"
