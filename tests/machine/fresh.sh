#!/usr/bin/env bash
# The README's commands on machines that have never seen the project: pristine Debian roots with git, make, python3 and
# python3-venv, entered with pivot_root in a mount namespace of their own (in a mere chroot the kernel allows no user
# namespaces). Every row starts from the pristine root again: what one installs, no other finds. As root, with mmdebstrap.
#
#   fresh.sh              `make demo` in all places of all suites; `make test` once in each suite and once in each place
#   fresh.sh every        `make demo` and `make test` in all places of all suites: some five hours
#   fresh.sh demo         `make demo` in all places of all suites
#   fresh.sh part         what CI has time for: `make demo` in all places of one suite
#   fresh.sh SUITE:PLACE:COMMAND ...     some rows: suite bookworm, trixie, forky; command demo, test, part or any other in one
#                         word of the shell; place tmp, root, home, and a home with bubblewrap installed: userns, jailed (there the
#                         kernel grants users no namespaces)
#
# Ends with a table: suite, python, place, user, command, exit status, seconds, isolation level. Logs are in .cache/fresh.
set -euo pipefail
source=$(cd "$(dirname "$0")/../.." && pwd)
cache=$source/.cache/fresh
suites="bookworm trixie forky"
declare -A folders=(
    [tmp]="/tmp/functory" [root]="/root/functory" [home]="/home/dev/my work/functory"
    [userns]="/home/dev/my work/functory" [jailed]="/home/dev/my work/functory"
)
declare -A users=([tmp]=root [root]=root [home]=dev [userns]=dev [jailed]=dev)

say() { echo "fresh: $*"; }
[ "$(id -u)" = 0 ] || { say "root is needed, to make and enter another root" >&2; exit 1; }
for tool in mmdebstrap unshare pivot_root setpriv; do
    command -v $tool >/dev/null || { say "$tool is missing: apt-get install mmdebstrap util-linux" >&2; exit 1; }
done
mkdir -p "$cache"

rows=()
add() { for place in $2; do for command in $3; do rows+=("$1:$place:$command"); done; done; }
case ${1:-all} in
all)
    for suite in $suites; do add "$suite" "tmp root home" demo; done
    add bookworm "userns jailed" demo
    rows+=(bookworm:home:test trixie:tmp:test forky:root:test)
    ;;
every) for suite in $suites; do add "$suite" "tmp root home" "demo test"; done; add bookworm "userns jailed" demo ;;
demo) for suite in $suites; do add "$suite" "tmp root home userns jailed" demo; done ;;
part) add bookworm "tmp root home" demo ;;
*) rows=("$@") ;;
esac

