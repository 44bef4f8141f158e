#!/bin/sh
# Makes what compose.yaml (or with the argument `ferretdb`, compose.ferretdb.yaml) needs before its first start: random
# passwords, the store's URL with one of them, and a certificate for localhost. What is there already is kept.
set -eu
secrets=$(cd "$(dirname "$0")" && pwd)/secrets
umask 077
mkdir -p "$secrets"
cd "$secrets"

[ -s tls.crt ] || command -v openssl >/dev/null || {
    echo "prepare: openssl is missing (apt-get install openssl). Or put a certificate into $secrets/tls.crt and tls.key" >&2
    exit 1
}

random() { head -c 32 /dev/urandom | base64 | tr -d '/+=\n'; }
once() { [ -s "$1" ] || { cat >"$1.new" && mv "$1.new" "$1" && echo "prepare: made $secrets/$1"; }; }

random | once mongo-password
random | once grafana-password
head -c 700 /dev/urandom | base64 -w 0 | once mongo-keyfile
kind=${1:-mongodb}
[ ! -s store-url ] || case $kind-$(cat store-url) in
mongodb-*@ferretdb/* | ferretdb-*@mongo-1,*)
    echo "prepare: $secrets/store-url is the URL of the other kind of store. Move it aside to begin with $kind" >&2
    exit 1
    ;;
esac
case $kind in
mongodb) printf 'mongodb://functory:%s@mongo-1,mongo-2,mongo-3/functory?replicaSet=rs0\n' "$(random)" | once store-url ;;
ferretdb) # its users are PostgreSQL's own
    printf 'postgres://functory:%s@postgres:5432/postgres' "$(cat mongo-password)" | once ferretdb-url
    printf 'mongodb://functory:%s@ferretdb/functory?authSource=admin\n' "$(cat mongo-password)" | once store-url
    ;;
*) echo "prepare: '$kind' is neither mongodb nor ferretdb" >&2 && exit 2 ;;
esac
if [ ! -s tls.crt ]; then
    said=$(openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 365 -subj /CN=localhost \
        -addext subjectAltName=DNS:localhost -keyout tls.key -out tls.crt 2>&1) || {
        echo "prepare: openssl makes no certificate: $said" >&2
        exit 1
    }
    echo "prepare: made a certificate for localhost; put your own into $secrets/tls.crt and tls.key"
fi
# Compose mounts secrets as they are: the containers' users must be able to read them, nobody else gets into the folder.
chmod 0644 ./*
chmod 0700 .
