"""Explain drift: the patches, files and hunks in which series and fork differ, and the likely cause."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from patchstack.git.objects import Commit, Objects
from patchstack.git.overlay import Entry
from patchstack.git.trees import compare_trees, content, want_contents
from patchstack.series.history import ForkHistory
from patchstack.series.verify.match import Matching
from patchstack.series.verify.prefix_trees import Link
from patchstack.series.verify.states import Drift, FileDrift, PatchDrift, State
from patchstack.tasks import task


@task("explaining the drift")
def explain_drift(
    objects: Objects,
    links: Sequence[Link],
    matching: Matching,
    fork: ForkHistory,
    base: Commit,
    states: Mapping[str | None, State],
) -> Drift | None:
    """Return the differences between series and fork. Return None if there are none."""
    patches = []
    for index, link in enumerate(links):
        own = matching.commit_of[index]
        if own is not None and states[link.patch.file] is State.DIVERGES:
            parent = fork.commits[own - 1].tree if own else base.tree
            commit = fork.commits[own]
            files = tuple(_file_drifts(objects, link, parent, commit.tree))
            patches.append(PatchDrift(file=link.patch.file, fork_commit=commit.oid, files=files))
    kinds: list[str] = []
    summary: list[str] = []
    for kind, sentence in _sentences(links, matching, fork, patches):
        kinds.append(kind)
        summary.append(sentence)
    if not kinds:
        return None
    return Drift(kinds=tuple(dict.fromkeys(kinds)), summary=tuple(summary), patches=tuple(patches))


def _file_drifts(objects: Objects, link: Link, parent: str, tree: str) -> list[FileDrift]:
    """Return the differences between series and fork that first appear after this patch."""
    before = list(compare_trees(objects, link.before, parent))
    behind = list(compare_trees(objects, link.after, tree))
    want_contents(objects, (*before, *behind))
    earlier = {change.path: _hunks(objects, change.path, change.old, change.new) for change in before}
    drifts = []
    for change in behind:
        hunks = _hunks(objects, change.path, change.old, change.new)
        known = {_body(hunk) for hunk in earlier.get(change.path, ())}
        fresh = [hunk for hunk in hunks if _body(hunk) not in known]
        if fresh:
            path = change.path.decode("utf-8", "replace")
            text = f"--- series/{path}\n+++ fork/{path}\n" + "".join(fresh)
            drifts.append(FileDrift(path=path, diff=text, hunks=len(fresh)))
    return drifts


def _body(hunk: str) -> str:
    return "\n".join(line for line in hunk.split("\n")[1:] if line[:1] in "+-")


def _hunks(objects: Objects, path: bytes, old: Entry | None, new: Entry | None) -> list[str]:
    """Return the hunks of a unified diff as text. If the file modes differ, the text begins with the modes."""
    hunks = []
    if (old and old[0]) != (new and new[0]):
        said = [f"mode {entry[0]:o}" if entry else "no such file" for entry in (old, new)]
        hunks.append(f"@@ {said[0]} in the series, {said[1]} in the fork @@\n")
    before, after = content(objects, old, path), content(objects, new, path)
    import pygit2

    patch = pygit2.Patch.create_from(before, after, context_lines=3)
    if patch.delta.is_binary:
        return [*hunks, "@@ binary contents differ @@\n"]
    for hunk in patch.hunks:
        lines = [hunk.header if hunk.header.endswith("\n") else hunk.header + "\n"]
        for line in hunk.lines:
            text = line.raw_content.decode("utf-8", "replace")
            lines.append((line.origin if line.origin in " +-" else "") + text + ("" if text.endswith("\n") else "\n"))
        hunks.append("".join(lines))
    return hunks


def _sentences(
    links: Sequence[Link], matching: Matching, fork: ForkHistory, patches: Sequence[PatchDrift]
) -> list[tuple[str, str]]:
    """Return (kind, sentence) pairs. The most specific pair is the first."""
    said: list[tuple[str, str]] = []
    for drift in patches:
        named = ", ".join(f"{file.path} ({_count(file.hunks, 'hunk')})" for file in drift.files)
        said.append(
            (
                "edited",
                f"{drift.file} is not what fork commit {drift.fork_commit[:12]} does: it differs in {named}. "
                "The patch was edited by hand, or the commit was amended after the export",
            )
        )
    matched = [own for own in matching.commit_of if own is not None]
    mirrored = set(matched)
    missing = [index for index in range(len(fork.commits)) if index not in mirrored]
    newest = max(matched, default=-1)
    behind = [index for index in missing if index > newest]
    inside = [index for index in missing if index < newest]
    if behind:
        at = (
            f"the series matches the fork at {_named(fork.commits[newest])}"
            if newest >= 0
            else "the series matches no commit"
        )
        if newest >= 0 and not _same_there(links, matching, fork, newest):
            at = f"the last commit it mirrors is {_named(fork.commits[newest])}"
        said.append(("behind", f"the fork has {_count(len(behind), 'commit')} the series lacks; {at}"))
    for index in inside:
        said.append(
            ("missing", f"fork commit {_named(fork.commits[index])} has no patch: was it dropped from the series?")
        )
    stray = [patch for patch, own in enumerate(matching.commit_of) if own is None]
    ahead = [patch for patch in stray if all(own is None for own in matching.commit_of[patch:])]
    if ahead:
        last = links[ahead[0] - 1].patch.file if ahead[0] else "the pin"
        where = f"after {last}" if behind else f"the fork ends at {last}"
        said.append(("ahead", f"the series has {_count(len(ahead), 'patch', 'patches')} the fork lacks, {where}"))
    for patch in stray:
        if patch not in ahead:
            said.append(("stray", f"{links[patch].patch.file} mirrors no commit of the fork"))
    for patch in sorted(matching.moved):
        own = matching.commit_of[patch]
        assert own is not None
        if links[patch].after == fork.commits[own].tree:
            continue
        neighbour = next((p for p in range(patch - 1, -1, -1) if matching.commit_of[p] is not None), None)
        after = "first" if own == 0 else f"after {_named(fork.commits[own - 1])}"
        here = "first" if neighbour is None else f"after {links[neighbour].patch.file}"
        said.append(("reordered", f"{links[patch].patch.file} is {here}; in the fork its commit is {after}"))
    return said


def _same_there(links: Sequence[Link], matching: Matching, fork: ForkHistory, commit: int) -> bool:
    """Return whether the series produces the tree of a commit.

    The series is applied up to the patch that mirrors the commit.
    """
    patch = matching.patch_of(commit)
    return patch is not None and links[patch].applied and links[patch].after == fork.commits[commit].tree


def _named(commit: Commit) -> str:
    return f"{commit.oid[:12]} ({commit.subject})"


def _count(number: int, one: str, many: str = "") -> str:
    return f"{number} {one if number == 1 else many or one + 's'}"
