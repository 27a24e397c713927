"""Write tables of patches as Markdown, and insert them into a document.

A table is inserted between two comments. The first comment names the series.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from urllib.parse import quote

from patchstack.causes import InputUnreadable
from patchstack.git.patch.trailers import DEFAULT, GATES, METADATA, NEW_GATES, SWITCH
from patchstack.report.text import printable
from patchstack.series.status.metadata import PatchMetadata
from patchstack.workflow.metadata import Accepted

_CODE = {SWITCH, DEFAULT, GATES, NEW_GATES}
_SPECIAL = re.compile(r"[\\|*\[\]]|(?<![A-Za-z0-9])_|_(?![A-Za-z0-9])|[&<]")
_ESCAPED = {"&": "&amp;", "<": "&lt;"}
_END = "<!-- /patchstack -->"
_MARK = re.compile(r"<!-- (?:patchstack: series (?P<name>[^\s>]+)|/patchstack) -->")


def metadata_table(
    patches: Sequence[PatchMetadata], directory: str, decisions: Mapping[str, Accepted] | None = None
) -> str:
    """Return a Markdown table of patches.

    Each patch has a link to its file in `directory`, which is relative to the document. `decisions` maps patch files to
    the decisions that accepted them. Empty columns are omitted.
    """
    decisions = decisions or {}
    columns = [name for name in METADATA if any(patch.told(name) for patch in patches)]
    rows = [["patch", "subject", *(name.replace("_", " ") for name in columns), *(["accepted"] if decisions else [])]]
    for patch in patches:
        number = f"{patch.number:04d}" if patch.number is not None else "-"
        link = quote(f"{directory}/{patch.file}".removeprefix("./"))
        cells = [_code(patch.told(name)) if name in _CODE else _text(patch.told(name)) for name in columns]
        if decisions:
            decided = decisions.get(patch.file)
            cells.append(_accepted(decided) if decided else "")
        rows.append([f"[{number}]({link})", _text(patch.subject), *cells])
    rows.insert(1, ["---"] * len(rows[0]))
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def placed(document: str, where: str, tables: Mapping[str, str], *, chosen: bool) -> str:
    """Return a document with every table inserted at its place.

    The place of a table is between `<!-- patchstack: series NAME -->` and `<!-- /patchstack -->`. If `chosen` is true,
    each table must have a place in the document, and other places stay unchanged. Otherwise, every place must have a
    table, and at least one table must have a place. `where` names the document in errors. Raises `UsageError` that
    lists all problems.
    """
    problems: list[str] = []
    parts: list[str] = []
    found: set[str] = set()
    at = 0
    name: str | None = None
    for mark in _MARK.finditer(document):
        place = f"{where}:{document.count(chr(10), 0, mark.start()) + 1}"
        between = document[at : mark.start()]
        if mark["name"] is None and name is None:
            problems.append(f"{place}: {_END} has no opening comment")
        elif mark["name"] is not None and name is not None:
            problems.append(f"{place}: the place of {name} above is not closed")
        elif mark["name"] is not None and not chosen and mark["name"] not in tables:
            problems.append(f"{place}: series {mark['name']} does not exist")
        if mark["name"] is None and name is not None and name in tables:
            found.add(name)
            newline = "\r\n" if "\r\n" in document else "\n"
            between = f"\n\n{tables[name]}\n\n".replace("\n", newline)
        parts += [between, mark.group(0)]
        name, at = mark["name"], mark.end()
    parts.append(document[at:])
    if name is not None:
        problems.append(f"{where}: the place of {name} is not closed")
    missing = [one for one in tables if one not in found and one != name] if chosen or not found else []
    problems += [f"{where}: the table of {one} has no place" for one in missing]
    if problems:
        first = next(iter(missing), name or "NAME")
        raise InputUnreadable(
            f"cannot insert the tables into {where}",
            problems=problems,
            hint=f"mark the place of a table with the lines <!-- patchstack: series {first} --> and {_END}",
        )
    return "".join(parts)


def _accepted(decided: Accepted) -> str:
    """Return a link to a decision and, if a switch was accepted without a gate, the reason."""
    unproven = f"; switch unproven: {_text(decided.switch_unproven)}" if decided.switch_unproven else ""
    return f"[`{decided.id[:12]}`]({quote(decided.path)}){unproven}"


def _text(text: str) -> str:
    """Return untrusted text escaped for Markdown."""
    return _SPECIAL.sub(lambda found: _ESCAPED.get(found.group(0), f"\\{found.group(0)}"), _line(text))


def _code(text: str) -> str:
    """Return a value in backticks. If it contains a backtick, return it as escaped text."""
    line = _line(text)
    return f"`{line.replace('|', chr(92) + '|')}`" if line and "`" not in line else _text(line)


def _line(text: str) -> str:
    return printable(" ".join(text.split()))
