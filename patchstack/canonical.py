"""JSON whose bytes depend on the value alone: keys are sorted. The only module that writes any such form.

Digests, names and files are made of these bytes. A form that changes by one blank makes every kept build, observation
and decision unknown.
"""

from __future__ import annotations

import json
from typing import Any


def canonical(value: Any, *, ascii: bool = True) -> bytes:  # noqa: A002  (json's own word is ensure_ascii)
    """Return the form for digests: no blanks. Without `ascii`, letters beyond ASCII are UTF-8 instead of escapes."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=ascii).encode()


def one_line(value: Any) -> str:
    """Return the form for one document a line: a blank after every colon and comma, ASCII, no newline at the end.

    Requests to a server, and the digests of toolchains and of requests, are made of it too.
    """
    return json.dumps(value, sort_keys=True)


def indented(value: Any, *, ascii: bool = True) -> bytes:  # noqa: A002
    """Return the form for files that people read: two spaces a level, a newline at the end. `ascii` as in
    `canonical`."""
    return (json.dumps(value, sort_keys=True, indent=2, ensure_ascii=ascii) + "\n").encode()
