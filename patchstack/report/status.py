"""Show the result of `patchstack status`: one screen for each series, and tables of its patches and its surface."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from patchstack.git.patch.trailers import METADATA
from patchstack.report.table import Give, Table
from patchstack.report.text import counted
from patchstack.report.verify import STATE_STYLES
from patchstack.series.files.names import spans
from patchstack.series.lint.summary import LintState
from patchstack.series.status.next_step import LockWord, MirrorWord
from patchstack.series.status.status import ForkState, LockState, Mirror, Pin, SeriesStatus
from patchstack.series.status.surface import Surface

_COSTLIEST = 3
_SUBJECT = 80


def status_lines(status: SeriesStatus) -> Iterator[str]:
    """Yield the lines that show the state of a series, except the last line, which `next_line` returns."""
    yield status.series
    for name, text in (
        ("pin", _pin(status.pin)),
        ("fork", _fork(status.fork)),
        ("mirror", _mirror(status.mirror, status.patch_count)),
        ("lock", _lock(status.lock)),
        ("lint", _lint(status.lint)),
        ("patches", _patches(status)),
        ("surface", _surface(status.surface)),
        *zip(("costliest", "", ""), _costliest(status.surface), strict=False),
    ):
        yield f"  {name:<9}  {text}".replace("\n", "\\n")


def next_line(status: SeriesStatus) -> str:
    """Return the last line, which states the next step."""
    return f"next: {status.next_step}"


def _pin(pin: Pin) -> str:
    days = "1 day" if pin.age_days == 1 else f"{pin.age_days} days"
    return f"{pin.oid[:12]} {_short(pin.subject)} ({pin.committed:%Y-%m-%d}, {days} old)"


def _fork(fork: ForkState | None) -> str:
    if fork is None:
        return "none configured"
    name = f"{fork.repository} {fork.ref}"
    if fork.problem:
        return f"{name}: {fork.problem}"
    if fork.from_lock:
        at = f"{fork.head[:12]} {_short(fork.subject)}".rstrip() if fork.head else "nowhere"
        return f"{name}, not read (expect: lock); the lock is for {at}"
    return f"{name} at {fork.head[:12]} {_short(fork.subject)} ({counted(fork.count or 0, 'commit')} above the pin)"


def _mirror(mirror: Mirror, patch_count: int) -> str:
    if mirror.word is MirrorWord.HOLDS:
        given = f"{counted(patch_count, 'patch', 'patches')} give tree {mirror.applied_tree[:12]}"
        return f"holds: {given}, as {mirror.expected_from}"
    parts = []
    if mirror.behind:
        parts.append(f"{counted(mirror.behind, 'commit')} behind")
    if mirror.ahead:
        parts.append(f"{counted(mirror.ahead, 'patch', 'patches')} ahead")
    if mirror.applied_count < patch_count:
        parts.append(f"{mirror.applied_count} of {counted(patch_count, 'patch', 'patches')} apply")
    told = f" ({', '.join(parts)})" if parts else ""
    return f"{mirror.word}{told}" + (f": {mirror.problem}" if mirror.problem else "")


def _lock(lock: LockState) -> str:
    match lock.word:
        case LockWord.CURRENT:
            return "matches this pin and this series"
        case LockWord.STALE:
            return f"exists, but is stale: {lock.detail}"
        case LockWord.OTHER_PIN:
            return f"exists, but was written for pin {(lock.pin or '')[:12]}"
        case LockWord.ABSENT:
            return "absent"
        case LockWord.UNUSABLE:
            return f"unusable: {lock.detail}"


def _lint(lint: LintState) -> str:
    if lint.problem:
        return f"not checked: {lint.problem}"
    rules = ", ".join(f"{rule} {count}" for rule, count in lint.findings.items())
    told = f"{counted(lint.count, 'finding')} ({rules})" if lint.findings else "clean"
    return told + (f"; {lint.waived} waived" if lint.waived else "")


def _patches(status: SeriesStatus) -> str:
    numbers = status.numbers
    parts = [str(status.patch_count)]
    if numbers.used:
        parts.append(f"numbers {spans(numbers.used)}")
    if numbers.unnumbered:
        parts.append(f"{numbers.unnumbered} without a number")
    parts.append(f"gaps {spans(numbers.gaps)}" if numbers.gaps else "no gaps")
    parts.append(f"retired {spans(numbers.retired)}" if numbers.retired else "none retired")
    return "; ".join(parts)


def _surface(surface: Surface) -> str:
    return (
        f"{counted(len(surface.upstream), 'upstream file')}: {counted(surface.inserted, 'line')} inserted and "
        f"{surface.changed} of upstream's changed or removed, in {counted(surface.hunks, 'place')}; "
        f"{counted(len(surface.own), 'own file')} of {counted(surface.own_lines, 'line')}"
    )


def _costliest(surface: Surface) -> list[str]:
    """Return the upstream files that probably need the most work when the pin moves."""
    return [
        f"{file.path}: {counted(file.hunks, 'place')}, +{file.inserted} -{file.changed}, "
        f"by {counted(len(file.patches), 'patch', 'patches')}"
        for file in surface.upstream[:_COSTLIEST]
    ]


def patches_table(status: SeriesStatus) -> Table:
    """Return a table of all patches, with their states according to verify and the metadata from their trailers.

    Empty columns are omitted.
    """
    patches = status.patches or ()
    columns = [name for name in METADATA if any(patch.told(name) for patch in patches)]
    rows = [
        (
            f"{patch.number:04d}" if patch.number is not None else "-",
            patch.subject,
            status.states.get(patch.file, "-"),
            *(patch.told(name) or "-" for name in columns),
        )
        for patch in patches
    ]
    titles = [name.replace("_", " ") for name in columns]
    gives = {"subject": Give.FOLD, **dict.fromkeys(titles, Give.FOLD)}
    return Table(titles=("number", "subject", "state", *titles), rows=rows, styles=STATE_STYLES, gives=gives)


def surface_table(surface: Surface) -> Table:
    """Return a table of all files that the series changes or adds.

    Upstream files come first, in descending order of cost. The files that the series adds come last.
    """
    rows = [
        (
            "removed" if file.removed else "upstream",
            file.path,
            *(("binary", "-", "-") if file.binary else (str(file.hunks), str(file.inserted), str(file.changed))),
            str(len(file.patches)),
            _by(file.patches),
        )
        for file in surface.upstream
    ]
    rows += [
        (
            "own",
            file.path,
            "-",
            "binary" if file.binary else str(file.lines),
            "-",
            str(len(file.patches)),
            _by(file.patches),
        )
        for file in surface.own
    ]
    return Table(
        titles=("kind", "path", "hunks", "inserted", "changed", "patches", "by"),
        rows=rows,
        styles={"own": "green", "removed": "red"},
        gives={"path": Give.MIDDLE, "by": Give.FOLD},
    )


def _by(labels: Sequence[str]) -> str:
    numbers = [int(label) for label in labels if label.isdigit()]
    return ", ".join(filter(None, [spans(numbers), *(label for label in labels if not label.isdigit())]))


def _short(subject: str) -> str:
    return subject if len(subject) <= _SUBJECT else subject[: _SUBJECT - 3] + "..."
