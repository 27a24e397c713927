"""A GPU lock's owner file: how it is written, how it is read, and what its owner is: alive, gone, or not ours to say.

The file is `owner` in the lock's directory. Its first line is the one that people and their scripts have agreed on:
`FREE released-by-NAME EPOCH` where nobody has the GPU, else who has it. patchstack adds a line of JSON that names the
owner exactly, and one with its last sign of life, in the time of the machine that has the GPU. Decides only.
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
"""The digest of what exists and is not a file, or one that we may not read: it is never taken for a dead owner's."""
_MARK = "patchstack:"
_TOLERANCE = 5.0


class Standing(StrEnum):
    """FREE: nobody has it. OURS: this process does. LIVE: somebody does. DEAD: somebody did, and is gone. FOREIGN: an
    owner who is not patchstack, of whom nobody can say whether he is gone. UNREADABLE: the file says nothing."""

    FREE = "free"
    OURS = "ours"
    LIVE = "live"
    DEAD = "dead"
    FOREIGN = "foreign"
    UNREADABLE = "unreadable"


@dataclass(frozen=True, slots=True, kw_only=True)
class Owner:
    """Who has (or wants) a GPU. `token` is one acquisition's own; `boot`, `namespace`, `pid` and `start` name a process
    exactly: this start of its machine, its process namespace, its number there and when it began. `since` is in seconds
    of the machine that has the GPU."""

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
    """The last sign of life: the machine's start, its time since then and its clock, in seconds."""

    boot: str
    uptime: float | None
    epoch: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Now:
    """The machine as the lock was read: its start, process namespace, time since the start, and clock."""

    boot: str
    namespace: str
    uptime: float | None
    epoch: float


@dataclass(frozen=True, slots=True, kw_only=True)
class File:
    """An owner file as it was read. `text` is None if there is none; `digest` is what a change is made against;
    `modified` its time, in seconds; `process` is /proc/PID/stat of the process it names, empty if there is none such
    on that machine, None if that cannot be told."""

    place: Place
    text: str | None
    digest: str
    modified: float | None = None
    process: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Holder:
    """What an owner file means. `words` say it for people; `owner` where it is patchstack's."""

    place: Place
    standing: Standing
    words: str
    digest: str
    owner: Owner | None = None


def this_process(token: str, purpose: str) -> Owner:
    """This process as an owner."""
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
    """/proc/PID/stat of an owner on this very machine, in this very namespace; None if it is elsewhere."""
    me = this_process("", "")
    if not owner.boot or not owner.namespace or (owner.boot, owner.namespace) != (me.boot, me.namespace):
        return None
    return processes.stat_text(owner.pid) if processes.shows_every_process() else None


def taken_line(owner: Owner) -> str:
    """Return the first line of a taken lock, but for the time at its end."""
    return f"{_MARK}{_word(owner.user)}@{_word(owner.host)}:{owner.pid}:{_word(owner.purpose)}"


def free_line(owner: Owner | None) -> str:
    """Return the first line of a lock let go, but for the time at its end."""
    return f"FREE released-by-patchstack{'-' + _word(owner.purpose) if owner is not None else ''}"


def record_line(owner: Owner) -> str:
    """Return the second line of a taken lock."""
    return one_line({"schema": SCHEMA, **{name: getattr(owner, name) for name in Owner.__slots__}})


def read_owner(text: str) -> tuple[Owner, Sign] | None:
    """Return the owner and its last sign of life in a file of patchstack's; None if it is not such a file, or not
    whole."""
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
    """What an owner file means. `tokens` are ours; after `stale` seconds without a sign of life an owner whose process
    cannot be looked at is gone; `unchanged` is for how long we have seen the file as it is.

    A process that exists is alive however long it is silent; one that is not there is gone however short.
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
    note = f"; no sign of life for {silent:.0f} s, but its process is there" if silent and silent > stale else ""
    return _holder(file, Standing.LIVE, has + note, owner)


def _gone(owner: Owner, sign: Sign, file: File, now: Now, *, stale: float, unchanged: float) -> str | None:
    """Return why an owner is gone; None if it is not."""
    if sign.boot and now.boot and sign.boot != now.boot:
        return "the machine was started anew since"
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
    if age is None or age < -_TOLERANCE:  # a clock that went back says nothing: what we saw ourselves does
        return f"no sign of life while we looked, for {unchanged:.0f} s" if unchanged > stale else None
    longest = max(age, unchanged)
    return f"no sign of life for {longest:.0f} s" if longest > stale else None


def _not_ours(file: File, now: Now, *, stale: float, unchanged: float) -> Holder:
    text = file.text or ""
    line = " ".join(text.split())
    if line and line.isprintable() and "�" not in line and not line.startswith(_MARK):
        words = f"{line[:160]!r} has the GPU, by {_owner_file(file.place)}{_told(text, now)}"
        return _holder(file, Standing.FOREIGN, words)
    where = f"{_owner_file(file.place)} says nothing that can be read"
    if file.digest == ODD:
        return _holder(file, Standing.UNREADABLE, f"{where}: it is no file, or may not be read")
    age = now.epoch - file.modified if file.modified is not None else -1.0
    longest = max(age, unchanged)
    if longest > stale:
        return _holder(file, Standing.DEAD, f"{where}, and nobody has touched it for {longest:.0f} s")
    return _holder(file, Standing.UNREADABLE, where)


def _age(sign: Sign, now: Now) -> float | None:
    """Seconds since a sign of life, by the time since the machine's start, which no clock change touches, else by its
    clock."""
    if sign.uptime is not None and now.uptime is not None and sign.boot == now.boot:
        return now.uptime - sign.uptime
    return now.epoch - sign.epoch


def _since(owner: Owner, now: Now) -> str:
    seconds = now.epoch - owner.since
    if owner.since <= 0 or seconds < 0:
        return ""
    return f" for {seconds:.0f} s" if seconds < 120 else f" for {seconds / 60:.0f} min"


def _told(text: str, now: Now) -> str:
    """Return how old a line with a time at its end is."""
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
