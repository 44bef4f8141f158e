# The attacks, as a tenant would write them for sh; run as `sh attack.sh NAME FOLDER` inside a context.
# The same words as in attack.py. An attack prints what it got hold of, or nothing.
mark() { printf %s "$TARGET_MARK_REVERSED" | awk '{ for (i = length; i; i--) printf "%s", substr($0, i, 1) }'; }
found() {
    if [ -z "$(mark)" ]; then echo "this attack needs awk"; fi # a blunt weapon is no proof of a good shield
    if grep -q "$(mark)"; then echo "read the secret"; fi
}
readable() { if [ -n "$(head -c 1 "$1" | tr '\0' x)" ]; then echo "read it"; fi; }

read_file() { found <"$TARGET_SECRET_FILE"; }
read_tenant() { found <"$TARGET_OPEN_FILE"; }
hard_link() { ln "$TARGET_OPEN_FILE" link && echo linked; }
write_outside() {
    for place in / /usr /etc /dev /var/tmp /root /home "$TARGET_DIRECTORY"; do
        if touch "$place/attack-$$"; then rm -f "$place/attack-$$"; echo "wrote to $place"; return; fi
    done
}
set_uid_program() { if [ "$(id -u)" != 0 ] && [ "$("$WEAPONS/id" -u)" = 0 ]; then echo "runs as root"; fi; }
environment() { found </proc/self/environ; }
environment_of_init() { readable /proc/1/environ; }
environment_of_daemon() { readable "/proc/$TARGET_DAEMON_PID/environ"; }
descriptors_of_daemon() { found <"/proc/$TARGET_DAEMON_PID/fd/$TARGET_DAEMON_FD"; }
signal_daemon() { kill -0 "$TARGET_DAEMON_PID" && echo "can be signalled"; }
signal_neighbour() { kill -0 "$TARGET_NEIGHBOUR_PID" && echo "can be signalled"; }
survivor() { setsid sh -c "trap '' TERM; while :; do sleep 60; done" <&- >&- 2>&- & }
user_namespace() { unshare --user true && echo unshared; }
mount() { command mount -t tmpfs tmpfs "$PWD" && umount "$PWD" && echo mounted; }
fork_bomb() {
    ( # dash ends when it cannot fork
        count=0
        while [ $count -lt $((TARGET_PROCESSES * 3)) ]; do
            sleep 60 4>&- &
            echo >>forks
            count=$((count + 1))
        done
    )
    count=$(wc -l <forks)
    if [ "$count" -gt "$TARGET_PROCESSES" ]; then echo "$count processes"; fi
}
memory() {
    size=$(head -c $((TARGET_MEMORY_BYTES * 2)) /dev/zero | tail | wc -c)
    if [ "$size" = $((TARGET_MEMORY_BYTES * 2)) ]; then echo "$size bytes"; fi
}
big_file() {
    head -c $((TARGET_FILE_BYTES * 2)) /dev/zero >big
    if [ "$(wc -c <big)" -gt "$TARGET_FILE_BYTES" ]; then echo "a big file"; fi
}
fill_scratch() {
    written=0
    while [ $written -lt $((TARGET_SCRATCH_BYTES * 2)) ]; do
        head -c 1048576 /dev/zero >"fill$written" || return
        written=$((written + 1048576))
    done
    echo "$written bytes of files"
}
fill_inodes() {
    wanted=$((TARGET_SCRATCH_BYTES / 4096 * 2))
    seq "$wanted" | xargs touch && echo "$wanted empty files"
}
ignore_terminate() {
    trap '' TERM
    echo "stopped: not yet" >&4
    while :; do sleep 60; done
}
tcp() { bash -c "exec 9<>/dev/tcp/127.0.0.1/$TARGET_TCP_PORT" && echo connected; }
udp() { bash -c "exec 9<>/dev/udp/127.0.0.1/$TARGET_TCP_PORT && echo x >&9" && echo sent; }

WEAPONS=$2
echo trying >&4
case $1 in
    survivor | ignore_terminate) "$1"; got= ;;
    *) "$1" >got 4>&-; read -r got <got ;; # not $(…): that waits for all who hold the pipe
esac
if [ -n "$got" ]; then echo "through: $got" >&4; else echo "stopped: got nothing" >&4; fi
