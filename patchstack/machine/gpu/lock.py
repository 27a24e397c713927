"""Lock a GPU, so that only one run uses it at a time. All users and clients of the machine share the lock.

The lock is a directory on the machine with the GPU. A small script reads and changes the owner file in this directory
(see `lock_record`). The script runs through `ask`. It changes the file only if the file has not changed since it was
read. During the change, the script holds an flock(2) lock, which the kernel releases when the script ends. So two
processes never get the GPU's lock at the same time. The owner writes a heartbeat every few seconds.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import signal
import threading
import time
from collections.abc import Callable, Collection, Iterator
from dataclasses import replace

from patchstack.causes import GpuLockUnusable
from patchstack.errors import Exit, MissingError, PatchstackError
from patchstack.files import processes
from patchstack.machine.ask import PART, PLACES, Ask, Place, Reply, ask_parts
from patchstack.machine.gpu.lock_record import (
    ODD,
    File,
    Holder,
    Now,
    Owner,
    Standing,
    free_line,
    holder_of,
    record_line,
    taken_line,
    this_process,
)

__all__ = ["GpuTaken", "Held", "Holder", "LockLost", "Place", "Standing", "end_below", "gpu_lock", "let_go_of", "look"]

TOKEN = "PATCHSTACK_GPU_LOCK"  # noqa: S105  (the name of a variable)
"""The environment variable with the token of the lock, for programs that `patchstack gpu lock` starts."""
BEAT = 15.0
STALE = 120.0
_LONGEST_POLL = 5.0
_QUICKER = 5
_ABSENT = "none"

SCRIPT = (
    PART
    + """
