"""Format and parse the owner file of a GPU lock, and decide whether its owner is alive.

The file is `owner` in the lock's directory. Its first line has the format of hand-written scripts: `FREE
released-by-NAME EPOCH` if nobody has the GPU, otherwise the name of the owner. patchstack adds a line of JSON that
identifies the owner exactly, and a line with the last heartbeat. The times are those of the machine with the GPU.
"""

from __future__ import annotations

import getpass
import json
import os
import re
from collections.abc import Collection
from dataclasses import dataclass
from enum import StrEnum

from patchstack.canonical import one_line
from patchstack.files import processes
from patchstack.machine.ask import Place

SCHEMA = "patchstack.gpu-lock/1"
ODD = "odd"
"""The digest of an owner file that is not a regular file or cannot be read. Such a lock is never taken over."""
_MARK = "patchstack:"
_TOLERANCE = 5.0


class Standing(StrEnum):
    """The state of a lock.

    FREE means that no process has the lock. OURS means that this process has it. LIVE means that another process has
    it. DEAD means that its owner is gone. FOREIGN means that its owner is not patchstack, so it is unknown whether the
    owner is gone. UNREADABLE means that the owner file cannot be read.
    """

    FREE = "free"
    OURS = "ours"
    LIVE = "live"
    DEAD = "dead"
    FOREIGN = "foreign"
    UNREADABLE = "unreadable"


@dataclass(frozen=True, slots=True, kw_only=True)
class Owner:
    """A process that has a GPU's lock, or wants it.

    `token` is unique to one acquisition. `boot` (the boot id of its machine), `namespace` (its PID namespace), `pid`
    and `start` (its start time) identify the process. `since` is the time of the acquisition in seconds since the
    epoch, according to the clock of the machine with the GPU. It is 0 if unknown.
    """

    token: str
    user: str
    host: str
    pid: int
    start: str
    boot: str
    namespace: str
    purpose: str
    since: float = 0.0

    @property
    def called(self) -> str:
        return f"{self.user}@{self.host} pid {self.pid} ({self.purpose})"


@dataclass(frozen=True, slots=True, kw_only=True)
class Sign:
    """The last heartbeat.

    `boot` is the boot id of the machine with the GPU. `uptime` and `epoch` are that machine's uptime and clock at the
    heartbeat, in seconds.
    """

    boot: str
    uptime: float | None
    epoch: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Now:
    """The state of the machine with the GPU when the lock was read.

    It contains the boot id, the PID namespace, and the uptime and clock in seconds.
    """

    boot: str
    namespace: str
    uptime: float | None
    epoch: float


@dataclass(frozen=True, slots=True, kw_only=True)
class File:
    """An owner file as it was read.

    `text` is None if the file does not exist. `digest` is needed to change the file. `modified` is the modification
    time in seconds since the epoch. `process` is the content of /proc/PID/stat, on the machine with the GPU, for the
    process that the file names. It is empty if the process does not exist, and None if unknown.
    """

    place: Place
    text: str | None
    digest: str
    modified: float | None = None
    process: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Holder:
    """The state of a lock, according to its owner file.

    `words` describe the state for a message. `owner` is set if patchstack wrote the file.
    """

    place: Place
    standing: Standing
    words: str
    digest: str
    owner: Owner | None = None


def this_process(token: str, purpose: str) -> Owner:
    """Return this process as the owner of a lock with this token and purpose."""
    started = processes.stat(os.getpid())
    return Owner(
        token=token,
        user=_user(),
        host=os.uname().nodename,
        pid=os.getpid(),
        start=started.start if started is not None else "",
        boot=processes.boot_id(),
        namespace=processes.pid_namespace(),
        purpose=" ".join(purpose.split())[:200] or "unnamed",
    )


def process_here(owner: Owner) -> str | None:
    """Return the text of /proc/PID/stat for an owner, or an empty string if its process has ended.

    Return None if the owner belongs to a different machine or PID namespace, or if other processes are not visible.
    """
    me = this_process("", "")
    if not owner.boot or not owner.namespace or (owner.boot, owner.namespace) != (me.boot, me.namespace):
        return None
    return processes.stat_text(owner.pid) if processes.shows_every_process() else None


def taken_line(owner: Owner) -> str:
    """Return the first line of an owner file for a taken lock, without the time at the end of the line."""
    return f"{_MARK}{_word(owner.user)}@{_word(owner.host)}:{owner.pid}:{_word(owner.purpose)}"


def free_line(owner: Owner | None) -> str:
    """Return the first line of an owner file for a released lock, without the time at the end of the line."""
    return f"FREE released-by-patchstack{'-' + _word(owner.purpose) if owner is not None else ''}"


def record_line(owner: Owner) -> str:
    """Return the second line of an owner file for a taken lock: the owner as JSON."""
    return one_line({"schema": SCHEMA, **{name: getattr(owner, name) for name in Owner.__slots__}})


