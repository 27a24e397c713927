#!/bin/sh
# A Docker engine, and the image that the tests run their jobs in: Debian with what a C++ build needs. On a bare Debian
# machine, as root, this installs and starts what is missing; where all is there it only looks. Containers get no network:
# the engine is started without a bridge and without firewall rules, which needs nothing of the machine's own network.
#
#   ENGINE_SOCKET   where the engine listens            /var/run/docker.sock
#   ENGINE_STATE    a directory for all that is its own  the engine's defaults
#   ENGINE_IMAGE    the image                           patchstack-test-base:bookworm
#   ENGINE_WAIT     seconds to wait for it to answer    60
#
# Exit code 3: it cannot be done here, and why.
set -eu
socket=${ENGINE_SOCKET:-/var/run/docker.sock}
state=${ENGINE_STATE:-}
image=${ENGINE_IMAGE:-patchstack-test-base:bookworm}
wait=${ENGINE_WAIT:-60}
suite=${image##*:}
packages=g++,cmake,ninja-build,ccache,git,make

cannot() {
    echo "error: $1" >&2
    [ $# -lt 2 ] || printf '\nhint: %s\n' "$2" >&2
    exit 3
}

# What is asked of docker is asked of this engine alone, whatever the environment says.
engine() { env -u DOCKER_CONTEXT -u DOCKER_TLS_VERIFY DOCKER_HOST="unix://$socket" docker "$@"; }

answers() { command -v docker >/dev/null && engine version --format '{{.Server.Version}}' 2>/dev/null; }

needs_root() { [ "$(id -u)" -eq 0 ] || cannot "$1 needs root" "run it as root: sudo ci/docker-engine.sh"; }

# install PROGRAM PACKAGE: install the package if the program is missing.
install() {
    [ -z "$(PATH=$PATH:/usr/sbin:/sbin command -v "$1")" ] || return 0
    needs_root "installing $2"
    command -v apt-get >/dev/null || cannot "$1 is not here, and no apt-get to install it with" "install $1"
    if ! apt-get install -qq --yes --no-install-recommends "$2" >"$log" 2>&1; then
        apt-get update -qq >"$log" 2>&1 || true
        apt-get install -qq --yes --no-install-recommends "$2" >"$log" 2>&1 || {
            cat "$log" >&2
            cannot "$2 cannot be installed"
        }
    fi
    echo "installed $2"
}

start() {
    install dockerd docker.io
    install docker docker-cli # a package of its own since Debian 13
    needs_root "starting an engine"
    # A package that was just installed may have started its own.
    [ -z "$(answers)" ] || return 0
    set -- --iptables=false --ip6tables=false --bridge=none --host "unix://$socket"
    if [ -n "$state" ]; then
        mkdir -p "$state"
        set -- "$@" --data-root "$state/data" --exec-root "$state/exec" --pidfile "$state/dockerd.pid"
    fi
    daemon_log=${state:-/var/log}/dockerd.log
    # Apart from this script in all: a CI step that ends takes its children with it.
    PATH=$PATH:/usr/sbin:/sbin setsid dockerd "$@" >"$daemon_log" 2>&1 </dev/null &
    pid=$!
    waited=0
    until [ -n "$(answers)" ]; do
        if ! kill -0 "$pid" 2>/dev/null || [ "$waited" -ge "$wait" ]; then
            ! kill -0 "$pid" 2>/dev/null || kill "$pid"
            tail -n 15 "$daemon_log" >&2
            cannot "no Docker engine can run here: dockerd gave up, or did not answer in $wait s" \
                "it needs a kernel with cgroups, namespaces and overlayfs, and the right to mount: not an unprivileged container"
        fi
        sleep 1
        waited=$((waited + 1))
    done
    echo "started dockerd (log: $daemon_log)"
}

make_image() {
    install debootstrap debootstrap
    needs_root "making a root file system"
    from=$(sh "$(dirname "$0")/mirror.sh")
    echo "making $image from $from (a few minutes)"
    PATH=$PATH:/usr/sbin:/sbin debootstrap --variant=minbase --include="$packages" "$suite" "$root" "$from" >"$log" 2>&1 || {
        tail -n 15 "$log" >&2
        cannot "debootstrap cannot make $suite from $from" "see that the mirror can be reached, and that this file system can hold devices"
    }
    rm -rf "$root"/var/cache/apt/archives/*.deb "$root"/var/lib/apt/lists/*
    tar -C "$root" --numeric-owner --exclude=./proc/* --exclude=./sys/* -c . | engine import --message "debootstrap $suite" - "$image" >/dev/null
}

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM
log=$scratch/log
root=$scratch/root

[ -n "$(answers)" ] || start
if [ -z "$(engine image ls --quiet "$image")" ]; then
    make_image
fi
echo "Docker engine $(answers) at unix://$socket has $image"