LC_ALL=C; export LC_ALL
verb=$1; shift
uptime() { sed 's/ .*//' /proc/uptime 2>/dev/null || echo -; }
boot() { cat /proc/sys/kernel/random/boot_id 2>/dev/null || echo -; }
digest() {
    if [ -f "$1" ] && [ ! -L "$1" ]; then cksum <"$1"
    elif [ -e "$1" ] || [ -L "$1" ]; then echo odd
    else echo none
    fi
}
expand() { case $1 in '~/'*) dir=$HOME/${1#'~/'} ;; *) dir=$1 ;; esac; }
now() { boot; uptime; date +%s; readlink /proc/self/ns/pid || echo -; }
process() {
    pid=$(sed -n 's/^{.*"pid": \\([0-9][0-9]*\\)[,}].*/\\1/p' "$dir/owner")
    [ -n "$pid" ] && [ -e /proc/1 ] || return 1
    cat "/proc/$pid/stat" 2>/dev/null || true
}
change() {
    expected=$1; first=$2; second=$3
    if [ -L "$dir" ]; then echo 'it is a symbolic link'; return 5; fi
    [ -d "$dir" ] || (umask 000; mkdir "$dir") || [ -d "$dir" ] || return 5
    command -v flock >/dev/null || { echo 'flock is not installed'; return 5; }
    if [ -L "$dir/guard" ]; then echo 'its guard file is a symbolic link'; return 5; fi
    [ -f "$dir/guard" ] || (umask 000; set -C; : >"$dir/guard") 2>/dev/null
    [ -f "$dir/guard" ] || { echo 'its guard file cannot be created'; return 5; }
    exec 9<"$dir/guard" || return 5
    n=0
    until flock -n 9
    do
        n=$((n + 1))
        if [ $n -gt 100 ]; then echo 'another process has held its guard file for 10 s'; return 5; fi
        sleep 0.1
    done
    was=$(digest "$dir/owner")
    [ "$was" = "$expected" ] || return 3
    if [ "$was" = odd ]; then echo 'its owner file is not a regular file'; return 5; fi
    rm -f "$dir/owner.new" || return 5
    time=$(date +%s)
    (
        set -C
        umask 022
        {
            printf '%s %s\\n' "$first" $time &&
                { [ -z "$second" ] || printf '%s\\nbeat %s %s %s\\n' "$second" "$(boot)" "$(uptime)" $time; }
        } >"$dir/owner.new"
    ) && mv -f "$dir/owner.new" "$dir/owner" || { rm -f "$dir/owner.new"; return 5; }
    digest "$dir/owner"
}
part now now
if [ "$verb" = change ]
then
    expand "$1"
    part change change "$2" "$3" "$4"
else
    n=0
    for place
    do
        expand "$place"
        part digest$n digest "$dir/owner"
        part text$n head -c 20000 "$dir/owner"
        part modified$n stat -c %Y "$dir/owner"
        part process$n process
        n=$((n + 1))
    done
fi
part done :
"""
)
"""The script for `/bin/sh -c`.

`look PLACE…` reads owner files and writes nothing. `change PLACE DIGEST FIRST SECOND` replaces an owner file if its
digest (cksum(1)) is DIGEST. It exits with 3 if the digest differs, and with 5 if the change cannot be made.
"""


class GpuTaken(PatchstackError):
    """Another process has the GPU, so the run cannot start now."""

    code = "PS0717"
    exit_code = Exit.INVALID


class LockLost(PatchstackError):
    """Another process took the lock during the run, or may have taken it because no heartbeat could be written."""

    code = "PS0718"
    exit_code = Exit.INVALID


Tell = Callable[[str], None]


def look(
    ask: Ask, places: tuple[Place, ...] = PLACES, *, tokens: Collection[str] = (), stale: float = STALE
) -> tuple[Holder, ...]:
    """Return the state of the lock, one `Holder` for each of its directories. Writes nothing.

    `tokens` are the tokens of locks that this process has. If the owner's process cannot be inspected, its lock expires
    after `stale` seconds without a heartbeat.
    """
    files, now = _read(ask, places)
    return tuple(holder_of(file, now, tokens=(*tokens, *_inherited()), stale=stale) for file in files)


def let_go_of(ask: Ask, holder: Holder) -> bool:
    """Release the lock of a different process.

    Return False if the lock changed since `holder` was read.
    """
    return _change(ask, holder.place, holder.digest, free_line(holder.owner), "") is not None


@contextlib.contextmanager
def gpu_lock(
    ask: Ask,
    purpose: str,
    *,
    places: tuple[Place, ...] = PLACES,
    wait: float = 0.0,
    every: float = 30.0,
    tell: Tell | None = None,
    beat: float = BEAT,
    stale: float = STALE,
) -> Iterator[Held]:
    """Hold the GPU's lock during a `with` block.

    If the lock's owner is gone, the lock is taken over. If the owner is alive, wait up to `wait` seconds, with a
    message every `every` seconds. A thread writes a heartbeat through `ask` every `beat` seconds. A process that runs
    under `patchstack gpu lock` (see `TOKEN`) uses the lock of that command.

    Raises `GpuTaken` if another process still has the lock, and `MissingError` if the machine does not answer or the
    lock cannot be written.
    """
    held = Held(ask, this_process(secrets.token_hex(8), purpose), tell=tell, beat=beat, stale=stale)
    try:
        held.acquire(places, wait=wait, every=every)
        yield held
    finally:
        held.release()


class Held:
    """A lock that this process has.

    `notes` describe the previous owners whose locks were taken over. `lost` is the reason why the lock was lost, or
    None if it was not lost.
    """

    def __init__(self, ask: Ask, owner: Owner, *, tell: Tell | None, beat: float, stale: float) -> None:
        self.owner = owner
        self.notes: list[str] = []
        self.lost: str | None = None
        self._ask = ask
        self._tell = tell or (lambda _: None)
        self._beat = beat
        self._stale = stale
        self._digests: dict[Place, str] = {}
        self._inherited = False
        self._places: tuple[Place, ...] = ()
        self._in_the_way: list[Holder] = []
        self._quicker = 0
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None

    @property
    def token(self) -> str:
        return self.owner.token

    def check(self) -> None:
        """Raise `LockLost` if another process may have used the GPU since the lock was acquired."""
        if self._inherited and not any(holder.standing is Standing.OURS for holder in look(self._ask, self._places)):
            self.lost = "the lock that this command ran under is gone"
        if self.lost is not None:
            raise LockLost(
                f"the GPU's lock was lost during the run: {self.lost}",
                hint="run the command again; these measurements do not count",
            )

    def acquire(self, places: tuple[Place, ...], *, wait: float, every: float) -> None:
        """Acquire the lock at all places. Waits and raises errors as described in `gpu_lock`."""
        self._places = places
        began = told = time.monotonic()
        watched: dict[Place, tuple[str, float]] = {}
        first = True
        while not self._try(places, watched):
            seconds = time.monotonic() - began
            if self._quicker and self._quicker <= _QUICKER:
                continue  # the owner file changed after it was read: read it again, even if `wait` is 0
            words = "; ".join(holder.words for holder in self._in_the_way)
            if seconds >= wait:
                tried = f" (waited {seconds:.0f} s)" if wait else ""
                raise GpuTaken(f"the GPU is taken: {words}{tried}", hint=_hint(self._in_the_way))
            if first or time.monotonic() - told >= every:
                self._tell(f"waiting for the GPU, {seconds:.0f} of {wait:.0f} s: {words}")
                told, first = time.monotonic(), False
            time.sleep(min(1.0 + seconds / 20, _LONGEST_POLL, max(0.05, wait - seconds)))
        for note in self.notes:
            self._tell(f"note: the GPU's lock is taken over: {note}")
        if not self._inherited:
            self._thread = threading.Thread(target=self._live, name="GPU lock", daemon=True)
            self._thread.start()

    def release(self) -> None:
        """Release the lock. A failure is reported and not raised, because a lock without a heartbeat expires."""
        self._ended.set()
        if self._thread is not None:
            self._thread.join(timeout=10)
            self._thread = None
        for place in reversed(list(self._digests)):
            try:
                self._free(place)
            except KeyboardInterrupt:  # try once more, because others wait until an unreleased lock expires
                self._free(place)
                raise
            except (MissingError, OSError) as error:
                self._tell(
                    f"warning: the GPU's lock could not be released: {error}; "
                    f"the lock expires after {self._stale:.0f} s"
                )

    def _free(self, place: Place) -> None:
        digest = self._digests[place]
        # After an interruption it is unknown whether the change was made. The token in the file shows it.
        for _ in range(3):
            if digest and _change(self._ask, place, digest, free_line(self.owner), "") is not None:
                break
            holder = self._look_at(place)
            if holder is None or holder.standing is not Standing.OURS:
                break
            digest = holder.digest
        del self._digests[place]

    def _look_at(self, place: Place) -> Holder | None:
        files, now = _read(self._ask, (place,))
        return next((holder_of(file, now, tokens=(self.token,), stale=self._stale) for file in files), None)

    def _try(self, places: tuple[Place, ...], watched: dict[Place, tuple[str, float]]) -> bool:
        """Try to take the lock at every place.

        If another process has the lock at any place, take none and return False.
        """
        files, now = _read(self._ask, places)
        if not files:
            raise GpuLockUnusable("no directory is given for the GPU's lock", hint="name a directory with --lock DIR")
        inherited = _inherited()
        holders = []
        for file in files:
            if watched.get(file.place, ("", 0.0))[0] != file.digest:
                watched[file.place] = (file.digest, time.monotonic())
            unchanged = time.monotonic() - watched[file.place][1]
            holders.append(holder_of(file, now, tokens=inherited, stale=self._stale, unchanged=unchanged))
        self._in_the_way = [
            holder for holder in holders if holder.standing in (Standing.LIVE, Standing.FOREIGN, Standing.UNREADABLE)
        ]
        if self._in_the_way:
            self._quicker = 0
            return False
        if any(holder.standing is Standing.OURS for holder in holders):
            self._inherited = True
            return True
        self.owner = replace(self.owner, since=now.epoch)
        for holder in holders:
            self._digests[holder.place] = ""  # from here on, `release` must check this place
            digest = _change(self._ask, holder.place, holder.digest, taken_line(self.owner), record_line(self.owner))
            if digest is None:  # another process was faster
                del self._digests[holder.place]
                self._in_the_way = [replace(holder, words="another process was faster")]
                self._quicker += 1
                for place in list(self._digests):
                    self._free(place)
                return False
            self._digests[holder.place] = digest
        self.notes = [holder.words for holder in holders if holder.standing is Standing.DEAD]
        return True

    def _live(self) -> None:
        """Write heartbeats until the lock is released, or until another process has taken it."""
        good = time.monotonic()
        while not self._ended.wait(self._beat):
            try:
                for place, digest in list(self._digests.items()):
                    changed = _change(self._ask, place, digest, taken_line(self.owner), record_line(self.owner))
                    if changed is None:
                        self.lost = f"{place.path}: {self._whose(place)}"
                        return
                    self._digests[place] = changed
            except (PatchstackError, OSError) as error:
                silent = time.monotonic() - good
                if silent > self._stale:
                    self.lost = f"no heartbeat could be written for {silent:.0f} s: {error}"
            else:
                good = time.monotonic()

    def _whose(self, place: Place) -> str:
        with contextlib.suppress(PatchstackError, OSError):
            holder = self._look_at(place)
            if holder is not None:
                return holder.words
        return "somebody changed it"


def _hint(holders: list[Holder]) -> str:
    if any(holder.standing in (Standing.FOREIGN, Standing.UNREADABLE) for holder in holders):
        return "if nobody uses the GPU anymore, run 'patchstack gpu unlock --force'"
    return "wait with --wait SECONDS; 'patchstack gpu status' shows who has it"


def _inherited() -> tuple[str, ...]:
    token = os.environ.get(TOKEN, "")
    return (token,) if token else ()


def _read(ask: Ask, places: tuple[Place, ...]) -> tuple[list[File], Now]:
    parts = ask_parts(ask, SCRIPT, "look", *(place.path for place in places))
    now = _now(parts)
    files = []
    for number, place in enumerate(places):
        digest, text, modified, process = (
            parts[f"{name}{number}"] for name in ("digest", "text", "modified", "process")
        )
        found = digest.text.strip() if (digest.ok and text.ok) or digest.text.strip() == _ABSENT else ODD
        there = found != _ABSENT
        if place.if_there and not there:
            continue
        files.append(
            File(
                place=place,
                text=(text.text if text.ok else "") if there else None,
                digest=found,
                modified=float(modified.text) if modified.ok and modified.text.strip().isdecimal() else None,
                process=process.text if process.ok else None,
            )
        )
    return files, now


def _change(ask: Ask, place: Place, digest: str, first: str, second: str) -> str | None:
    """Replace an owner file and return its new digest. Return None if the file no longer has `digest`."""
    said = ask_parts(ask, SCRIPT, "change", place.path, digest, first, second)["change"]
    if said.code == 3:
        return None
    if said.code:
        words = " ".join(said.text.split())[:300] or f"exit code {said.code}"
        raise GpuLockUnusable(
            f"the GPU's lock at {place.path} cannot be written: {words}",
            hint="check the disk and the owner of this directory; flock is in the package util-linux",
        )
    return said.text.strip()


def _now(parts: dict[str, Reply]) -> Now:
    boot, uptime, epoch, namespace = (parts["now"].text.split("\n") + [""] * 4)[:4]
    try:
        return Now(
            boot="" if boot == "-" else boot,
            namespace="" if namespace == "-" else namespace,
            uptime=None if uptime == "-" else float(uptime),
            epoch=float(epoch),
        )
    except ValueError as error:
        raise GpuLockUnusable(f"the machine's time cannot be read: {parts['now'].text[:200]!r}") from error


def end_below(token: str) -> None:
    """Kill every process that runs under the lock with this token, except this process.

    Does nothing on a system without /proc.
    """
    mark = f"{TOKEN}={token}".encode()
    for pid, environment in processes.environments():
        if pid != os.getpid() and mark in environment:
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)
