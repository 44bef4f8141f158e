#!/usr/bin/env bash
# Builds the server that the MongoDB tests run on where there is no mongod: FerretDB 2 (MongoDB's wire protocol) on
# PostgreSQL 18 with the DocumentDB extension. `make mongo` calls it; the result is in .cache/mongo and is used
# by tests/support/mongo_server.py. Running it again costs nothing until one of the files here changes.
#
#   gateway    the wire protocol: main.go, compiled
#   engine/    PostgreSQL, unpacked from Debian beside the machine's own system, never installed into it
#   template/  a database folder with the extension created, which a test session copies
#
# What failed is said in one line; engine.log and gateway.log beside the result have the rest.
# Usage: build.sh CACHE
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
mkdir -p "$1"
cache=$(cd "$1" && pwd)
suite=forky # the first Debian with postgresql-18-documentdb

say() { echo "mongo: $*"; }
fail() {
    echo "mongo: $1" >&2
    echo "       $2" >&2
    exit 1
}

if [ -n "${FUNCTORY_TEST_MONGODB_URL:-}" ]; then
    say "the tests use FUNCTORY_TEST_MONGODB_URL, nothing to build"
    exit 0
fi
if command -v mongod >/dev/null 2>&1; then
    say "the tests use $(command -v mongod), nothing to build"
    exit 0
fi
version=$(cat "$here"/build.sh "$here"/engine.sh "$here"/main.go "$here"/go.mod "$here"/go.sum | sha256sum)
if [ "$(cat "$cache/stamp" 2>/dev/null)" = "$version" ]; then
    say "FerretDB is built ($cache)"
    exit 0
fi

# --- what it needs --------------------------------------------------------------------------------------------------
for tool in mmdebstrap bwrap; do
    command -v $tool >/dev/null 2>&1 || fail "$tool is missing, so FerretDB cannot be built." \
        "Run 'make system' as root, or: sudo apt-get install mmdebstrap bubblewrap. Or set FUNCTORY_TEST_MONGODB_URL."
done
refusal=$(bwrap --unshare-user --unshare-net --ro-bind / / true 2>&1) || fail "bwrap cannot make a sandbox: $refusal" \
    "Allow unprivileged user namespaces, or set FUNCTORY_TEST_MONGODB_URL to a MongoDB for tests."
# The mirror is the machine's own: where its apt gets its own release from.
codename=$(. /etc/os-release && echo "$ID ${VERSION_CODENAME:-}")
mirror=$(apt-get indextargets --format '$(REPO_URI) $(RELEASE)' 'Identifier: Packages' 2>/dev/null |
    awk -v want="${codename#debian }" '$2 == want { print $1; exit }')
[ -n "$mirror" ] || fail "no Debian mirror in the apt sources of this machine ($codename)." \
    "FerretDB's engine is built from Debian packages; elsewhere set FUNCTORY_TEST_MONGODB_URL to a MongoDB for tests."

# unpack DIR PACKAGE,...: Debian packages into a folder, with no maintainer script run and no owner kept.
unpack() {
    mkdir -p "$1"
    mmdebstrap --variant=extract --format=tar --aptopt='Acquire::Check-Valid-Until "false"' --include="$2" \
        "$suite" - "$mirror" |
        tar -x -C "$1" --no-same-owner --exclude=./dev --exclude=./usr/share/doc --exclude=./usr/share/man
}

