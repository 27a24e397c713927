"""Explain the conflicts of a patch.

An explanation contains the file, both sides, and the upstream commit that changed the lines. The commit is found by
text, not by position. For this, the upstream commits between the pins are searched for lines that are only in the base
or only on upstream's side.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from patchstack.git.objects import Objects
from patchstack.git.trees import compare_trees, content
from patchstack.workflow.sync.state import LEFT_OUT, Item
from patchstack.workflow.sync.worktree import SyncTree

_PULL_REQUEST = re.compile(r"\(#(\d+)\)\s*\Z")
_SHOWN = 40  # maximum number of lines shown for a side; further lines are only counted
_NAMED = 3  # maximum number of upstream commits listed for a file
_TELLING = 20  # A commit is omitted if the first commit changed more than 20 times as many conflicting lines.
_LOG = ("--first-parent", "--reverse", "--no-color", "--no-ext-diff", "--no-textconv", "--no-renames")
_FORMAT = "--format=%x00%H%x00%an%x00%ad%x00%s"


@dataclass(frozen=True, slots=True, kw_only=True)
class Region:
    """One place in a file where both sides changed the same lines.

    `line` is the line number of the first conflict marker. `ours` are upstream's lines. `theirs` are the patch's
    lines.
    """

    line: int
    ours: tuple[str, ...]
    base: tuple[str, ...]
    theirs: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Mover:
    """An upstream commit that changed the same lines or files as a patch.

    `lines` is the number of conflicting lines that the commit changed, or 0 if none are known. `pull_request` is the
    number at the end of the commit's subject.
    """

    commit: str
    author: str
    date: str
    subject: str
    pull_request: int | None
    lines: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Collision:
    """A file in conflict.

    `how` describes what each side did to the file. `movers` are the upstream commits that probably caused the conflict,
    the likeliest first. `left_out` are skipped, dropped or parked patches that changed the conflicting lines, so the
    current patch may depend on them.
    """

    path: str
    how: str
    regions: tuple[Region, ...]
    movers: tuple[Mover, ...]
    left_out: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Commit:
    """An upstream commit, with the lines that it removed and added in a file."""

    mover: Mover
    removed: frozenset[str]
    added: frozenset[str]


def explain(
    objects: Objects,
    tree: SyncTree,
    paths: Iterable[tuple[str, frozenset[int]]],
    pin: str,
    to: str,
    items: Sequence[Item],
    moved: Mapping[str, str],
) -> tuple[Collision, ...]:
    """Explain the conflicts in a sync's work tree.

    `items` are the patches before the current one. git moves a file if its directory was renamed. `moved` maps the new
    name of each such file to its name in the patch.
    """
    found = (_collision(objects, tree, path, stages, pin, to, items) for path, stages in paths)
    return tuple(replace(one, how=_led(moved[one.path], one.path)) if one.path in moved else one for one in found)


def _collision(
    objects: Objects, tree: SyncTree, path: str, stages: frozenset[int], pin: str, to: str, items: Sequence[Item]
) -> Collision:
    regions = tuple(read_regions(_text(tree.directory / path))) if {2, 3} <= stages else ()
    upstreams = list(_upstream_commits(tree, path, pin, to))
    gone = Counter(line for one in regions for line in (*_only(one.base, one.ours), *_only(one.ours, one.base)))
    movers = _ranked(upstreams, regions)
    left_out = [item.label for item in items if item.fate in LEFT_OUT and _touches(objects, item, path, gone)]
    if not movers and not left_out:
        movers = [one.mover for one in upstreams][-_NAMED:]
    return Collision(
        path=path,
        how=_how(stages, _moved_to(tree, path, pin, to) if 2 not in stages else None, at_pin=tree.has(pin, path)),
        regions=regions,
        movers=tuple(movers[:_NAMED]),
        left_out=tuple(left_out),
    )


def read_regions(text: str) -> Iterator[Region]:
    """Yield the conflicts of a text with markers in git's diff3 style."""
    sides: dict[str, list[str]] = {}
    side, start = "", 0
    for number, line in enumerate(text.split("\n"), 1):
        if line.startswith("<<<<<<< "):
            sides, side, start = {"ours": [], "base": [], "theirs": []}, "ours", number
        elif line.startswith("||||||| ") and side == "ours":
            side = "base"
        elif line.rstrip("\r") == "=======" and side in ("ours", "base"):
            side = "theirs"
        elif line.startswith(">>>>>>> ") and side == "theirs":
            yield Region(
                line=start, ours=tuple(sides["ours"]), base=tuple(sides["base"]), theirs=tuple(sides["theirs"])
            )
            side = ""
        elif side:
            sides[side].append(line)


