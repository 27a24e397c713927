"""Read the mail of a patch: its author, its date, and the trailers of its message.

Trailers are recognized by git's rules (trailer.c of git 2.39, `git interpret-trailers --parse`), without configuration.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from patchstack.git.patch.mail import read_mail

if TYPE_CHECKING:
    from email.message import Message as Mail

# Metadata is stored in commit trailers, so that it is part of the fork's history.
SWITCH, DEFAULT, GATES, GROUP, UPSTREAM, REPLACES = "switch", "default", "gates", "group", "upstream", "replaces"
NEW_GATES = "new_gates"
SCOPE, REASON, DROP_WHEN, DROP_CHECK = "scope", "reason", "drop_when", "drop_check"
METADATA = (  # in the order of table columns
    *(GROUP, SWITCH, DEFAULT, GATES, NEW_GATES, UPSTREAM, REPLACES),
    *(SCOPE, REASON, DROP_WHEN, DROP_CHECK),
)
_LISTS = (GATES, NEW_GATES, SCOPE)  # values of these trailers are split at blanks and commas
_KNOWN = {
    "switch": SWITCH,
    "default": DEFAULT,
    "gate": GATES,
    "gates": GATES,
    "new-gate": NEW_GATES,
    "group": GROUP,
    "upstream": UPSTREAM,
    "replaces": REPLACES,
    "scope": SCOPE,
    "reason": REASON,
    "drop-when": DROP_WHEN,
    "drop-check": DROP_CHECK,
}

_BLANKS = " \t\n\r"  # the whitespace of git's own isspace
_GENERATED = ("Signed-off-by: ", "(cherry picked from commit ")
_SCISSORS = "# ------------------------ >8 ------------------------\n"
_KEY = re.compile(r"([A-Za-z0-9-]+[ \t]*):")
_FIRST_DIFF = re.compile(rb"^(?:diff --git |--- [^\n]*\n\+\+\+ |Index: )", re.MULTILINE)
_DIVIDER = re.compile(rb"^---\s", re.MULTILINE)
_END = rb"(?:\r\n|\r(?!\n)|\n)"
_HEAD = re.compile(rb"(?:(?:From |[!-9;-~]*:|[\t ])[^\r\n]*" + _END + rb")*")  # as in email.feedparser
# A `From ` line after all headers is the first line of the body.
_LAST_FROM = re.compile(rb"[\r\n](From [^\r\n]*" + _END + rb")\Z")
_BLANK = re.compile(_END)
_LONG = 1 << 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Trailer:
    """A trailer: the key as written, and the value joined into one line."""

    key: str
    value: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """The mail of a patch.

    `author` and `date` are the decoded headers, or None if they are missing. `body` is the text below the subject, up
    to git's `---` line.
    """

    author: str | None
    date: str | None
    subject: str
    body: str

    @property
    def trailers(self) -> tuple[Trailer, ...]:
        return parse_trailers(f"{self.subject}\n\n{self.body}")

    def metadata(self) -> dict[str, tuple[str, ...]]:
        """Return the values of the trailers that patchstack knows, by name.

        `metadata_of` describes the names.
        """
        return metadata_of(self.trailers)


def read_message(data: bytes) -> Message:
    """Read the text before the diff of a patch file.

    Does not raise: the message of a file without a mail header is empty.
    """
    first = _FIRST_DIFF.search(data)
    mail = data[: first.start()] if first else data
    if mail.startswith(b"From "):
        mail = mail.partition(b"\n")[2]
    subject = read_mail(data).subject
    if not subject:
        return Message(author=None, date=None, subject="", body="")
    parsed = _parsed(mail)
    # Use the raw headers, because the parser damages UTF-8 without encoded words.
    headers = {name.lower(): str(value) for name, value in reversed(list(parsed.raw_items()))}
    payload = parsed.get_payload(decode=True)
    body = payload if isinstance(payload, bytes) else b""
    divider = _DIVIDER.search(body)
    if divider:
        body = body[: divider.start()]
    return Message(
        author=_header(headers.get("from")),
        date=_header(headers.get("date")),
        subject=subject,
        body=_decoded(body.replace(b"\r\n", b"\n"), parsed.get_content_charset()).strip("\n"),
    )


def _parsed(mail: bytes) -> Mail:
    """Return the parsed mail.

    Only the header of a long mail is parsed, because `email` reads a body line by line and needs 100 bytes for each
    line.
    """
    from email.parser import BytesParser
    from email.policy import compat32

    parser = BytesParser(policy=compat32)
    if len(mail) <= _LONG:
        return parser.parsebytes(mail)
    head = _HEAD.match(mail)
    end = head.end() if head else 0
    last = _LAST_FROM.search(mail, 0, end)
    begin = last.start(1) if last else end
    blank = _BLANK.match(mail, end)
    parsed = parser.parsebytes(mail[:begin] + b"\n")
    if parsed.get_content_maintype() not in ("multipart", "message"):
        body = mail[begin:end] + mail[blank.end() if blank else end :]
        parsed.set_payload(body.decode("ascii", "surrogateescape"))
    return parsed


def _header(value: str | None) -> str | None:
    """Return a header as text.

    RFC 2047 words are decoded, folded lines are joined, and raw bytes are read as UTF-8.
    """
    if value is None:
        return None
    from email.errors import HeaderParseError
    from email.header import decode_header, make_header

    text = value.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
    with contextlib.suppress(HeaderParseError, LookupError, UnicodeError, ValueError):
        text = str(make_header(decode_header(text))) if "=?" in text else text
    return " ".join(text.split())


def _decoded(body: bytes, charset: str | None) -> str:
    try:
        return body.decode(charset or "utf-8", "replace")
    except LookupError:
        return body.decode("utf-8", "replace")


def metadata_of(trailers: Iterable[Trailer]) -> dict[str, tuple[str, ...]]:
    """Return the values of the trailers that patchstack knows, by name.

    `gates` are the values of Gate and Gates, and `new_gates` are the values of New-Gate. The values of `gates`,
    `new_gates` and `scope` are split at blanks and commas.
    """
    found: dict[str, list[str]] = {}
    for trailer in trailers:
        name = _KNOWN.get(trailer.key.lower())
        if name is not None:
            values = re.split(r"[\s,]+", trailer.value) if name in _LISTS else [trailer.value]
            found.setdefault(name, []).extend(filter(None, values))
    return {name: tuple(values) for name, values in found.items()}


def parse_trailers(message: str) -> tuple[Trailer, ...]:
    """Return the trailers of a commit message, as `git interpret-trailers --parse` prints them.

    Trailers are in the last paragraph, which must not be the first one. All lines of the paragraph must be trailers. A
    quarter of the lines is enough if one of the trailers is from git itself: a sign-off or a cherry-pick note. A line
    that begins with a blank continues the trailer above it.
    """
    lines = message.split("\n")
    if lines[-1] == "":
        lines.pop()
    end = next((i for i, line in enumerate(lines) if line[:3] == "---" and (line[3:4] or "\n") in _BLANKS), len(lines))
    lines = _without_end(lines[:end])
    found: list[tuple[str, list[str]]] = []
    going_on = False
    for line in lines[_start(lines) :]:
        if going_on and line[:1] in _BLANKS:
            # An empty line counts as blank, because its newline is whitespace.
            found[-1][1].append(line)
            continue
        key = _KEY.match(line)
        going_on = key is not None
        if key is not None:
            found.append((key.group(1), [line[key.end() :]]))
    return tuple(Trailer(key=key.strip(_BLANKS), value=_unfolded("\n".join(lines))) for key, lines in found)


def _unfolded(value: str) -> str:
    return re.sub(r"\n[ \t\n\r]*", " ", value.strip(_BLANKS)).strip(_BLANKS)


def _start(lines: Sequence[str]) -> int:
    """Return the index of the first trailer line, or the number of lines if there are no trailers."""
    title = next((i for i, line in enumerate(lines) if not line.startswith("#") and _is_blank(line)), len(lines))
    trailers = others = continuations = 0
    own = False
    only_blank = True
    for at in range(len(lines) - 1, title - 1, -1):
        line = lines[at]
        if line.startswith("#"):
            others, continuations = others + continuations, 0
        elif _is_blank(line):
            if only_blank:
                continue
            others += continuations
            held = (own and trailers * 3 >= others) or (trailers and not others)
            return at + 1 if held else len(lines)
        elif line.startswith(_GENERATED):
            trailers, continuations, own = trailers + 1, 0, True
        elif _KEY.match(line):
            trailers, continuations = trailers + 1, 0
        elif line[:1] in _BLANKS:
            continuations += 1
        else:
            others, continuations = others + continuations + 1, 0
        only_blank = only_blank and line.startswith("#")
    return len(lines)


def _without_end(lines: list[str]) -> list[str]:
    """Return the message without the lines at its end that git ignores.

    These are empty lines, comments, an old `Conflicts:` block, and everything below a scissors line.
    """
    cut = next((i for i, line in enumerate(lines) if line + "\n" == _SCISSORS), len(lines))
    overlooked = 0  # as in git, the first line is never ignored
    conflicts = False
    for at, line in enumerate(lines[:cut]):
        if line == "" or line.startswith("#"):
            overlooked = overlooked or at
        elif line == "Conflicts:":
            conflicts = True
            overlooked = overlooked or at
        elif not (conflicts and line.startswith("\t")) and overlooked:
            overlooked, conflicts = 0, False
    return lines[: overlooked or cut]


def _is_blank(line: str) -> bool:
    return not line.strip(_BLANKS)
