"""Read the hardware and the activity of a machine with one script.

nvidia-smi prints `[N/A]` or `[Not Supported]` for a field that a GPU does not support. A field that nvidia-smi itself
does not support makes the whole query fail. Therefore, a separate query requests only the fields that old drivers
support.

Sources of the formats: `nvidia-smi --help-query-gpu` and `--help-query-compute-apps`, proc(5), docker-ps(1).
"""

from __future__ import annotations

from collections.abc import Mapping

from patchstack.machine.ask import PART, Ask, Reply, ask_parts

GPU_FIELDS = ("index", "uuid", "driver_version", "memory.total", "compute_cap", "power.limit", "mig.mode.current")
"""The fields of a GPU query. `name` is queried after these fields, because it may contain commas."""
GPU_FIELDS_OF_OLD = ("index", "uuid", "driver_version", "memory.total")
STATE_FIELDS = ("index", "utilization.gpu", "memory.used", "temperature.gpu", "power.draw", "pstate", "clocks.sm")
APP_FIELDS = ("gpu_uuid", "pid", "used_memory")

_HARDWARE = """
LC_ALL=C; export LC_ALL
limit=
command -v timeout >/dev/null 2>&1 && limit='timeout -s KILL 20'
smi=
for place in nvidia-smi /usr/bin/nvidia-smi /usr/lib/wsl/lib/nvidia-smi /usr/local/nvidia/bin/nvidia-smi
do
    if command -v $place >/dev/null 2>&1; then smi=$place; break; fi
done
contained() {
    # 4026531836 is PROC_PID_INIT_INO, the kernel's own number of the first process namespace.
    if [ "$(readlink /proc/self/ns/pid)" = 'pid:[4026531836]' ]; then return 0
    elif [ -e /.dockerenv ]; then echo docker
    elif [ -e /run/.containerenv ]; then echo podman
    elif [ -n "$KUBERNETES_SERVICE_HOST" ]; then echo kubernetes
    elif [ -e /dev/dxg ]; then echo wsl
    elif [ -e /proc/self/ns/pid ]; then echo container
    fi
}
driver() {
    cat /proc/driver/nvidia/version 2>/dev/null || { [ -e /dev/nvidiactl ] && echo /dev/nvidiactl; } ||
        { [ -e /dev/dxg ] && echo /dev/dxg; }
}
query() { $limit $smi --query-$1 --format=csv,noheader,nounits; }
part kernel uname -s -r -m
part host uname -n
part boot cat /proc/sys/kernel/random/boot_id
part cpus getconf _NPROCESSORS_ONLN
part cpu sh -c "grep -E '^(model name|CPU part)' /proc/cpuinfo | sort -u"
part memory grep MemTotal /proc/meminfo
part contained contained
part driver driver
part smi test -n "$smi"
if [ -n "$smi" ]
then
    part gpus query gpu=@GPU@,name
    case $code in 124 | 137) smi= ;; esac  # do not ask a hanging nvidia-smi again
fi
if [ -n "$smi" ]
then
    part old query gpu=@OLD@,name
    part list $limit $smi -L
fi
"""
_STATE = """
if [ "$1" = state ]
then
    part stat head -n 1 /proc/stat
    if [ -n "$smi" ]
    then
        part state query gpu=@STATE@
        part reasons query gpu=index,clocks_event_reasons.active
        part reasons_of_old query gpu=index,clocks_throttle_reasons.active
        part apps query compute-apps=@APPS@,process_name
    fi
    sleep 0.5 2>/dev/null || sleep 1
    part stat_later head -n 1 /proc/stat
    part load cat /proc/loadavg
    format='{{.ID}}\t{{.Label "patchstack.owner"}}\t{{.Label "patchstack.job"}}\t{{.Image}}\t{{.Names}}'
    unset DOCKER_HOST DOCKER_CONTEXT
    n=0
    for socket in /var/run/docker.sock "${XDG_RUNTIME_DIR:-/run/user/$(id -u)}/docker.sock"
    do
        if [ -S "$socket" ]
        then
            n=$((n + 1))
            if command -v docker >/dev/null 2>&1
            then part docker$n $limit docker --host "unix://$socket" ps --no-trunc --format "$format"
            else part docker$n sh -c 'echo "there is a socket, and no docker program"; exit 127'
            fi
        fi
    done
    command -v podman >/dev/null 2>&1 &&
        part podman $limit podman ps --no-trunc --format "$format"
fi
"""
SCRIPT = (
    (PART + _HARDWARE + _STATE + "part done :\n")
    .replace("@GPU@", ",".join(GPU_FIELDS))
    .replace("@OLD@", ",".join(GPU_FIELDS_OF_OLD))
    .replace("@STATE@", ",".join(STATE_FIELDS))
    .replace("@APPS@", ",".join(APP_FIELDS))
)
"""The script for `/bin/sh -c`. It prints the parts that are defined above, and writes no files."""

Parts = Mapping[str, Reply]


def probe(ask: Ask, *, state: bool = False) -> Parts:
    """Run the script on a machine and return the parts of its output by name.

    With `state`, the parts include the machine's activity, and the script takes at least 0.5 s longer.

    Raises `MissingError` if the machine does not answer, or if the output is incomplete.
    """
    return ask_parts(ask, SCRIPT, "state" if state else "hardware")


def rows(said: Reply | None, fields: int) -> list[list[str]] | None:
    """Return the rows of an nvidia-smi query.

    Each row has `fields` fields and one last field, which may contain commas. Return None if the query failed or
    printed something else. Values such as `[N/A]` and `[Not Supported]` are not converted; see `number`.
    """
    if said is None or not said.ok:
        return None
    found = []
    for line in filter(None, map(str.strip, said.text.splitlines())):
        if line.startswith("WARNING:"):  # for example about a corrupted infoROM; the rows are still valid
            continue
        row = [field.strip() for field in line.split(",", fields)]
        if len(row) != fields + 1:
            return None
        found.append(row)
    return found


def number(field: str) -> float | None:
    """Return the number at the start of a text, without the unit that follows it.

    Return None for a text without a number, such as nvidia-smi's `[N/A]`, `[Not Supported]` or `ERR!`.
    """
    try:
        return float(field.split()[0])
    except (ValueError, IndexError):
        return None