def read_owner(text: str) -> tuple[Owner, Sign] | None:
    """Return the owner and its last heartbeat from the text of an owner file.

    Return None if patchstack did not write the file, or if the file is incomplete.
    """
    lines = text.splitlines()
    if len(lines) != 3 or not lines[0].startswith(_MARK):
        return None
    try:
        found = json.loads(lines[1])
        if found.pop("schema") != SCHEMA:
            return None
        owner = Owner(**found)
        word, boot, uptime, epoch = lines[2].split(" ")
        sign = Sign(boot="" if boot == "-" else boot, uptime=_seconds(uptime), epoch=float(epoch))
    except (ValueError, TypeError, AttributeError, KeyError, RecursionError):
        return None
    texts = (owner.token, owner.user, owner.host, owner.start, owner.boot, owner.namespace, owner.purpose)
    whole = all(isinstance(each, str) for each in texts) and type(owner.pid) is int and word == "beat" and owner.token
    return (owner, sign) if whole and isinstance(owner.since, int | float) else None


def holder_of(file: File, now: Now, *, tokens: Collection[str], stale: float, unchanged: float = 0.0) -> Holder:
    """Determine the state of a lock from its owner file.

    `tokens` are the tokens of the locks that the calling process has. If the owner's process can be inspected, the age
    of the heartbeat is ignored: the owner is alive as long as its process exists. Otherwise, the owner is gone after
    `stale` seconds without a heartbeat. `unchanged` is how long the caller has seen the same file content, in seconds.
    """
    if file.text is None or file.text.split(maxsplit=1)[:1] == ["FREE"]:
        words = "free" if file.text is None else f"free ({' '.join(file.text.split())[:120]})"
        return _holder(file, Standing.FREE, words)
    read = read_owner(file.text)
    if read is None:
        return _not_ours(file, now, stale=stale, unchanged=unchanged)
    owner, sign = read
    if owner.token in tokens:
        return _holder(file, Standing.OURS, f"ours ({owner.purpose})", owner)
    has = f"{owner.called} has the GPU{_since(owner, now)}"
    if gone := _gone(owner, sign, file, now, stale=stale, unchanged=unchanged):
        return _holder(file, Standing.DEAD, f"{owner.called} had the GPU: {gone}", owner)
    silent = _age(sign, now)
    note = f"; no heartbeat for {silent:.0f} s, but its process exists" if silent and silent > stale else ""
    return _holder(file, Standing.LIVE, has + note, owner)


def _gone(owner: Owner, sign: Sign, file: File, now: Now, *, stale: float, unchanged: float) -> str | None:
    """Return the reason why an owner is gone, or None if the owner may be alive."""
    if sign.boot and now.boot and sign.boot != now.boot:
        return "the machine was restarted since then"
    process = process_here(owner)
    if (
        process is None
        and owner.boot
        and owner.namespace
        and (owner.boot, owner.namespace) == (now.boot, now.namespace)
    ):
        process = file.process
    if process is not None:
        seen = processes.read_stat(process)
        alive = seen is not None and seen.start == owner.start and not seen.ended
        return None if alive else f"its process {owner.pid} is gone"
    age = _age(sign, now)
    if age is None or age < -_TOLERANCE:  # the clock was set back, so rely on what the caller saw
        return f"this process saw no heartbeat for {unchanged:.0f} s" if unchanged > stale else None
    longest = max(age, unchanged)
    return f"no heartbeat for {longest:.0f} s" if longest > stale else None


def _not_ours(file: File, now: Now, *, stale: float, unchanged: float) -> Holder:
    text = file.text or ""
    line = " ".join(text.split())
    if line and line.isprintable() and "�" not in line and not line.startswith(_MARK):
        words = f"{line[:160]!r} has the GPU, according to {_owner_file(file.place)}{_told(text, now)}"
        return _holder(file, Standing.FOREIGN, words)
    where = f"{_owner_file(file.place)} cannot be understood"
    if file.digest == ODD:
        return _holder(file, Standing.UNREADABLE, f"{where}: it is not a file, or cannot be read")
    age = now.epoch - file.modified if file.modified is not None else -1.0
    longest = max(age, unchanged)
    if longest > stale:
        return _holder(file, Standing.DEAD, f"{where}, and nobody has touched it for {longest:.0f} s")
    return _holder(file, Standing.UNREADABLE, where)


def _age(sign: Sign, now: Now) -> float | None:
    """Return the seconds since a heartbeat. The uptime is used if possible, because clock changes do not affect it."""
    if sign.uptime is not None and now.uptime is not None and sign.boot == now.boot:
        return now.uptime - sign.uptime
    return now.epoch - sign.epoch


def _since(owner: Owner, now: Now) -> str:
    seconds = now.epoch - owner.since
    if owner.since <= 0 or seconds < 0:
        return ""
    return f" for {seconds:.0f} s" if seconds < 120 else f" for {seconds / 60:.0f} min"


def _told(text: str, now: Now) -> str:
    """Return the age of an owner line in words. Return an empty string if the line does not end with a time."""
    last = re.search(r"\b(\d{10})\s*$", text)
    seconds = now.epoch - int(last[1]) if last else -1.0
    return f" for {seconds / 60:.0f} min" if seconds >= 0 else ""


def _holder(file: File, standing: Standing, words: str, owner: Owner | None = None) -> Holder:
    return Holder(place=file.place, standing=standing, words=words, digest=file.digest, owner=owner)


def _owner_file(place: Place) -> str:
    return f"{place.path.rstrip('/')}/owner"


def _word(text: str) -> str:
    return re.sub(r"[^A-Za-z0-9._+-]+", "-", text).strip("-")[:80] or "unnamed"


def _seconds(text: str) -> float | None:
    return None if text == "-" else float(text)


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return f"uid-{os.getuid()}"