def shortened(lines: Sequence[str]) -> list[str]:
    """Return the lines to show. If there are many, return only the first lines, and the number of further lines."""
    if len(lines) <= _SHOWN:
        return list(lines)
    return [*lines[: _SHOWN - 1], f"… and {len(lines) - _SHOWN + 1} more lines"]


def document(collisions: Iterable[Collision]) -> list[Mapping[str, object]]:
    """Return collisions as JSON values."""
    return [
        {
            "path": one.path,
            "how": one.how,
            "regions": [
                {
                    "line": region.line,
                    "ours": shortened(region.ours),
                    "base": shortened(region.base),
                    "theirs": shortened(region.theirs),
                }
                for region in one.regions
            ],
            "upstream": [
                {
                    "commit": mover.commit,
                    "author": mover.author,
                    "date": mover.date,
                    "subject": mover.subject,
                    "pull_request": mover.pull_request,
                    "lines": mover.lines,
                }
                for mover in one.movers
            ],
            "left_out": list(one.left_out),
        }
        for one in collisions
    ]


def _led(old: str, new: str) -> str:
    return f"the patch creates it as {old}, whose directory upstream renamed: git add it here, or git mv it elsewhere"


def _how(stages: frozenset[int], moved_to: str | None, *, at_pin: bool) -> str:
    if stages == {1, 3} and not at_pin:
        return "the patch changes it, but nothing created it"
    if stages == {1, 3}:
        return (
            f"upstream renamed it to {moved_to}, the patch changes it"
            if moved_to
            else ("upstream removed it, the patch changes it")
        )
    if stages == {1, 2}:
        return "the patch removes it, upstream changed it"
    if stages == {2, 3}:
        return "both create it, with different contents"
    if stages == {1, 2, 3}:
        return "both change the same lines"
    return "one side renamed what the other changed"


def _ranked(commits: Sequence[_Commit], regions: Sequence[Region]) -> list[Mover]:
    """Return the commits that changed conflicting lines.

    The commits with the most lines come first. For equal numbers, the earlier commit comes first. Commits that changed
    far fewer lines than the first one are omitted.
    """
    taken = {line for one in regions for line in _only(one.base, one.ours)}
    brought = {line for one in regions for line in _only(one.ours, one.base)}
    found = []
    for one in commits:
        lines = len(one.removed & taken) + len(one.added & brought)
        if lines:
            mover = one.mover
            found.append(
                Mover(
                    commit=mover.commit,
                    author=mover.author,
                    date=mover.date,
                    subject=mover.subject,
                    pull_request=mover.pull_request,
                    lines=lines,
                )
            )
    # A few matching lines among many are probably coincidence, because some lines are common.
    most = max((mover.lines for mover in found), default=0)
    return sorted((mover for mover in found if mover.lines * _TELLING >= most), key=lambda mover: -mover.lines)


def _only(one: Sequence[str], other: Sequence[str]) -> Iterator[str]:
    """Yield the lines of one side that the other side lacks.

    Very short lines are skipped: a line with only a brace, for example, does not show its origin.
    """
    there = set(other)
    return (line.strip() for line in one if line not in there and len(line.strip()) > 2)


