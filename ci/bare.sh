#!/bin/sh
# Run commands as a newcomer would: in a bare Debian root that has just the five packages which the README names, as an
# ordinary user, in a fresh clone of this checkout's HEAD. It needs root, and debootstrap (installed if it is missing).
#
#   sh ci/bare.sh 'make demo && make test'
#
#   BARE_ROOT     the root; created if missing, and kept         a temporary one, removed at the end
#   BARE_USER     the user                                            newcomer
#   BARE_COPY     a file in the clone to copy to ., if it was written
#
# The root gets this machine's configuration of the package index and its certificates, and sees the local directories
# which that configuration names. What is mounted is mounted for this script alone. The exit code is the command's; 3 if
# the root cannot be made.
set -eu
cd "$(dirname "$0")/.."
root=${BARE_ROOT:-}
user=${BARE_USER:-newcomer}
copy=${BARE_COPY:-}
packages=python3,python3-venv,git,make,g++
suite=bookworm
PATH=$PATH:/usr/sbin:/sbin

cannot() {
    echo "error: $1" >&2
    [ $# -lt 2 ] || printf '\nhint: %s\n' "$2" >&2
    exit 3
}

[ $# -eq 1 ] || cannot "ci/bare.sh takes one argument, the command" "sh ci/bare.sh 'make demo && make test'"
[ "$(id -u)" -eq 0 ] || cannot "making a root needs root" "sudo sh ci/bare.sh …"
# Mounts of its own: they end with the script, however it ends.
[ -n "${BARE_INSIDE:-}" ] || exec env BARE_INSIDE=1 unshare --mount --propagation private sh "$0" "$1"

scratch=
if [ -z "$root" ]; then
    scratch=$(mktemp -d)
    root=$scratch/root
fi
# shellcheck disable=SC2329 # the trap calls it
finish() {
    [ -n "$scratch" ] || return 0
    # What is mounted below is not ours to remove.
    awk -v root="$root/" 'index($2, root) == 1 { print $2 }' /proc/self/mounts | sort -r | xargs -r umount --lazy
    grep -qF " $root/" /proc/self/mounts || rm -rf "$scratch"
}
trap finish EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

# What says where packages come from: files and variables, as pip reads them.
settings() { cat /etc/pip.conf "$HOME/.config/pip/pip.conf" "$HOME/.pip/pip.conf" 2>/dev/null; env | grep ^PIP_; }

if [ ! -x "$root/usr/bin/g++" ]; then
    command -v debootstrap >/dev/null || apt-get install -qq --yes --no-install-recommends debootstrap >/dev/null || {
        apt-get update -qq && apt-get install -qq --yes --no-install-recommends debootstrap >/dev/null
    } || cannot "debootstrap cannot be installed"
    from=$(sh ci/mirror.sh)
    echo "making a bare root from $from (a few minutes)"
    mkdir -p "$root"
    debootstrap --variant=minbase --include="$packages" "$suite" "$root" "$from" >"$root.log" 2>&1 || {
        tail -n 15 "$root.log" >&2
        cannot "debootstrap cannot make $suite from $from" "see that the mirror can be reached, and that this file system can hold devices"
    }
fi
chroot "$root" id "$user" >/dev/null 2>&1 || chroot "$root" useradd --create-home --shell /bin/bash "$user"
home=$(chroot "$root" sh -c "echo ~$user")

# A home and temporary files of nobody before.
rm -rf --one-file-system "${root:?}$home" "$root"/tmp/*
mkdir -p "$root$home"
for file in .config/pip/pip.conf .pip/pip.conf; do
    [ ! -e "$HOME/$file" ] || install -D --mode=644 "$HOME/$file" "$root$home/$file"
done
for file in /etc/pip.conf /etc/resolv.conf /etc/hosts; do
    [ ! -e "$file" ] || cp --dereference "$file" "$root$file"
done
# Certificates: those of this machine replace the root's own, also where links among them lead nowhere.
mkdir -p "$root/etc/ssl/certs"
[ ! -d /etc/ssl/certs ] || cp --recursive --dereference --remove-destination /etc/ssl/certs/. "$root/etc/ssl/certs/" 2>/dev/null || true
for file in ${SSL_CERT_FILE:-} ${REQUESTS_CA_BUNDLE:-} ${PIP_CERT:-}; do
    [ ! -f "$file" ] || install -D --mode=644 "$file" "$root$file"
done
for directory in $(settings | grep -oE "(file://)?/[^][ '\",]+" | sed 's,^file://,,' | sort -u); do
    directory=${directory%/simple} # an index names its files beside itself
    [ -d "$directory" ] || continue
    mkdir -p "$root$directory"
    mount --bind -o ro "$directory" "$root$directory"
done
mount -t proc proc "$root/proc"
mount --rbind /dev "$root/dev"

git -c safe.directory='*' clone --quiet --no-hardlinks . "$root$home/patchstack"
chroot "$root" chown -R "$user:$user" "$home"
passed=$(env | grep -E '^(PIP_|SSL_CERT_|REQUESTS_CA_BUNDLE=|CURL_CA_BUNDLE=|https?_proxy=|HTTPS?_PROXY=|no_proxy=|NO_PROXY=)' | grep -v ' ' || true)
code=0
# shellcheck disable=SC2016,SC2086 # the inner shell expands; a variable a word
chroot --userspec="$user:$user" "$root" env -i PATH=/usr/local/bin:/usr/bin:/bin HOME="$home" USER="$user" LOGNAME="$user" \
    LANG=C.UTF-8 TERM="${TERM:-dumb}" $passed sh -c 'cd "$HOME/patchstack" && exec sh -c "$0"' "$1" || code=$?
[ -z "$copy" ] || [ ! -e "$root$home/patchstack/$copy" ] || install -D --mode=644 "$root$home/patchstack/$copy" "$copy"
exit "$code"
