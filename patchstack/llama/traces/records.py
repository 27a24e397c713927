"""One line of a log: the record or summary that ends it, or why there is none that can be read."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

from patchstack.llama.traces.formats import FORMATS, SIGNED_KEYS, TEXT_KEYS, TYPE_KEYS, Format, bracketed
from patchstack.llama.traces.ggml_types import type_name
from patchstack.llama.traces.histogram import Histogram, read_histogram

CUT_AT = 1023
"""A longer record is cut by the trace: it was written from a buffer of 1,024 bytes, one of which ends the line."""

_ANSI = re.compile(rb"\x1b\[[0-9;:?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)")
_NUMBER = re.compile(r"\d{1,20}\Z")
_SIGNED = re.compile(r"-?\d{1,20}\Z")
_MAX_OPEN_KEYS = 64

_LISTED = {one.text.encode(): one for one in FORMATS}
_SUMMARIES = {one.summary.encode(): one for one in FORMATS if one.summary is not None}
# A logger may leave the beginning of its own line before a name: also a letter.
_NAME = re.compile(
    b"|".join(re.escape(text) for text in sorted({*_LISTED, *_SUMMARIES}, key=len, reverse=True))
    + rb"|\[LLAMA_[A-Z0-9_]{1,60}\] "
)
Value = int | str


@dataclass(frozen=True, slots=True)
class Record:
    """A record: values by key, types with their one name, numbers as numbers. `was_cut`: the trace cut it at its
    longest, and its last pair is left out."""

    format: Format
    values: Mapping[str, Value]
    was_cut: bool = False


@dataclass(frozen=True, slots=True)
class Summary:
    """A summary: counters, and histograms with their own edges."""

    format: Format
    counters: Mapping[str, int]
    histograms: Mapping[str, Histogram]

    @property
    def lines(self) -> int | None:
        """How many records were written; None if it does not say."""
        return self.counters.get("lines")

    @property
    def dropped(self) -> int:
        """How many records were not written because of the limit."""
        return self.counters.get("dropped", 0)


@dataclass(frozen=True, slots=True)
class Unreadable:
    """A line that names a record and holds none."""

    format: Format
    why: str


def plain(line: bytes) -> bytes:
    """Return a line without colours, and without what ends it."""
    if b"\x1b" in line:
        line = _ANSI.sub(b"", line)
    return line.rstrip(b"\r\n")


def names_in(line: bytes) -> list[re.Match[bytes]]:
    """Return where a line names a record."""
    return list(_NAME.finditer(line))


def read_record(line: bytes) -> Record | Summary | Unreadable | None:
    """Return the record or summary that ends a plain line, or None if the line names none."""
    first = _NAME.search(line)
    if first is None:
        return None
    kind = _format_of(first[0])
    if _NAME.search(line, first.end()) is not None:
        return Unreadable(kind, "two records in one line")
    summary = first[0] in _SUMMARIES
    text = line[first.start() :]
    body = text[len("kv_paged ") if kind.name == "kv_paged" else len(first[0]) :].rstrip(b" ")
    cut = kind.counted and not summary and len(text) >= CUT_AT
    try:
        pairs = _pairs((body.rpartition(b" ")[0] if cut else body).decode("utf-8"))
    except UnicodeDecodeError:
        return Unreadable(kind, "it is not text")
    if isinstance(pairs, str):
        return Unreadable(kind, pairs)
    if summary:
        return _summary(kind, pairs)
    return _record(kind, pairs, cut=cut)


@cache
def _format_of(name: bytes) -> Format:
    known = _SUMMARIES.get(name) or _LISTED.get(name)
    return known if known is not None else bracketed(name[1:-2].decode("ascii"))


def _pairs(text: str) -> dict[str, str] | str:
    pairs: dict[str, str] = {}
    for word in text.split(" "):
        key, equals, value = word.partition("=")
        if not equals or not key:
            return f"{word[:40]!r} is not key=value"
        if key in pairs:
            return f"{key} is there twice"
        pairs[key] = value
    return pairs


def _record(kind: Format, pairs: Mapping[str, str], *, cut: bool) -> Record | Unreadable:
    keys = kind.keys if pairs.get("event") == "stock" else (*kind.keys, *kind.numbers)
    missing = [key for key in keys if key not in pairs]
    if missing and not cut:
        return Unreadable(kind, f"{missing[0]} is missing")
    if len(pairs) > _MAX_OPEN_KEYS:
        return Unreadable(kind, f"it has more than {_MAX_OPEN_KEYS} keys")
    values: dict[str, Value] = {}
    for key, text in pairs.items():
        value = _value(kind, key, text)
        if value is None:
            return Unreadable(kind, f"{key} is {text[:40]!r}")
        values[key] = value
    return Record(kind, values, cut)


def _value(kind: Format, key: str, text: str) -> Value | None:
    if key in TYPE_KEYS:
        return type_name(text) if text.isprintable() and text else None
    if key in TEXT_KEYS:
        return text if text.isprintable() and text and "=" not in text else None
    if (_SIGNED if key in SIGNED_KEYS else _NUMBER).match(text):
        return int(text)
    # New keys may be added at the end, and of an open format nothing is known.
    known = key in kind.keys or key in kind.by or key in kind.numbers
    return text if not known and text.isprintable() and "=" not in text else None


def _summary(kind: Format, pairs: Mapping[str, str]) -> Summary | Unreadable:
    counters: dict[str, int] = {}
    histograms: dict[str, Histogram] = {}
    for key, text in pairs.items():
        if _NUMBER.match(text):
            counters[key] = int(text)
        elif ":" in text:
            histogram = read_histogram(text)
            if histogram is None:
                return Unreadable(kind, f"{key} is no histogram: {text[:40]!r}")
            histograms[key] = histogram
        elif text == "" and key.endswith("_hist"):
            histograms[key] = Histogram(())
        elif not (kind.name == "kv_paged" and key == "event"):
            return Unreadable(kind, f"{key} is {text[:40]!r}")
    if kind.counted and not {"lines", "dropped"} <= counters.keys():
        return Unreadable(kind, "lines or dropped is missing")
    return Summary(kind, counters, histograms)
