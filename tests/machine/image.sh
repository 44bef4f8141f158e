#!/bin/bash
# Builds the image of deploy/container for real, without a registry of images: the base is a Debian made here. Then runs it with the
# options of the compose files and asks what it got. `make image`; as root, with mmdebstrap, buildah and runc.
# Not part of `make test`: it takes some minutes, and tools that few machines have.
set -euo pipefail
source=$(cd "$(dirname "$0")/../.." && pwd)
work=$(mktemp -d /var/tmp/functory-image-XXXXXX)
chmod 0755 "$work"
export STORAGE_DRIVER=vfs BUILDAH_ISOLATION=chroot
own() { buildah --root "$work/store" --runroot "$work/run" "$@"; }
run() { runc --root "$work/runc" "$@"; }

say() { echo "image: $*"; }
finish() {
    run delete --force daemon 2>/dev/null || true
    own umount --all >/dev/null 2>&1 || true
    rm -rf "$work"
}
trap finish EXIT

for tool in mmdebstrap buildah runc; do
    command -v $tool >/dev/null || { say "$tool is missing: apt-get install mmdebstrap buildah runc" >&2; exit 1; }
done

say "making the base"
mmdebstrap --quiet --variant=minbase --include=ca-certificates trixie "$work/base.tar" 2>"$work/log" || { cat "$work/log" >&2; exit 1; }
base=$(own from scratch)
own add --quiet "$base" "$work/base.tar" /
# How this machine reaches its package registries is how the build does, too.
for file in /etc/pip.conf /etc/ssl/certs/ca-certificates.crt; do
    [ ! -e "$file" ] || own add --quiet "$base" "$file" "$file"
done
own commit --quiet "$base" docker.io/library/debian:trixie-slim >/dev/null
rm "$work/base.tar"

say "building"
own build --quiet --network host --pull=never --env PIP_CERT=/etc/ssl/certs/ca-certificates.crt \
    --ignorefile "$source/deploy/container/Containerfile.dockerignore" -f "$source/deploy/container/Containerfile" \
    -t functory "$source" >"$work/log" 2>&1 || { tail -n 40 "$work/log" >&2; exit 1; }
root=$(own mount "$(own from --pull-never localhost/functory)")
say "built: $(du -sh "$root" | cut -f1)"

# A bundle for runc: the image's user and command, with the options of compose.sqlite.yaml, or with the runtime's default covers over /proc.
bundle() {
    mkdir -p "$work/$1" && cd "$work/$1" && rm -f config.json && runc spec
    python3 - "$1" "$root" "$source/deploy/container/seccomp.json" "${@:2}" <<'PYTHON'
import json, sys
form, root, profile, *command = sys.argv[1:]
spec = json.load(open("config.json"))
spec["root"] = {"path": root, "readonly": True}
spec["process"] |= {"terminal": False, "user": {"uid": 10001, "gid": 10001}, "args": command, "noNewPrivileges": True, "rlimits": []}
spec["process"]["cwd"] = "/var/lib/functory"
spec["process"]["capabilities"] = {kind: [] for kind in ("bounding", "effective", "permitted")}
spec["process"]["env"] = ["PATH=/opt/functory/bin:/usr/bin:/bin", "FUNCTORY_DATA_DIR=/var/lib/functory", "FUNCTORY_STATUS_PORT=8485", "FUNCTORY_MIN_ISOLATION=L2"]
options = ["nosuid", "nodev", "mode=1777", "uid=10001", "gid=10001"]
for place in ("/tmp", "/var/tmp", "/run", "/var/lib/functory"):
    spec["mounts"].append({"destination": place, "type": "tmpfs", "source": "tmpfs", "options": options})
if form != "covered":
    spec["linux"] |= {"maskedPaths": [], "readonlyPaths": [], "seccomp": json.load(open(profile))}
json.dump(spec, open("config.json", "w"))
PYTHON
    cd "$work"
}
level() { python3 -c 'import json, sys; report = json.load(sys.stdin); print(report["level"], report["layers"]["namespaces"]["remedy"][:60])'; }

say "isolation with our options: $(bundle uncovered functory doctor --brief --json && (run run --bundle uncovered doctor-1 || true) | level | tee "$work/level")"
grep -q '^L2' "$work/level"
say "and with the runtime's own: $(bundle covered functory doctor --brief --json && (run run --bundle covered doctor-2 || true) | level | tee "$work/level")"
grep -q '^L0 uncover /proc' "$work/level"

say "a daemon, and its health check"
bundle daemon tini -- functory serve
run run --detach --bundle daemon daemon >"$work/daemon.log" 2>&1 </dev/null
for _ in $(seq 60); do
    run exec daemon functory health --url http://127.0.0.1:8485 >"$work/health" 2>&1 && break
    sleep 1
done
cat "$work/health"
grep -qx ok "$work/health" || { tail -n 20 "$work/daemon.log" >&2; exit 1; }
run kill daemon TERM
say "all of it works"
