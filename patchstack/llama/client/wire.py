"""Parse HTTP/1.1 responses while they arrive.

A body is chunked, has `Content-Length`, or ends with the connection. Source: RFC 9112.
"""

from __future__ import annotations

from enum import Enum

MOST_HEAD = 64 << 10
_MOST_LINE = 4096
_MARKS = (b"\r\n\r\n", b"\n\n", b"\n\r\n")
"""The byte sequences that end the headers. An LF without a CR also ends a line (RFC 9112, section 2.2)."""
_MOST_MARK = max(map(len, _MARKS))
_HEX = frozenset(b"0123456789abcdefABCDEF")
_TOKEN = frozenset(b"!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ")


class BadAnswer(ValueError):
    """The data is not a complete HTTP response. The message is the reason."""


class Framing(Enum):
    """How the end of a body is recognized."""

    CHUNKED = "chunked"
    LENGTH = "length"
    CLOSE = "close"


class AnswerReader:
    """Parses one response. Interim responses (1xx) are skipped.

    `status` is 0 until the headers are complete. `headers` have lower-case names. The values of repeated headers are
    joined by a comma. `done` is true if the body is complete.
    """

    def __init__(self) -> None:
        self.status = 0
        self.headers: dict[str, str] = {}
        self.framing = Framing.CLOSE
        self.done = False
        self._held = bytearray()
        self._searched = 0  # the position in `_held` at which the search for the end of the headers continues
        self._left = 0  # bytes still to come of the body, or of the chunk and its line ending
        self._trailers = False
        self._trailing = 0
        self._between = False  # whether the next byte begins a chunk

    def feed(self, data: bytes) -> bytes:
        """Parse the next bytes of the response, and return the bytes of the body in them.

        Bytes after the end of the response are ignored, because each connection is used only once. Raises `BadAnswer`
        if the response is invalid.
        """
        if self._between and (whole := _one_chunk(data)) is not None:
            return whole
        if self.done:
            return b""
        self._held += data
        if not self.status and not self._head():
            return b""
        if self.framing is Framing.CHUNKED:
            found = self._chunks()
            self._between = not any((self.done, self._held, self._left, self._trailers))
            return found
        if self.framing is Framing.CLOSE:
            return self._taken(len(self._held))
        found = self._taken(min(self._left, len(self._held)))
        self._left -= len(found)
        self.done = self._left == 0
        return found

    def left(self) -> int:
        """Return the number of bytes of the body that are still to come. Valid only with `Content-Length`."""
        return self._left

    def close(self) -> None:
        """Handle the end of the connection. Raises `BadAnswer` if the response is incomplete."""
        if self.done:
            return
        if not self.status:
            raise BadAnswer(
                "the connection ended before the headers were complete" if self._held else "no answer was received"
            )
        if self.framing is not Framing.CLOSE:
            raise BadAnswer("the connection ended before the answer was complete")
        self.done = True

    def _taken(self, count: int) -> bytes:
        found = bytes(self._held[:count])
        del self._held[:count]
        return found

    def _head(self) -> bool:
        """Parse the headers, and skip interim responses.

        Return whether the headers of the final response are complete.
        """
        while True:
            end = _end_of_head(self._held, self._searched)
            if end is None:
                self._searched = max(0, len(self._held) - _MOST_MARK + 1)
                if len(self._held) > MOST_HEAD:
                    raise BadAnswer(f"the headers are larger than {MOST_HEAD >> 10} KiB")
                if self._held and not b"HTTP/".startswith(bytes(self._held[:5])):
                    raise BadAnswer("the answer is not HTTP")
                return False
            head = self._taken(end)
            self._searched = 0
            if len(head) > MOST_HEAD:
                raise BadAnswer(f"the headers are larger than {MOST_HEAD >> 10} KiB")
            status, self.headers = _read_head(head)
            if 100 <= status < 200 and status != 101:
                continue
            self.status = status
            self._frame()
            return True

    def _frame(self) -> None:
        coding = self.headers.get("transfer-encoding", "").strip().lower()
        length = self.headers.get("content-length")
        if self.status in (204, 304):
            self.framing, self.done = Framing.LENGTH, True
        elif coding:
            if coding != "chunked":
                raise BadAnswer(f"the transfer coding is {coding[:40]!r}, not chunked")
            self.framing = Framing.CHUNKED
        elif length is not None:
            numbers = {one.strip() for one in length.split(",")}
            number = numbers.pop()
            if numbers or not (number.isascii() and number.isdigit()) or len(number) > 18:
                raise BadAnswer(f"the Content-Length is not valid: {length[:40]!r}")
            self.framing, self._left = Framing.LENGTH, int(number)
            self.done = self._left == 0

    def _chunks(self) -> bytes:
        out = bytearray()
        held, at = self._held, 0
        while not self.done:
            if self._left > 2:
                piece = held[at : at + self._left - 2]
                if not piece:
                    break
                out += piece
                at += len(piece)
                self._left -= len(piece)
                continue
            if self._left:
                ending = held[at : at + self._left]
                if ending != b"\r\n"[2 - self._left :][: len(ending)]:
                    raise BadAnswer("a chunk is longer than its stated size")
                at += len(ending)
                self._left -= len(ending)
                if self._left:
                    break
                continue
            end = held.find(b"\r\n", at)
            if end < 0:
                if len(held) - at > _MOST_LINE:
                    raise BadAnswer("a line with a chunk size or a trailer is too long")
                break
            line = bytes(held[at:end])
            at = end + 2
            if self._trailers:
                self._trailing += len(line)
                if self._trailing > MOST_HEAD:
                    raise BadAnswer("the trailers are too long")
                self.done = not line
                continue
            size = line.partition(b";")[0].strip(b" \t")
            if not size or len(size) > 12 or not _HEX.issuperset(size):
                raise BadAnswer(f"a chunk size is not valid: {line[:40]!r}")
            number = int(size, 16)
            if number:
                self._left = number + 2
            else:
                self._trailers = True
        del held[:at]
        return bytes(out)


