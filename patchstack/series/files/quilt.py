"""Read the `series` file of a quilt directory: patches in order, with their options.

Source: quilt(1), patchfns.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from patchstack.causes import PatchUnreadable
from patchstack.files.regular import read_regular

FILE_NAME = "series"
_COMMENT = re.compile(r"(?:^|\s+)#.*")
_STRIP = re.compile(r"-p(\d{1,2}|ab)\Z")
_PARTS = re.compile(r"(?:^|/)\.\.?(?:/|\Z)|^/|//|/\Z|\0")


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One line of a `series` file.

    `file` may be in a subdirectory. `strip` is the N of `-pN`; None without this option. `line` is the line number,
    from 1.
    """

    file: str
    strip: int | None
    line: int


def read_quilt(path: Path) -> tuple[Entry, ...]:
    """Return the entries of a `series` file, in order.

    Raises a `ConfigError` that lists every unusable line. A line is unusable if it has an option other than `-pN`, if
    its file is not below the directory, or if an earlier line lists the file.
    """
    try:
        text = read_regular(path).decode("utf-8", "surrogateescape")
    except OSError as error:
        raise PatchUnreadable(f"{path} cannot be read: {error.strerror or error}") from error
    problems: list[str] = []
    entries: list[Entry] = []
    lines: dict[str, int] = {}
    for number, line in enumerate(text.split("\n"), 1):
        words = _COMMENT.sub("", line).split()
        if not words:
            continue
        file, *options = words
        strip, refused = _options(options)
        problems += [f"line {number}: {file}: {complaint}" for complaint in refused]
        if _PARTS.search(file):
            problems.append(f"line {number}: {file}: the name must be the path of a file below this directory")
        elif file in lines:
            problems.append(f"line {number}: {file}: already listed on line {lines[file]}")
        else:
            lines[file] = number
            entries.append(Entry(file=file, strip=strip, line=number))
    if problems:
        raise PatchUnreadable(f"{path} cannot be used", problems=problems)
    return tuple(entries)


def _options(words: list[str]) -> tuple[int | None, list[str]]:
    """Return the N of `-pN`, or None without this option. Also return the problems of other options.

    quilt's option `-pab` means -p1 with names that begin with a/ and b/.
    """
    strip: int | None = None
    refused: list[str] = []
    for word in words:
        if found := _STRIP.match(word):
            strip = 1 if found[1] == "ab" else int(found[1])
        elif word in ("-R", "--reverse"):
            refused.append("-R reverts the patch: remove it from the series, or reverse the file (interdiff)")
        else:
            refused.append(f"option {word} is unknown: it may change the patch's effect")
    return strip, refused
