"""Rule `additive`: the series only adds lines. It does not remove or change lines of upstream."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from patchstack.git.patch.text import Line, PatchedFile, PatchedHunk
from patchstack.series.lint.rule import Finding, LintedPatch, Rule, Subject, counted, each_applied, named, shown

ID = "additive"


@dataclass(slots=True)
class _Tracked:
    """A file after some patches of the series. For each line, `upstream` is true if the line comes from the pin."""

    lines: list[bytes]
    upstream: list[bool]


def check(subject: Subject) -> Iterator[Finding]:
    """Find removed lines that come from the pin. A patch may remove a line that an earlier patch added."""
    if not subject.policy.additive:
        return
    tracked: dict[bytes, _Tracked] = {}
    for patch in each_applied(subject):
        for file in patch.text.files:
            state = _state(subject, tracked, file.old)
            whole = _whole(subject, state, file)
            if whole:
                yield patch.finding(ID, file.number, whole)
            after, removed = _followed(subject, patch, file, state)
            if file.new is not None:
                tracked[file.new] = after
            if file.old is not None and file.old != file.new and not file.copied:
                tracked[file.old] = _Tracked([], [])
            if file.new is not None:
                for run in removed:
                    yield patch.finding(ID, run[0].number, _told(file, run))


def _state(subject: Subject, tracked: dict[bytes, _Tracked], path: bytes | None) -> _Tracked:
    if path is None:
        return _Tracked([], [])
    if path not in tracked:
        lines = list(subject.pin_lines(path) or ())
        tracked[path] = _Tracked(lines, [True] * len(lines))
    return tracked[path]


def _whole(subject: Subject, state: _Tracked, file: PatchedFile) -> str | None:
    """Return a complaint about an upstream file that is deleted, moved or binary."""
    if file.old is None or not subject.contents.has(subject.base_tree, file.old):
        return None
    path = named(file.old)
    if state.lines and not any(state.upstream):
        return None
    if file.new is None:
        return f"{path}: deletes upstream's file"
    if file.new != file.old and not file.copied:
        return f"{path}: moves upstream's file to {named(file.new)}"
    if file.binary:
        return f"{path}: replaces upstream's binary file"
    return None


def _followed(
    subject: Subject, patch: LintedPatch, file: PatchedFile, state: _Tracked
) -> tuple[_Tracked, list[list[Line]]]:
    """Return the file after a diff, and the runs of pin lines that the diff removes."""
    after = _Tracked([], [])
    removed: list[list[Line]] = []
    at = 0
    for hunk in file.hunks:
        place = _place(state.lines, hunk, at, anchored=patch.file.anchored)
        if place is None:
            return _by_text(subject, patch, file)
        after.lines += state.lines[at:place]
        after.upstream += state.upstream[at:place]
        at = place
        run: list[Line] = []
        back = False
        for index, line in enumerate(hunk.lines):
            upstreams = line.sign != b"+" and state.upstream[at]
            at += line.sign != b"+"
            if line.sign == b"-" and upstreams:
                back = _only_newline(hunk.lines[index : index + 2])
                if not back:
                    if not run:
                        removed.append(run)
                    run.append(line)
                continue
            run = []
            if line.sign != b"-":
                after.lines.append(line.text)
                after.upstream.append(upstreams or back)
                back = False
    after.lines += state.lines[at:]
    after.upstream += state.upstream[at:]
    return after, removed


def _place(lines: list[bytes], hunk: PatchedHunk, start: int, *, anchored: bool) -> int | None:
    """Return the position in the pre-image at which `git apply` places a hunk.

    The patch is known to apply. The result is None if no position fits.
    """
    before = hunk.before
    last = len(lines) - len(before)
    wanted = max(hunk.old_start - (1 if before else 0), 0)
    if not anchored and not hunk.trailing:
        wanted = last
    if start <= wanted <= last and lines[wanted : wanted + len(before)] == before:
        return wanted
    places = [at for at in range(start, last + 1) if lines[at : at + len(before)] == before]
    return min(places, key=lambda at: (abs(at - wanted), at < wanted), default=None)


def _by_text(subject: Subject, patch: LintedPatch, file: PatchedFile) -> tuple[_Tracked, list[list[Line]]]:
    """Find removed lines of the pin in a file whose hunks have no known position.

    A removed line counts as a line of the pin if the pin's file has the same line.
    """
    known = set(subject.pin_lines(file.old) or ()) if file.old is not None else set()
    lines = list(subject.contents.lines(patch.link.after, file.path) or ())
    runs = [[line] for line in file.lines if line.sign == b"-" and line.text in known]
    return _Tracked(lines, [line in known for line in lines]), runs


def _only_newline(pair: tuple[Line, ...]) -> bool:
    """Return whether the only change is a newline added at the end of the last line."""
    return len(pair) == 2 and not pair[0].ends and pair[1].sign == b"+" and pair[1].text == pair[0].text


def _told(file: PatchedFile, run: list[Line]) -> str:
    first = next((line for line in run if line.text.strip()), None)
    if first is None:
        return f"{named(file.path)}: removes {counted(len(run), 'empty line')} of upstream's"
    if len(run) == 1:
        return f"{named(file.path)}: removes or changes upstream's line {shown(first.text)}"
    many = counted(len(run), "line")
    return f"{named(file.path)}: removes or changes {many} of upstream's, the first {shown(first.text)}"


RULE = Rule(
    id=ID,
    reason="a patch that only adds lines stops applying far less often than a patch that changes upstream lines",
    check=check,
)
