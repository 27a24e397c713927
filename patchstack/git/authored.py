"""Create commits from patch files as `git am` would.

The same patch files always produce the same commit ids.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from patchstack.causes import NotWritable
from patchstack.git import run as git
from patchstack.git.objects import Commit, object_id
from patchstack.git.patch.heads import read_head
from patchstack.git.scratch import bare_repository

_COMMITTED = re.compile(rb"^committer .*> (-?\d{1,12} [+-]\d{4})$", re.MULTILINE)
_DAY = re.compile(r"(?:\w{3}, )?\d{1,2} \w{3} \d{4}|\d{4}-\d\d-\d\d")
_BLANKS = b" \t\r\n"  # the whitespace of git's own isspace


@dataclass(frozen=True, slots=True, kw_only=True)
class NoCommit:
    """The reason why no commit can be made from a patch file."""

    reason: str


class Author:
    """Creates commits from patch files.

    git itself parses the mail and the author (`git mailinfo -b`, `git var`).
    """

    def __init__(self, root: Path, base: Commit, base_raw: bytes) -> None:
        self._root = root
        self._base = base
        found = _COMMITTED.search(base_raw.partition(b"\n\n")[0])
        self._date = found.group(1).decode("ascii") if found else "0 +0000"

    def commit(self, data: bytes, subject: str, tree: str, parent: str) -> tuple[str, bytes] | NoCommit:
        """Return the id and the bytes of the commit for a patch file, with the given tree and parent.

        Author, date and message come from the mail, or from the header of a patch that is not a mail. Neither has a
        committer, so the author is also the committer, with the same date. If there is no author, the author is
        `patchstack`. If there is no date, the pin's date is used. `subject` is used if the file has no subject.

        Return `NoCommit` if git cannot read the mail, the author or the date.
        """
        head = data.replace(b"\r\n", b"\n") if b"\r\n" in data[:1000] else data
        message = self._root / "message"
        options = ("mailinfo", "-b", "--encoding=UTF-8", str(message), str(self._root / "diff"))
        read = git.isolated(self._root, *options, stdin=head or b"\n")
        if not read.ok:
            return NoCommit(reason=f"its mail cannot be read: {read.complaint}")
        fields = dict(_fields(read.stdout))
        told, body = fields.get(b"Subject", b""), message.read_bytes()
        if not told:
            # A file without a mail subject has the header of another tool, or prose.
            other = read_head(data)
            told, body = other.subject or subject.encode(), other.body
            name, _, address = other.author.rpartition(b"<")
            if other.author and b"Email" not in fields:
                fields |= {b"Author": name.strip().strip(b'"'), b"Email": address.strip(b"> ")}
            fields.setdefault(b"Date", other.date)
        # Without `@`, git does not read every number as seconds since 1970.
        date = fields.get(b"Date", b"").decode("utf-8", "replace") or f"@{self._date}"
        if _DAY.fullmatch(date):
            date += " 00:00:00 +0000"
        who = git.isolated(
            self._root,
            "var",
            "GIT_AUTHOR_IDENT",
            GIT_AUTHOR_NAME=fields.get(b"Author", b"").decode("utf-8", "surrogateescape") or "patchstack",
            GIT_AUTHOR_EMAIL=fields.get(b"Email", b"").decode("utf-8", "surrogateescape") or "patchstack@localhost",
            GIT_AUTHOR_DATE=date,
        )
        if not who.ok:
            return NoCommit(reason=f"its author or date cannot be used: {git.first_complaint(who)}")
        ident = who.stdout.rstrip(b"\n")
        head = b"tree %s\nparent %s\nauthor %s\ncommitter %s\n\n" % (tree.encode(), parent.encode(), ident, ident)
        raw = head + _cleaned(told + b"\n\n" + body)
        return object_id("commit", raw), raw


@contextlib.contextmanager
def an_author(base: Commit, base_raw: bytes) -> Iterator[Author]:
    """Open an `Author` for a pin.

    The temporary repository of the `Author` is removed at the end of the `with` block. Raises `NotWritable` if the
    temporary directory cannot be used.
    """
    try:
        with bare_repository() as root:
            yield Author(root, base, base_raw)
    except OSError as error:
        raise NotWritable(f"a temporary directory cannot be used: {error.strerror or error}") from error


def _fields(printed: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Yield the header lines that `git mailinfo` prints, as key and value."""
    for line in printed.split(b"\n"):
        name, colon, value = line.partition(b": ")
        if colon:
            yield name, value.strip()


def _cleaned(message: bytes) -> bytes:
    """Return a message as `git stripspace` prints it.

    Trailing whitespace is removed. Consecutive empty lines are reduced to one. Empty lines at the beginning and end are
    removed.
    """
    kept: list[bytes] = []
    for line in (line.rstrip(_BLANKS) for line in message.split(b"\n")):
        if line or (kept and kept[-1]):
            kept.append(line)
    while kept and not kept[-1]:
        kept.pop()
    return b"".join(line + b"\n" for line in kept)
