"""Parse server-sent events while they arrive. Source: WHATWG HTML, section 9.2."""

from __future__ import annotations

from typing import NamedTuple

MOST_LINE = 4 << 20


class BadStream(ValueError):
    """The data is not a stream of events. The message is the reason."""


class Event(NamedTuple):
    """An event of a stream.

    Lines of `data` are joined by LF. `name` is the event type. It is `message` if the stream does not specify a type.
    """

    data: bytes
    name: str = "message"


class EventReader:
    """Parses a stream of events.

    `comments` is the number of comment lines. Servers send them to keep a connection open.
    """

    def __init__(self) -> None:
        self.comments = 0
        self._held = bytearray()
        self._between = False  # whether the next byte begins an event; false at the start of the stream
        self._began = False
        self._after_cr = False
        self._data: list[bytes] = []
        self._size = 0
        self._name = b""

    def feed(self, data: bytes) -> list[Event]:
        """Parse the next bytes of the stream, and return the events that they complete.

        Raises `BadStream` if a line or an event is too long.
        """
        if self._between and _is_one_event(data):
            return [Event(data[6:-2])]
        if self._after_cr and data:  # an LF after a CR belongs to the same line ending
            self._after_cr = False
            data = data[1:] if data[:1] == b"\n" else data
        held, searched = self._held, len(self._held)
        held += data
        if not self._began:
            if held.startswith(b"\xef\xbb\xbf"):
                del held[:3]
            elif b"\xef\xbb\xbf".startswith(held):
                return []
            self._began, searched = True, 0
        found: list[Event] = []
        at = 0
        while True:
            start = max(at, searched)
            lf = held.find(b"\n", start)
            cr = held.find(b"\r", start, lf if lf >= 0 else len(held))
            end = cr if cr >= 0 else lf
            if end < 0:
                break
            self._line(bytes(held[at:end]), found)
            at = end + 1
            if end == cr:
                if at == len(held):
                    self._after_cr = True
                elif held[at] == 0x0A:
                    at += 1
        del held[:at]
        if len(held) > MOST_LINE:
            raise BadStream(f"a line of the stream is over {MOST_LINE >> 20} MiB")
        self._between = not (held or self._data or self._name or self._after_cr)
        return found

    def unfinished(self) -> bool:
        """Return whether the stream ends inside an event."""
        return bool(self._data) or bool(self._held.strip(b"\r\n"))

    def _line(self, line: bytes, found: list[Event]) -> None:
        if not line:
            if self._data:
                name = self._name.decode("utf-8", "replace") or "message"
                found.append(Event(b"\n".join(self._data), name))
            self._data, self._name, self._size = [], b"", 0
            return
        field, colon, value = line.partition(b":")
        if not field and colon:
            self.comments += 1
            return
        if value[:1] == b" ":
            value = value[1:]
        if field == b"data":
            self._data.append(value)
            self._size += len(value) + 1
            if self._size > MOST_LINE:
                raise BadStream(f"an event of the stream is over {MOST_LINE >> 20} MiB")
        elif field == b"event":
            self._name = value


def _is_one_event(data: bytes) -> bool:
    """Return whether the data is exactly one event with one line of data.

    This is the usual case, so it is checked before the data is parsed.
    """
    return (
        data.startswith(b"data: ")
        and data.find(b"\n") == len(data) - 2 <= MOST_LINE
        and data.endswith(b"\n\n")
        and b"\r" not in data
    )
