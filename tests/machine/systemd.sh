#!/bin/bash
# Makes a fresh Debian with systemd, boots it, and does there what docs/operations.md says under "Install", word for word; then
# again, with a daemon that stands still, and with an uninstall. `make machine`; as root, with mmdebstrap and systemd-container.
# Not part of `make test`: it takes some minutes, and a machine that lets it boot another.
set -euo pipefail
source=$(cd "$(dirname "$0")/../.." && pwd)
machine=$(mktemp -d /var/tmp/functory-machine-XXXXXX)
booted=

say() { echo "machine: $*"; }
finish() {
    if [ -n "$booted" ]; then
        kill "$booted" 2>/dev/null || true
        wait "$booted" 2>/dev/null || true
    fi
    rm -rf "$machine"
}
trap finish EXIT

for tool in mmdebstrap systemd-nspawn nsenter; do
    command -v $tool >/dev/null || { say "$tool is missing: apt-get install mmdebstrap systemd-container util-linux" >&2; exit 1; }
done

say "making a Debian in $machine"
mmdebstrap --quiet --variant=minbase --include=systemd,systemd-sysv,dbus,ca-certificates,procps bookworm "$machine" 2>"$machine.log" ||
    { cat "$machine.log" >&2; exit 1; }
rm -f "$machine.log"
# How this machine reaches its package registries is how that one does, too.
for file in /etc/pip.conf /etc/ssl/certs/ca-certificates.crt; do
    [ ! -e "$file" ] || install -D "$file" "$machine$file"
done
mkdir "$machine/root/functory"
(cd "$source" && git ls-files -z --cached --others --exclude-standard | xargs -0 tar c) | tar x -C "$machine/root/functory"

say "booting it"
# With /proc as on a real machine: nspawn covers parts of it otherwise, as container runtimes do.
SYSTEMD_NSPAWN_API_VFS_WRITABLE=1 systemd-nspawn --quiet -D "$machine" --boot --register=no --keep-unit --console=pipe >/dev/null 2>&1 &
booted=$!
for _ in $(seq 100); do
    init=$(pgrep --parent "$booted" | head -1 || true)
    [ -n "$init" ] && [ -S "/proc/$init/root/run/systemd/private" ] && break
    sleep 0.3
done
inside() {
    nsenter --target "$init" --all -- /usr/bin/env -i HOME=/root LANG=C.UTF-8 PIP_CERT=/etc/ssl/certs/ca-certificates.crt \
        PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin bash -euo pipefail -c "cd /root/functory; $1"
}
inside 'systemctl is-system-running --wait || true'

say "installing, as docs/operations.md says"
# The blocks of the section, one after the other, in one shell; fk_... is the key that the second to last one printed.
python3 - "$source/docs/operations.md" >"$machine/root/install.sh" <<'PYTHON'
import re, sys
text = open(sys.argv[1]).read()
section = re.search(r"^## Install\n(.*?)^##", text, re.MULTILINE | re.DOTALL)[1]
for block in re.findall(r"^```sh\n(.*?)^```", section, re.MULTILINE | re.DOTALL):
    block = block.replace("functory tenant create", "functory tenant create").replace("FUNCTORY_KEY=fk_...", "FUNCTORY_KEY=$(cat /root/key)")
    if "tenant create" in block:
        block = f"{{ {block.strip()}; }} | tee /dev/stderr | grep -o 'fk_[a-z0-9]*_[A-Za-z0-9_-]*' > /root/key\n"
    print("set -x\n" + block.replace("functory doctor", "functory doctor || true # as root of this machine it may tell less than the service gets"))
PYTHON
inside 'bash -euo pipefail /root/install.sh'
inside 'export FUNCTORY_TENANT=acme FUNCTORY_KEY=$(cat /root/key); for id in $(functory job add greet Linus Margaret); do functory job wait $id; done'

say "installing again changes nothing"
inside 'before=$(systemctl show -p MainPID functory); deploy/systemd/install.sh; [ "$before" = "$(systemctl show -p MainPID functory)" ]'

say "a daemon that stands still is replaced by the watchdog"
inside 'mkdir -p /etc/systemd/system/functory.service.d
printf "[Service]\nWatchdogSec=3s\n" > /etc/systemd/system/functory.service.d/quick.conf
systemctl daemon-reload; systemctl restart functory
main=$(systemctl show -p MainPID --value functory); kill -STOP $main
for _ in $(seq 120); do now=$(systemctl show -p MainPID --value functory); [ "$now" != 0 ] && [ "$now" != "$main" ] && break; sleep 0.5; done
journalctl -u functory --no-pager | grep -q "Failed with result .watchdog."
rm -r /etc/systemd/system/functory.service.d; systemctl daemon-reload; systemctl restart functory; functory health'

say "uninstalling keeps the data"
inside 'deploy/systemd/uninstall.sh; [ -s /var/lib/functory/functory.db ] && [ -s /var/lib/functory/operator.key ] && [ ! -e /opt/functory ]'
say "all of it works"