# --- the gateway ----------------------------------------------------------------------------------------------------
build_gateway() {
    export CGO_ENABLED=0 GOFLAGS='-mod=readonly -trimpath -buildvcs=false'
    if (cd "$here" && go list -m) >/dev/null 2>&1; then # `go` is there and new enough for go.mod
        cd "$here" && go build -o "$work/gateway" .
        return
    fi
    # Debian stable's Go is too old, so the compiler comes from where the engine comes from.
    unpack "$work/go" golang-go
    mkdir "$work/home"
    bwrap --unshare-user --die-with-parent --ro-bind "$work/go/usr" /usr --dev /dev --proc /proc --tmpfs /tmp \
        --symlink usr/bin /bin --symlink usr/lib /lib --symlink usr/lib64 /lib64 \
        --ro-bind-try /etc/resolv.conf /etc/resolv.conf --ro-bind-try /etc/hosts /etc/hosts \
        --ro-bind-try /etc/ssl /etc/ssl \
        --ro-bind "$here" /src --bind "$work" /work --chdir /src --setenv HOME /work/home --setenv PATH /usr/bin \
        go build -o /work/gateway .
}

# --- the engine -----------------------------------------------------------------------------------------------------
build_engine() {
    unpack "$work/engine" postgresql-18-documentdb,dash,base-passwd,locales,tzdata
    # What the maintainer scripts would have made. Without the hosts file DocumentDB cannot reach its own server.
    echo 'postgres:x:1000:1000::/data:/bin/sh' >"$work/engine/etc/passwd"
    echo '127.0.0.1 localhost' >"$work/engine/etc/hosts"
    ln -sf postgis-3.control "$work/engine/usr/share/postgresql/18/extension/postgis.control"
}

# --- the template of a test session's data --------------------------------------------------------------------------
build_template() {
    local data=$work/template
    mkdir -p "$data"
    sh "$here/engine.sh" "$work" "$data" \
        initdb --pgdata=/data/pg --auth=trust --username=postgres --encoding=UTF8 --locale=C.UTF-8 --no-sync
    cat >>"$data/pg/postgresql.conf" <<'END'
listen_addresses = '127.0.0.1' # the loopback of its own network: DocumentDB connects to itself
unix_socket_directories = '/data'
shared_preload_libraries = 'pg_cron,pg_documentdb_core,pg_documentdb,pg_documentdb_extended_rum'
cron.database_name = postgres
jit = off
# Of the two kinds of index that DocumentDB has, the one that is read in order and stops at the limit.
documentdb.alternate_index_handler_name = 'extended_rum'
# The planner believes a queue of 100 thousand jobs to be a hundred, and would rather collect and sort them.
enable_bitmapscan = off
# What was claimed stays at the head of the index until it is vacuumed away: a queue is vacuumed often.
autovacuum_naptime = 10s
autovacuum_vacuum_scale_factor = 0.05
END
    sh "$here/engine.sh" "$work" "$data" sh -eu -c '
        pg_ctl --pgdata=/data/pg --wait --log=/data/pg.log start
        psql --host=/data --username=postgres --quiet --command="CREATE EXTENSION documentdb CASCADE" \
            --command="CREATE EXTENSION documentdb_extended_rum" postgres
        pg_ctl --pgdata=/data/pg --wait --mode=fast stop'
}

say "building FerretDB 2 on PostgreSQL 18 into $cache: once, about two minutes"
work=$cache/work
[ ! -e "$work" ] || chmod -R u+w "$work" # Go's module cache is read-only
rm -rf "$work" "$cache/stamp"
mkdir -p "$work"
# In the background, not behind `||`, which would switch `set -e` off inside them; each with its own log.
build_gateway >"$cache/gateway.log" 2>&1 &
gateway=$!
trap 'kill $gateway 2>/dev/null || true' EXIT
{ build_engine; build_template; } >"$cache/engine.log" 2>&1 &
wait $! || fail "PostgreSQL could not be prepared: $(tail -n 2 "$cache/engine.log")" "See $cache/engine.log"
say "PostgreSQL with DocumentDB is ready"
wait $gateway || fail "the gateway was not compiled: $(tail -n 2 "$cache/gateway.log")" "See $cache/gateway.log"
rm -rf "$cache/engine" "$cache/template" "$cache/gateway"
mv "$work/engine" "$work/template" "$work/gateway" "$cache/"
chmod -R u+w "$work"
rm -rf "$work"
echo "$version" >"$cache/stamp"
say "FerretDB is ready"