def _one_chunk(data: bytes) -> bytes | None:
    """Return the content if the data is exactly one chunk. Return None otherwise.

    This is the usual case, so it is checked before the data is parsed.
    """
    line = data.find(b"\r\n", 0, 10)
    size = data[:line]
    if line < 1 or not _HEX.issuperset(size) or data[-2:] != b"\r\n":
        return None
    number = int(size, 16)
    return data[line + 2 : -2] if number and len(data) == line + 4 + number else None


def _end_of_head(held: bytearray, start: int) -> int | None:
    """Return the position after the empty line that ends the headers. Return None if it has not arrived.

    The search begins at `start`.
    """
    ends = [at + len(mark) for mark in _MARKS if (at := held.find(mark, start)) >= 0]
    return min(ends, default=None)


def _read_head(head: bytes) -> tuple[int, dict[str, str]]:
    lines = [line[:-1] if line.endswith(b"\r") else line for line in head.split(b"\n")]
    words = lines[0].split(b" ", 2)
    version = words[0]
    if not (len(version) == 8 and version.startswith(b"HTTP/1.") and version[7:].isdigit()):
        raise BadAnswer("the answer is not HTTP/1")
    if len(words) < 2 or len(words[1]) != 3 or not words[1].isdigit() or words[1][:1] == b"0":
        raise BadAnswer(f"the status line is not valid: {lines[0][:40]!r}")
    headers: dict[str, str] = {}
    for line in lines[1:]:
        if not line:
            continue
        name, colon, value = line.partition(b":")
        if not colon or not name or not _TOKEN.issuperset(name):
            raise BadAnswer(f"a header line is not valid: {line[:40]!r}")
        key, text = name.decode("ascii").lower(), value.strip(b" \t").decode("latin-1")
        headers[key] = f"{headers[key]}, {text}" if key in headers else text
    return int(words[1]), headers
