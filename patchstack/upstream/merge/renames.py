"""Find renamed files: an exact copy if one exists, otherwise the most similar new file."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from weakref import WeakKeyDictionary

from patchstack.git.objects import Objects
from patchstack.git.overlay import EXECUTABLE, FILE, Entry
from patchstack.upstream.merge.text import is_binary

LIKE = 0.5  # git's default threshold for a rename: half of the larger file
_REGULAR = (FILE, EXECUTABLE)


def likeness(one: bytes, other: bytes) -> float:
    """Return the size of the common lines as a share of the larger text, from 0 to 1.

    The bytes of whole lines are counted, and the order of lines is ignored, as in git's similarity index
    (diffcore-delta.c). Return 0 for different binary files, and for texts whose sizes are too different for a rename.
    """
    if one == other:
        return 1.0
    larger = max(len(one), len(other))
    if not larger or min(len(one), len(other)) < LIKE * larger or is_binary(one) or is_binary(other):
        return 0.0
    shared = Counter(one.split(b"\n")) & Counter(other.split(b"\n"))
    return min(1.0, sum((len(line) + 1) * count for line, count in shared.items()) / larger)


_known: WeakKeyDictionary[Objects, dict[tuple[str, str], float]] = WeakKeyDictionary()
"""A cache of the similarities of pairs of blobs.

Its entries live as long as their `Objects`. A walk over commits needs each pair many times.
"""


def find_rename(
    objects: Objects, gone: Entry, path: bytes, candidates: Mapping[bytes, Entry]
) -> tuple[bytes, float] | None:
    """Return the new file that a removed file became, and the similarity of the two.

    Return None if no file is similar enough. Candidates whose content is missing are ignored. Raises `MissingObject` if
    the content of the removed file is missing.
    """
    if gone[0] not in _REGULAR:
        return None
    same = [name for name, entry in candidates.items() if entry[1] == gone[1]]
    if same:
        return _nearest(path, same), 1.0
    known = _known.setdefault(objects, {})
    regular = {name: entry for name, entry in candidates.items() if entry[0] in _REGULAR}
    unknown = [entry[1] for entry in regular.values() if (gone[1], entry[1]) not in known]
    if unknown:
        content = objects.blob(gone[1], path.decode("utf-8", "replace"))
        objects.want(unknown)
        known.update(
            {(gone[1], oid): likeness(content, objects.blob(oid)) for oid in dict.fromkeys(unknown) if objects.has(oid)}
        )
    scores = {name: score for name, entry in regular.items() if (score := known.get((gone[1], entry[1]), 0.0)) >= LIKE}
    if not scores:
        return None
    best = max(scores.values())
    return _nearest(path, [name for name, score in scores.items() if score == best]), best


def _nearest(path: bytes, names: Iterable[bytes]) -> bytes:
    """Return the first name with the same base name as `path`. If no name matches, return the first name."""
    name = path.rpartition(b"/")[2]
    return min(names, key=lambda other: (other.rpartition(b"/")[2] != name, other))