def _upstream_commits(tree: SyncTree, path: str, pin: str, to: str) -> Iterator[_Commit]:
    """Yield the upstream commits between the pins that touch a file, oldest first.

    Each commit contains the lines that it removed and added. If contents are missing in a partial clone, all commits
    are returned without lines.
    """
    span = (f"{pin}..{to}", "--", f":(literal){path}")
    options = (*_LOG, _FORMAT, "--date=short")
    shown = tree.log("-p", "-U0", *options, *span) or tree.log(*options, *span)
    yield from _parsed(shown.decode("utf-8", "replace"))


def _parsed(shown: str) -> Iterator[_Commit]:
    head: list[str] = []
    removed: set[str] = set()
    added: set[str] = set()

    def made() -> _Commit:
        found = _PULL_REQUEST.search(head[3])
        mover = Mover(
            commit=head[0],
            author=head[1],
            date=head[2],
            subject=head[3],
            pull_request=int(found.group(1)) if found else None,
            lines=0,
        )
        return _Commit(mover=mover, removed=frozenset(removed), added=frozenset(added))

    for line in shown.split("\n"):
        if line.startswith("\0"):
            if head:
                yield made()
            head, removed, added = line[1:].split("\0"), set(), set()
        elif line.startswith("-") and not line.startswith("--- "):
            removed.add(line[1:].strip())
        elif line.startswith("+") and not line.startswith("+++ "):
            added.add(line[1:].strip())
    if head:
        yield made()


def _moved_to(tree: SyncTree, path: str, pin: str, to: str) -> str | None:
    """Return the new name of a file that upstream renamed, as git detects it."""
    options = ("--first-parent", "-1", "--format=%H", "--diff-filter=D", "--no-renames")
    gone = tree.log(*options, f"{pin}..{to}", "--", f":(literal){path}").decode().strip()
    if not gone:
        return None
    listed = tree.log("-1", "--first-parent", "-m", "-M", "-z", "--format=", "--name-status", "--diff-filter=R", gone)
    words = listed.decode("utf-8", "surrogateescape").strip("\n").split("\0")
    moves = {words[at + 1]: words[at + 2] for at in range(0, len(words) - 2, 3)}
    return moves.get(path)


def _touches(objects: Objects, item: Item, path: str, colliding: Counter[str]) -> bool:
    """Return whether a patch changes conflicting lines of a file. If no such lines are known, any change counts."""
    for change in compare_trees(objects, item.before, item.tree):
        if change.path.decode("utf-8", "surrogateescape") == path:
            changed = _lines(objects, change.path, change.old) ^ _lines(objects, change.path, change.new)
            return not colliding or bool(changed & colliding.keys())
    return False


def _text(path: Path) -> str:
    try:
        return path.read_bytes().decode("utf-8", "replace") if path.is_file() and not path.is_symlink() else ""
    except OSError:
        return ""


def landed_in(objects: Objects, tree: SyncTree, item: Item, pin: str, to: str) -> Mover | None:
    """Return the upstream commit that contains the change of a patch.

    Return None if no commit contains at least half of the lines of the change.
    """
    scores: Counter[str] = Counter()
    movers: dict[str, Mover] = {}
    total = 0
    for change in compare_trees(objects, item.before, item.tree):
        path = change.path.decode("utf-8", "surrogateescape")
        old, new = (_lines(objects, change.path, entry) for entry in (change.old, change.new))
        total += len(old ^ new)
        for one in _upstream_commits(tree, path, pin, to):
            movers[one.mover.commit] = one.mover
            scores[one.mover.commit] += len(one.added & (new - old)) + len(one.removed & (old - new))
    best = scores.most_common(1)
    return movers[best[0][0]] if best and 2 * best[0][1] >= total > 0 else None


def _lines(objects: Objects, path: bytes, entry: tuple[int, str] | None) -> set[str]:
    """Return the lines of a file without their indentation. Very short lines are skipped."""
    lines = content(objects, entry, path).decode("utf-8", "replace").split("\n")
    return {line.strip() for line in lines if len(line.strip()) > 2}
