"""Parse and build the names of patch files: suffixes, numbers, slugs. Only this module defines the suffixes.

`0007-fast-path.patch` is plain: git applies it. A patch has the suffix `.anchored` if git would apply it at the wrong
place and report no error. Export writes these two forms. Series from other tools may also contain `.diff` files,
mailboxes, and compressed files such as `0007-fast-path.patch.gz`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from patchstack.causes import NoSuchPatch

_PLAIN, _ANCHORED, _DIFF, _MAILBOX = ".patch", ".anchored", ".diff", ".mbox"
_PACKED = (".gz", ".xz", ".bz2")
_ZSTANDARD = ".zst"
_TEXTS = (_PLAIN, _DIFF, _MAILBOX)
_SUFFIXES = (_ANCHORED, *_TEXTS, *(text + packed for text in _TEXTS for packed in (*_PACKED, _ZSTANDARD)))
_LOOKS = (_PLAIN, _DIFF, _ANCHORED)
# `git format-patch -v2` writes v2-0007-fast-path.patch.
_NUMBER = re.compile(r"(?:v\d+-)?(\d+)(?=[-_.])")
_DIGITS = re.compile(r"(?:v\d+-)?\d")
_NUMBERED = re.compile(r"\d{4}-")
_LONGEST = 64  # the length at which `git format-patch` cuts names
_SPANS = 12  # maximum number of ranges in a text; more would be hard to read


def is_patch(file: str) -> bool:
    """Return whether a file with this name is a patch of the series."""
    return file.endswith(_SUFFIXES)


def is_anchored(file: str) -> bool:
    """Return whether a patch with this name is anchored."""
    return file.endswith(_ANCHORED)


def packed_as(file: str) -> str | None:
    """Return the compression of a file by its name: `gz`, `xz`, `bz2` or `zst`. Return None for a file that is not
    compressed."""
    found = next((suffix for suffix in (*_PACKED, _ZSTANDARD) if file.endswith(suffix)), None)
    return found and found[1:]


def looks_like_patch(file: str) -> bool:
    """Return whether a file's name suggests a patch. This is meant for files that are not patches of the series."""
    return _NUMBERED.match(file) is not None and any(look in file.lower() for look in _LOOKS)


def number_of(file: str) -> int | None:
    """Return the number in a file's name. Return None if it has no number."""
    found = _NUMBER.match(_base(file))
    return int(found.group(1)) if found else None


def begins_with_number(file: str) -> bool:
    """Return whether a file's name begins with digits. Sorting such names puts patches in order."""
    return _DIGITS.match(_base(file)) is not None


def slug_of(file: str) -> str:
    """Return a numbered file's name without number and suffix. The result is empty if nothing else remains."""
    stem, found = stem_of(file), _NUMBER.match(_base(file))
    return stem[found.end() + 1 :] if found else stem


def title_of(file: str) -> str:
    """Return a subject for a patch that has no mail header. The subject is made from the file name."""
    return _NUMBER.sub("", stem_of(file), count=1).replace("-", " ").replace("_", " ").strip()


def stem_of(file: str) -> str:
    """Return a file's name without directories and suffix."""
    base = _base(file)
    suffix = next((suffix for suffix in _SUFFIXES if base.endswith(suffix)), "")
    return base[: len(base) - len(suffix)]


def make_name(number: int | None, slug: str, *, anchored: bool) -> str:
    """Return the file name of an exported patch. If `number` is None, the name has no number."""
    numbered = slug if number is None else f"{number:04d}-{slug}"
    return numbered + (_ANCHORED if anchored else _PLAIN)


def cut_slug(number: int, slug: str) -> str:
    """Return a slug cut in the same way as `git format-patch` cuts it.

    git reserves space for its own suffix and one more character, so the result does not depend on patchstack's suffix.
    """
    return slug[: _LONGEST - len(make_name(number, "", anchored=False)) - 1]


def in_form(file: str, *, anchored: bool) -> str:
    """Return the name of a patch file, with the suffix for plain or anchored patches."""
    return make_name(None, stem_of(file), anchored=anchored)


def unpacked_name(file: str) -> str:
    """Return the name of a file after decompression."""
    packed = packed_as(file)
    return file[: -len(packed) - 1] if packed else file


def refreshed_name(file: str) -> str:
    """Return the name of a patch in a refreshed copy. Such a copy contains no compressed files and no mailboxes."""
    box, mark, place = file.rpartition("#")
    if mark:
        return f"{box[: len(box) - len(_base(box))]}{stem_of(box)}-{int(place):04d}{_PLAIN}"
    return unpacked_name(file)


def choose_by_name(which: str, files: Sequence[str]) -> int | None:
    """Return the position of the file to which a word refers.

    The word is the file's name, the name without suffix, or a unique prefix of the name. Return None if no name
    matches. Raises `ConfigError` if several names begin with the word.
    """
    for names in ([*files], [_base(file) for file in files], [stem_of(file) for file in files]):
        if names.count(which) == 1:
            return names.index(which)
    found = [place for place, file in enumerate(files) if _base(file).startswith(which) and which]
    if len(found) > 1:
        raise NoSuchPatch(
            f"more than one patch name begins with {which}", problems=[files[place] for place in found[:_SPANS]]
        )
    return found[0] if found else None


def spans(numbers: Iterable[int]) -> str:
    """Return numbers as text, with ranges: `0001-0004, 0006`. Only the first 12 ranges are listed."""
    runs: list[list[int]] = []
    for number in sorted(set(numbers)):
        if runs and number == runs[-1][1] + 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    told = [f"{a:04d}" if a == b else f"{a:04d}-{b:04d}" for a, b in runs]
    more = [f"{len(told) - _SPANS} more"] if len(told) > _SPANS else []
    return ", ".join([*told[:_SPANS], *more])


def _base(file: str) -> str:
    return file.rsplit("/", 1)[-1]
