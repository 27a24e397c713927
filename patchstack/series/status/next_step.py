"""Decide the next step for a series. The decision depends only on the series' state."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from enum import StrEnum

from patchstack.series.lock import FILE_NAME
from patchstack.workspace import is_url


class MirrorWord(StrEnum):
    """The result of comparing pin + series with the fork."""

    HOLDS = "holds"
    DIFFERS = "does not hold"
    NOT_COMPARED = "not compared"


class LockWord(StrEnum):
    """The relation of the lock to the fork and the pin."""

    CURRENT = "current"
    STALE = "stale"
    OTHER_PIN = "for another pin"
    ABSENT = "absent"
    UNUSABLE = "unusable"


@dataclass(frozen=True, slots=True, kw_only=True)
class Situation:
    """The inputs of the decision.

    `way_out` is the hint of the fork's error. `off_pin` is true if the fork does not descend from the pin. `drift`
    contains the kinds of `Drift`. `dropped` contains the labels of the patches that have no commit. It is empty if a
    commit of the fork has no patch.
    """

    series: str
    pin: str
    fork: str | None = None
    fork_ref: str = ""
    way_out: str | None = None
    off_pin: bool = False
    merges: bool = False
    patches: int = 1
    applies: bool = True
    holds: bool | None = True
    drift: frozenset[str] = frozenset()
    dropped: tuple[str, ...] = ()
    lock: LockWord = LockWord.CURRENT
    lock_pin: str | None = None
    pristine: bool = True
    lint_clean: bool = True


NOTHING = "nothing to do"
_DROPPED = frozenset({"ahead", "stray"})
"""The kinds of drift that result if a commit was dropped from the fork."""
_LOST_BY_EXPORT = _DROPPED | {"edited"}


def next_step(now: Situation) -> str:
    """Return the next step as a sentence that includes the command."""
    export, look = _export(now), f"patchstack verify {now.series} --keep-going"
    if now.way_out is not None:
        if now.off_pin and now.fork and now.lock is LockWord.OTHER_PIN and now.lock_pin and not is_url(now.fork):
            onto = f"--onto {now.pin[:12]} {now.lock_pin[:12]} {shlex.quote(now.fork_ref)}"
            return f"fetch the pin into the fork, git -C {shlex.quote(now.fork)} rebase {onto}, then {export}"
        return now.way_out
    if now.merges:
        return f"rebase the fork onto the pin, because a merge cannot become a patch; then {export}"
    if now.lock is LockWord.UNUSABLE:
        return f"restore {FILE_NAME} from version control" + (f"; or remove it and {export}" if now.fork else "")
    if now.patches == 0:
        return export
    forked = now.fork is not None
    if not now.applies:
        moved = forked and now.lock is LockWord.OTHER_PIN and now.pristine
        return export if moved else f"{look} shows which patches do not apply, and why"
    if now.holds is None:
        return export if forked else "add fork and fork_ref to patchstack.yaml: there is nothing to compare with"
    if not now.holds:
        if not forked:
            return f"{look} shows what differs from the export; restore patches and lock from there"
        kept = now.pristine if now.lock is not LockWord.ABSENT else not now.drift & _LOST_BY_EXPORT
        if kept:
            return f"{export} retires {', '.join(now.dropped)}, which the fork no longer has" if now.dropped else export
        mend = f"{look} shows what the fork lacks: commit it there, then {export}"
        if now.dropped and now.drift <= _DROPPED and now.lock is LockWord.ABSENT:
            return f"{mend}; if {', '.join(now.dropped)} was dropped from the fork: {export} --discard-edits"
        return mend
    if forked and now.lock is not LockWord.CURRENT:
        return export
    return NOTHING if now.lint_clean else f"patchstack lint {now.series} shows what to fix, or to waive with a reason"


def _export(now: Situation) -> str:
    command = f"patchstack export {now.series}"
    if now.fork is not None and is_url(now.fork):
        return f"clone {now.fork}, name the clone in patchstack.yaml, and {command}"
    return command
