"""Compare transcripts, and compute their digests. A transcript is the output of a model, as bytes."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass

_DIGEST = re.compile(r"[0-9a-f]{32}(?:[0-9a-f]{32})?\Z")
_CONTEXT = 24
_BLANK = (b"", b"\n", b"\n\n", b"\n\n\n", b" ", b"\r\n")


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """The first difference between two texts.

    `position` is the index of the first different character, starting at 0. `before` is the end of the common text
    before the difference. `expected` and `actual` are the beginnings of the two texts from `position` on.
    """

    position: int
    before: str
    expected: str
    actual: str

    def __str__(self) -> str:
        after = f"after {self.before!r}, " if self.before else ""
        return f"first difference at character {self.position}: {after}{_quoted(self.expected)} became " + _quoted(
            self.actual
        )


def digest_like(text: bytes, reference: str) -> str:
    """Return the digest of a transcript, of the same kind as the reference digest.

    The kinds are MD5 (32 digits) and SHA-256 (64 digits).
    """
    return sha256_of(text) if len(reference) == 64 else md5_of(text)


def md5_of(text: bytes) -> str:
    """Return the MD5 in hex, as `md5sum` prints it. The references of the notebook have this format."""
    return hashlib.md5(text, usedforsecurity=False).hexdigest()


def sha256_of(text: bytes) -> str:
    """Return the SHA-256 in hex, as `sha256sum` prints it."""
    return hashlib.sha256(text).hexdigest()


def reference_problem(reference: str) -> str | None:
    """Return the problem with a reference digest. Return None if it is valid."""
    if not _DIGEST.match(reference):
        return f"{reference!r} is not a digest: 32 (MD5) or 64 (SHA-256) lower-case hexadecimal digits"
    if any(reference in (md5_of(blank), sha256_of(blank)) for blank in _BLANK):
        return f"{reference} is the digest of an empty text: its run lost the output"
    return None


def difference(expected: bytes, actual: bytes) -> Difference | None:
    """Return the first difference between two transcripts. Return None if they are equal.

    Bytes that are not UTF-8 are shown as `\\xff`.
    """
    if expected == actual:
        return None
    one, other = (text.decode("utf-8", "surrogateescape") for text in (expected, actual))
    same = (mine == theirs for mine, theirs in zip(one, other, strict=False))
    position = next((index for index, equal in enumerate(same) if not equal), min(len(one), len(other)))
    return Difference(
        position=position,
        before=_shown(one[max(0, position - _CONTEXT) : position]),
        expected=_shown(one[position : position + _CONTEXT]),
        actual=_shown(other[position : position + _CONTEXT]),
    )


def as_text(transcript: bytes, limit: int = 8192) -> str | None:
    """Return a transcript as text. Return None if it is not UTF-8 or is longer than `limit` bytes."""
    if len(transcript) > limit:
        return None
    try:
        return transcript.decode("utf-8")
    except UnicodeDecodeError:
        return None


def _shown(text: str) -> str:
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")


def _quoted(text: str) -> str:
    return repr(text) if text else "the end"
