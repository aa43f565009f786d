#!/bin/bash
# systemd_user.sh UID HOME [DIRECTORY...]
#
# A real `systemd --user` for a user id that needs no account, in namespaces of its own; run as root.
# The machine's /run and its processes stay out of reach; of its own it gets one control group, which
# is removed at the end.
# Prints "ready PID" (enter with: nsenter --target PID --mount --pid), or one line that begins with
# "unable", and ends with everything it started when its standard input ends.
#
# Every DIRECTORY is made reachable for the user, also below a closed one such as /root: the tested
# interpreter often lies there.
set -eu

# First: a control group for the manager, in a mount namespace, so that its mount goes with us.
outside() {
    local user=$1 home=$2
    mkdir "$home/cgroup"
    mount -t cgroup2 cgroup2 "$home/cgroup" 2>/dev/null || give_up "cgroup v2 cannot be mounted"
    group=$home/cgroup/handoffd-test-$$
    mkdir "$group" 2>/dev/null || give_up "a control group cannot be made"
    trap remove_group EXIT
    chown "$user" "$group" "$group"/cgroup.{procs,threads,subtree_control}
    (
        echo "$BASHPID" >"$group/cgroup.procs"
        exec unshare --mount --pid --cgroup --fork --kill-child "$0" --inside "$@"
    ) || exit
}

remove_group() {
    # The kernel ends a namespace's processes at once but frees their control groups a little later.
    for _ in {1..100}; do
        grep -qs 'populated 0' "$group/cgroup.events" && break
        sleep 0.05
    done
    find "$group" -depth -type d -exec rmdir {} +
}

give_up() {
    echo "unable: $1"
    exit 1
}

# Then, as the first process of the new process namespace: the world of the user, and the manager.
inside() {
    local user=$1 home=$2 host_pid
    shift 2
    # This /proc is still the outer one and knows us by the number that nsenter needs.
    read -r host_pid _ </proc/self/stat
    mount -t proc proc /proc
    # The new control group namespace makes our group the root of a new mount. The old one has to go
    # first: the kernel refuses the same file system twice in one place.
    umount -l /sys/fs/cgroup || true
    mount -t cgroup2 cgroup2 /sys/fs/cgroup
    mount -t tmpfs -o mode=755 tmpfs /run
    # libsystemd takes this directory for the sign that systemd runs the machine.
    mkdir -p /run/systemd/system
    install -d -m 700 -o "$user" -g "$user" "/run/user/$user"
    open_up "$@"
    setpriv --reuid "$user" --regid "$user" --clear-groups env -i \
        HOME="$home" XDG_RUNTIME_DIR="/run/user/$user" LANG=C.UTF-8 \
        PATH=/usr/local/bin:/usr/bin:/bin SYSTEMD_LOG_TARGET=console \
        /lib/systemd/systemd --user --unit=basic.target </dev/null >"$home/manager.log" 2>&1 &
    for _ in {1..200}; do
        [ -S "/run/user/$user/systemd/private" ] && break
        kill -0 $! 2>/dev/null || give_up "systemd --user ended: $(tail -n 1 "$home/manager.log")"
        sleep 0.05
    done
    [ -S "/run/user/$user/systemd/private" ] || give_up "systemd --user did not start within 10 s"
    echo "ready $host_pid"
    # Ends with the test, even with one that was killed; the kernel then ends the namespace.
    cat >/dev/null
}

open_up() {
    local directory number=0
    # Held elsewhere first: opening one may hide another.
    for directory in "$@"; do
        mkdir -p "/run/held/$number"
        mount --bind "$directory" "/run/held/$((number++))"
    done
    number=0
    for directory in "$@"; do
        hide_closed_ancestor "$directory"
        mkdir -p "$directory"
        mount --bind "/run/held/$((number++))" "$directory"
    done
}

hide_closed_ancestor() {
    local path='' part parts
    IFS=/ read -ra parts <<<"${1#/}"
    for part in "${parts[@]}"; do
        path=$path/$part
        [ -d "$path" ] || return 0
        if ((!($(stat -c '0%a' "$path") & 1))); then
            mount -t tmpfs -o mode=755 tmpfs "$path"
            return 0
        fi
    done
}

umask 022
case $1 in
--outside) shift && outside "$@" ;;
--inside) shift && inside "$@" ;;
*) exec unshare --mount --propagation private "$0" --outside "$@" ;;
esac
