"""Show a patch as text for `patchstack show`, with colour on a terminal."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from patchstack.git.patch.text import read_text
from patchstack.git.patch.trailers import (
    DEFAULT,
    DROP_CHECK,
    DROP_WHEN,
    GATES,
    GROUP,
    NEW_GATES,
    REASON,
    REPLACES,
    SCOPE,
    SWITCH,
    UPSTREAM,
    Message,
)
from patchstack.report.streams import coloured
from patchstack.report.text import printable
from patchstack.series.files.directory import PatchFile
from patchstack.series.status.surface import FileCount, ReadableDiff

_METADATA = (SWITCH, DEFAULT, GATES, NEW_GATES, GROUP, UPSTREAM, REPLACES, SCOPE, REASON, DROP_WHEN, DROP_CHECK)

Line = tuple[str, str]
"""A line of text, and its style."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownPatch:
    """One patch of a series.

    `tree_before` and `tree` are the trees before and after the patch, or None if unknown. `fork_commit` is the id of
    the commit that the patch mirrors, and `commit_from` is the source of this id. `state` and `detail` are the result
    of verify.
    """

    series: str
    patch: PatchFile
    message: Message
    text: ReadableDiff
    fork_commit: str | None
    commit_from: str | None
    tree: str | None
    tree_before: str | None
    state: str | None
    detail: str


def show_lines(shown: ShownPatch) -> Iterator[Line]:
    """Yield the header, trailers, files and diff of a patch."""
    number = f"{shown.patch.number:04d}" if shown.patch.number is not None else "?"
    yield f"{shown.series} {number}: {shown.patch.subject}", "bold"
    for name, value in _head(shown):
        yield f"  {name:<9} {_one_line(value)}", ""
    for line in _files(shown.text.files):
        yield line, ""
    yield "", ""
    yield from _diff(shown.text.diff)


def _head(shown: ShownPatch) -> Iterator[tuple[str, str]]:
    message = shown.message
    yield "file", shown.patch.file
    if message.author:
        yield "author", message.author + (f", {message.date}" if message.date else "")
    yield "fork", f"{shown.fork_commit[:12]} (from {shown.commit_from})" if shown.fork_commit else "no commit known"
    if shown.tree and shown.tree_before:
        yield "tree", f"{shown.tree[:12]}, before it {shown.tree_before[:12]}"
    if shown.state is not None and shown.state != "ok":
        yield "state", shown.state + (f": {shown.detail}" if shown.detail else "")
    metadata = message.metadata()
    for name in _METADATA:
        if name in metadata:
            yield name.replace("_", " "), ", ".join(metadata[name])


def _files(files: Sequence[FileCount]) -> Iterator[str]:
    for file in files:
        name = f"{file.was} -> {file.path}" if file.was else file.path
        count = "binary" if file.binary else f"+{file.inserted} -{file.removed}"
        yield f"  {'files' if file is files[0] else '':<8}  {count:<10} {_one_line(name)}"


_STYLES = {"+": "green", "-": "red", "@": "cyan", " ": "", "\\": "dim"}


def _diff(text: str) -> Iterator[Line]:
    hunks = (hunk for file in read_text(text.encode()).files for hunk in file.hunks)
    in_hunks = {number for hunk in hunks for number in range(hunk.number, hunk.end)}
    for number, line in enumerate(text.removesuffix("\n").split("\n") if text else (), 1):
        yield line, _STYLES.get(line[:1], "") if number in in_hunks else "bold"


def print_shown(shown: ShownPatch, *, plain: bool = False) -> None:
    """Print a patch to stdout, in colour if output to stdout uses colour and `plain` is false."""
    lines = [(printable(_one_line(text)), style) for text, style in show_lines(shown)]
    if plain or not coloured(sys.stdout):
        print("\n".join(text for text, _ in lines))
        return
    from rich.console import Console
    from rich.text import Text

    whole = Text("\n", no_wrap=True).join(Text(text, style=style) for text, style in lines)
    console = Console(highlight=False, tab_size=8, force_terminal=True, color_system="standard")
    console.print(whole, soft_wrap=True)


def _one_line(text: str) -> str:
    return text.replace("\n", "\\n")
