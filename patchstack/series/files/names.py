"""The names of patch files: number, slug, and the suffix that tells how a patch is applied.

This is the one module that knows the suffixes. `0007-fast-path.patch` is plain: git applies it. `.anchored` is a suffix
of its own since git would apply such a patch to the wrong place and say OK.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

from patchstack.errors import ConfigError

_PLAIN, _ANCHORED = ".patch", ".anchored"
_SUFFIXES = (_PLAIN, _ANCHORED)
_LOOKS = (_PLAIN, ".diff", _ANCHORED)
_NUMBER = re.compile(r"(\d+)(?=[-_.])")
_NUMBERED = re.compile(r"\d{4}-")
_LONGEST = 64  # as `git format-patch` is told to cut names


def is_patch(file: str) -> bool:
    """Whether a file of that name is a patch of the series."""
    return file.endswith(_SUFFIXES)


def is_anchored(file: str) -> bool:
    """Whether a patch of that name is anchored."""
    return file.endswith(_ANCHORED)


def looks_like_patch(file: str) -> bool:
    """Whether a file that is no patch of the series has a name that a person could take for one."""
    return _NUMBERED.match(file) is not None and any(look in file.lower() for look in _LOOKS)


def number_of(file: str) -> int | None:
    """Return the number in a file's name; None if it has none."""
    found = _NUMBER.match(file)
    return int(found.group(1)) if found else None


def slug_of(file: str) -> str:
    """Return a numbered file's name without number and suffix; empty for a name that has no more."""
    stem, found = _stem(file), _NUMBER.match(file)
    return stem[found.end() + 1 :] if found else stem


def title_of(file: str) -> str:
    """Return a subject for a patch without mail head, from its file name."""
    return _NUMBER.sub("", _stem(file), count=1).replace("-", " ").replace("_", " ").strip()


def make_name(number: int | None, slug: str, *, anchored: bool) -> str:
    """Return the name that export gives a patch. One that is on its way to a number has none in its name."""
    numbered = slug if number is None else f"{number:04d}-{slug}"
    return numbered + (_ANCHORED if anchored else _PLAIN)


def cut_slug(number: int, slug: str) -> str:
    """Return a slug as `git format-patch` cuts it. git counts its own suffix and one character more, whatever suffix
    the file gets from us."""
    return slug[: _LONGEST - len(make_name(number, "", anchored=False)) - 1]


def in_form(file: str, *, anchored: bool) -> str:
    """Return the name of a patch file with the suffix of the given form."""
    return make_name(None, _stem(file), anchored=anchored)


def patch_names(directory: Path) -> list[str]:
    """Return the names of a directory's patch files in apply order: sorted byte by byte.

    Raises `ConfigError` for a directory that cannot be listed.
    """
    try:
        return sorted((name for name in os.listdir(directory) if is_patch(name)), key=os.fsencode)
    except OSError as error:
        raise ConfigError(f"{directory} cannot be listed: {error.strerror}") from error


def has_patches(directory: Path) -> bool:
    """Whether a directory exists and holds patch files. Raises `ConfigError` for one that cannot be listed."""
    return directory.is_dir() and bool(patch_names(directory))


def _stem(file: str) -> str:
    return file.rsplit(".", 1)[0]
