"""The output of a container, as the engine sends it to whoever is attached."""

from __future__ import annotations

import socket
import struct
import time
from typing import Any

_HEADER = struct.Struct(">BxxxL")
_BLOCK = 1 << 18


class Late(Exception):
    """A deadline has passed."""


class Attached:
    """One attachment: the container's stdin is open while this is. Made before the container starts, it misses
    nothing."""

    def __init__(self, stream: Any) -> None:
        """`stream` is what the SDK's `attach_socket` gives: a socket, or a file over one."""
        self._stream = stream
        self._socket: socket.socket = getattr(stream, "_sock", stream)
        self._received = bytearray()
        self._left = 0

    def read(self, deadline: float | None) -> bytes | None:
        """The next piece of output (stdout and stderr alike), None at the end. `deadline` is on the monotonic clock.

        Raises `Late` past the deadline, `OSError` where the connection broke.
        """
        while True:
            if out := self._frames():
                return out
            left = None if deadline is None else deadline - time.monotonic()
            if left is not None and left <= 0:
                raise Late
            self._socket.settimeout(left)
            try:
                received = self._socket.recv(_BLOCK)
            except TimeoutError:
                continue
            if not received:
                return None
            self._received += received

    def _frames(self) -> bytes:
        """The contents of what was received of frames: each has its stream, its length, then that many bytes."""
        out = bytearray()
        at = 0
        while True:
            if self._left:
                piece = self._received[at : at + self._left]
                out += piece
                at += len(piece)
                self._left -= len(piece)
            if self._left or len(self._received) - at < _HEADER.size:
                break
            _, self._left = _HEADER.unpack_from(self._received, at)
            at += _HEADER.size
        del self._received[:at]
        return bytes(out)

    def close(self) -> None:
        """Let go, which ends the container where it still runs."""
        try:
            self._socket.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass
        finally:
            self._socket.close()
            self._stream.close()
