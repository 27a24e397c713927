"""Apply anchored patches, which are diffs without context.

Full blob ids bind each file in the patch to its exact pre-image and post-image. `git apply` puts hunks without context
in the wrong place without an error. Therefore anchored patches have a different suffix. Only patchstack applies them,
and only to the blob that they were made from.
"""

from __future__ import annotations

from patchstack.git.apply import Fault, Outcome, Problem
from patchstack.git.objects import NULL_ID, Objects, object_id
from patchstack.git.overlay import FILE, TreeOverlay
from patchstack.git.patch.diff import FileDiff, Hunk, Unsupported, parse_diffs


def apply_anchored(objects: Objects, overlay: TreeOverlay, data: bytes) -> Outcome:
    """Apply an anchored patch to a tree, completely or not at all.

    A patch with problems is not applied. Hunks are tried only at their own lines. Raises `MissingObject` if the content
    of a touched file is not available.
    """
    try:
        diffs = parse_diffs(data)
    except Unsupported as unsupported:
        detail = f"not an anchored patch: {unsupported}"
        return _refused([Problem(fault=Fault.MALFORMED, path="", detail=detail, line=unsupported.line)])
    problems: list[Problem] = []
    edits: list[tuple[FileDiff, int, bytes]] = []
    for diff in diffs:
        edit = _edit(objects, overlay, diff)
        if isinstance(edit, Problem):
            problems.append(edit)
        else:
            edits.append((diff, *edit))
    if problems:
        return _refused(problems)
    for diff, mode, content in edits:
        if diff.new is None:
            overlay.remove(diff.path)
        else:
            overlay.put(diff.new, mode, objects.add("blob", content))
    return Outcome(tree=overlay.write())


def _refused(problems: list[Problem]) -> Outcome:
    return Outcome(tree=None, problems=tuple(problems))


def _edit(objects: Objects, overlay: TreeOverlay, diff: FileDiff) -> tuple[int, bytes] | Problem:
    path = diff.path.decode("utf-8", "replace")

    def problem(fault: Fault, detail: str, hunk: int | None = None) -> Problem:
        line = diff.line if hunk is None else diff.hunks[hunk - 1].line
        return Problem(fault=fault, path=path, detail=f"{path}: {detail}", hunk=hunk, line=line)

    if len(diff.old_id) != 40 or len(diff.new_id) != 40:
        return problem(
            Fault.MALFORMED, "an anchored patch needs full blob ids in its index line (git diff --full-index)"
        )
    if diff.old is not None and diff.new is not None and diff.old != diff.new:
        return problem(Fault.MALFORMED, "an anchored patch cannot rename")
    if any(hunk.context for hunk in diff.hunks):
        return problem(Fault.MALFORMED, "an anchored patch must have no context (git diff -U0)")
    if overlay.obstacle(diff.path) is not None:
        return problem(Fault.UNSAFE, "one of its parent directories is a file or a link")
    entry = overlay.entry(diff.path)
    if diff.old is None:
        if entry is not None:
            return problem(Fault.CONFLICT, "the patch creates it, but it already exists")
        mode, content = diff.new_mode or FILE, b""
    else:
        if entry is None:
            return problem(Fault.MISSING_FILE, "the file does not exist")
        if entry[1] != diff.old_id:
            return problem(
                Fault.CONFLICT, f"anchored to blob {diff.old_id[:12]}, but the file is blob {entry[1][:12]} here"
            )
        mode, content = diff.new_mode or entry[0], objects.blob(entry[1], path)
    result = _placed(content, diff.hunks)
    if isinstance(result, int):
        header = diff.hunks[result - 1].header.decode("ascii")
        return problem(Fault.CONFLICT, f"hunk {result} ({header}) does not match the lines at its place", result)
    if diff.new is None:
        if result or diff.new_id != NULL_ID:
            return problem(Fault.CONFLICT, "the patch deletes it, but lines would remain")
    elif object_id("blob", result) != diff.new_id:
        return problem(Fault.CONFLICT, f"the result is not blob {diff.new_id[:12]}, the post-image of the patch")
    return mode, result


def _placed(content: bytes, hunks: tuple[Hunk, ...]) -> bytes | int:
    """Apply every hunk exactly at its line.

    Return the new content, or the number of the first hunk that does not fit.
    """
    lines = content.split(b"\n")
    shift = 0
    for number, hunk in enumerate(hunks, 1):
        count = len(hunk.before)
        at = hunk.old_start - (1 if count else 0) + shift
        if lines[at : at + count] != list(hunk.before) or at < 0 or at > len(lines):
            return number
        after = list(hunk.after)
        behind = len(lines) - (at + count)
        if behind == 1 and lines[-1] == b"" and hunk.after_no_newline:
            count += 1  # also replace the empty text after the last newline, because the new file has no last newline
        elif behind == 0 and not hunk.after_no_newline and count:
            after.append(b"")
        lines[at : at + count] = after
        shift += len(after) - count
    return b"\n".join(lines)