# --- the pristine roots ---------------------------------------------------------------------------------------------
pristine() { # SUITE
    local root=$cache/$1 made
    made=$(sha256sum "$0" | cut -c1-16)
    if [ "$(cat "$root.stamp" 2>/dev/null)" != "$made" ]; then
        say "making a pristine $1"
        rm -rf "$root" "$root.stamp"
        # A mirror may lag behind: the age of its lists is no reason to refuse it.
        mmdebstrap --quiet --variant=minbase --aptopt='Acquire::Check-Valid-Until "false"' --include=git,make,python3,python3-venv "$1" "$root" 2>"$root.log" ||
            { tail -n 3 "$root.log" >&2; return 1; }
        rm -f "$root"/var/cache/apt/archives/*.deb
        echo "$made" >"$root.stamp"
    fi
}

# --- one row --------------------------------------------------------------------------------------------------------
# What the user types.
commands() { # COMMAND
    case $1 in
    demo | test) echo "make $1" ;;
    part) echo "make setup && sh deploy/system-packages.sh run languages && .venv/bin/pytest -q -n 2 --dist loadfile tests/security tests/contract/engines tests/contract/test_launcher.py" ;;
    *) echo "$1" ;;
    esac
}

enter() { # ROOT FOLDER USER JAILED COMMAND
    env -i PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin LANG=C.UTF-8 HOME=/root CI="${CI:-}" \
        unshare --mount --pid --fork --kill-child --propagation private bash -euo pipefail -s -- "$@" <<'INSIDE'
root=$1 folder=$2 user=$3 jailed=$4 command=$5
mount -t tmpfs -o mode=0755 tmpfs "$root/run"
mount -t proc proc "$root/proc"
mount --rbind /sys "$root/sys"
mount --rbind /dev "$root/dev"
cd "$root"
mkdir -p .old
pivot_root . .old
cd /
umount -l /.old
rmdir /.old
[ -n "$CI" ] || unset CI
become=
if [ "$user" != root ]; then
    export HOME=/home/$user USER=$user
    become="setpriv --reuid=$user --regid=$user --init-groups"
    if [ "$jailed" = yes ]; then
        become="$become unshare --user --map-current-user --keep-caps sh -c 'echo 0 >/proc/sys/user/max_user_namespaces; exec setpriv --inh-caps=-all --ambient-caps=-all \"\$@\"' sh"
    fi
fi
cd "$folder"
eval "$become bash -c \"\$command\""
INSIDE
}

run() { # SUITE PLACE COMMAND
    local suite=$1 place=$2 command=$3 folder=${folders[$2]} user=${users[$2]}
    local work=$cache/row log=$cache/$1-$2-${3//[^a-z]/}.log
    pristine "$suite" || { printf '%s\t-\t%s\t%s\tmake %s\t-\t-\tno root of this suite\n' "$suite" "$folder" "$user" "$command" >>"$table"; return; }
    umount -l "$work/root" 2>/dev/null || true
    rm -rf "$work"
    mkdir -p "$work/upper" "$work/work" "$work/root"
    mount -t overlay overlay -o "lowerdir=$cache/$suite,upperdir=$work/upper,workdir=$work/work" "$work/root"
    prepare "$work/root" "$folder" "$user" "$place"
    say "$suite, $folder, $user: $(commands "$command")"
    local began=$SECONDS status=0
    enter "$work/root" "$folder" "$user" "$([ "$place" = jailed ] && echo yes || echo no)" "$(commands "$command")" >"$log" 2>&1 || status=$?
    local took=$((SECONDS - began)) python level
    python=$(chroot "$work/root" python3 -c 'import sys; print("%d.%d" % sys.version_info[:2])')
    level=$(grep -o 'isolation level L[0-9]' "$log" | tail -n 1 | grep -o 'L[0-9]' || echo -)
    local closing=$level
    [ "$command" = demo ] || closing=$(grep -E '^=* ?[0-9]+ (passed|failed)' "$log" | tail -n 1 | tr -d '=' | sed 's/^ *//; s/ *$//')
    printf '%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n' "$suite" "$python" "$folder" "$user" "${command/part/tests of sandbox and runner}" "$status" "$took" "${closing:--}" >>"$table"
    if [ $status != 0 ]; then
        failed=1
        tail -n 25 "$log" | sed 's/^/    /'
    fi
    umount -l "$work/root"
    rm -rf "$work"
}

prepare() { # ROOT FOLDER USER PLACE
    local root=$1 folder=$2 user=$3
    # How this machine reaches its package registries is how that one does, too.
    for file in /etc/resolv.conf /etc/pip.conf /etc/ssl/certs/ca-certificates.crt; do
        [ ! -e "$file" ] || install -D "$(readlink -f "$file")" "$root$file"
    done
    [ -e "$root/etc/hosts" ] || printf '127.0.0.1 localhost\n::1 localhost ip6-localhost ip6-loopback\n' >"$root/etc/hosts"
    chroot "$root" useradd --create-home --shell /bin/bash dev
    chmod 0700 "$root/home/dev" "$root/root"
    if [ "$4" = userns ] || [ "$4" = jailed ]; then
        chroot "$root" sh -c 'apt-get update -qq && apt-get install -y -qq --no-install-recommends bubblewrap' >/dev/null 2>&1
    fi
    mkdir -p "$root$folder"
    (cd "$source" && git ls-files -z --cached --others --exclude-standard | xargs -0 tar c) | tar x -C "$root$folder" --no-same-owner
    chroot "$root" chown -R "$user:$user" "$folder"
    [ "$user" = root ] || chroot "$root" chown "$user:$user" "$(dirname "$folder")"
}

failed=0
table=$cache/table
printf 'suite\tpython\tfolder\tuser\tcommand\texit\tseconds\tisolation or tests\n' >"$table"
trap 'umount -l "$cache/row/root" 2>/dev/null || true; rm -rf "$cache/row"' EXIT
for row in "${rows[@]}"; do
    IFS=: read -r suite place command <<<"$row"
    [ -n "${folders[$place]:-}" ] && [ -n "$command" ] || { say "no such row: $row; the head of this file says what there is" >&2; exit 2; }
    run "$suite" "$place" "$command"
done
echo
column -t -s "$(printf '\t')" "$table" 2>/dev/null || cat "$table"
exit $failed
