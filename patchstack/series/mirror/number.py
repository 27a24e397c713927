"""Match commits with the patches of the last export, and assign numbers.

A patch keeps its number, unless its commit was moved. A number is never reused.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from patchstack.causes import ExportRefused
from patchstack.git.patch.text import read_text

_ALIKE = 0.5
_CLEARLY = 0.8


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """A patch of the last export.

    `commit` is the commit that the patch was made from; empty if unknown. `patch_id` is git's patch-id. `data` is the
    text of the patch.
    """

    number: int
    commit: str
    patch_id: str
    subject: str
    data: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Coming:
    """A commit to export."""

    commit: str
    patch_id: str
    subject: str
    data: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """The result of matching.

    `known_of` contains one item per commit: the index of its known patch, or None for a new commit. `ambiguous`
    describes the cases that could not be decided.
    """

    known_of: tuple[int | None, ...]
    ambiguous: tuple[str, ...]


def identify(known: Sequence[Known], coming: Sequence[Coming], same: Mapping[int, str] | None = None) -> Identity:
    """Pair commits with known patches.

    `same` maps patch numbers to commit ids, as the user set them. These pairs are made first. The further criteria are,
    in order: commit id, patch-id, subject, and the similarity of changed lines. Only unambiguous pairs are made. Raises
    `NotHeldError` if `same` names a patch or commit that does not exist.
    """
    known_of: list[int | None] = [None] * len(coming)
    free = set(range(len(known)))

    def pair(new: int, old: int) -> None:
        known_of[new] = old
        free.discard(old)

    for number, commit in (same or {}).items():
        old = next((i for i in free if known[i].number == number), None)
        new = next((i for i, c in enumerate(coming) if c.commit.startswith(commit) and known_of[i] is None), None)
        if old is None or new is None:
            raise ExportRefused(f"--same {number}={commit}: no such patch or commit")
        pair(new, old)

    def by(old_key: Callable[[Known], str], new_key: Callable[[Coming], str]) -> None:
        olds = Counter(old_key(known[i]) for i in free)
        news = Counter(new_key(c) for i, c in enumerate(coming) if known_of[i] is None)
        places = {old_key(known[i]): i for i in free}
        for i, c in enumerate(coming):
            key = new_key(c)
            if known_of[i] is None and key and olds[key] == news[key] == 1:
                pair(i, places[key])

    by(lambda old: old.commit, lambda new: new.commit)
    by(lambda old: old.patch_id, lambda new: new.patch_id)
    by(lambda old: " ".join(old.subject.split()), lambda new: " ".join(new.subject.split()))
    ambiguous = _by_likeness(known, coming, known_of, free, pair)
    return Identity(known_of=tuple(known_of), ambiguous=tuple(ambiguous))


def _by_likeness(
    known: Sequence[Known],
    coming: Sequence[Coming],
    known_of: Sequence[int | None],
    free: set[int],
    pair: Callable[[int, int], None],
) -> list[str]:
    """Pair the remaining commits and patches by their share of common changed lines.

    A pair is made only if it is clearly the best for both sides. Return a sentence for each ambiguous case.
    """
    old_lines = {i: changed_lines(known[i].data) for i in free}
    new_lines = {i: changed_lines(c.data) for i, c in enumerate(coming) if known_of[i] is None}
    scores = {(n, o): _likeness(new_lines[n], old_lines[o]) for n in new_lines for o in old_lines}
    ambiguous = []
    for (n, o), score in sorted(scores.items(), key=lambda item: (-item[1], item[0])):
        if score < _ALIKE or n not in new_lines or o not in old_lines:
            continue
        rivals = [
            other
            for other, rival in scores.items()
            if other != (n, o)
            and (other[0] == n) != (other[1] == o)
            and other[0] in new_lines
            and other[1] in old_lines
            and rival >= max(_ALIKE, _CLEARLY * score)
        ]
        if rivals:
            ambiguous.append(
                f"commit {coming[n].commit[:12]} ({coming[n].subject}) may be patch {known[o].number:04d}, "
                f"but commit {coming[rivals[0][0]].commit[:12]} and patch {known[rivals[0][1]].number:04d} are as close"
            )
        else:
            pair(n, o)
        del new_lines[n], old_lines[o]
    return ambiguous


def changed_lines(data: bytes) -> Counter[bytes]:
    """Count each line that a patch adds or removes, with its sign. Blank lines are not counted."""
    lines = (line for file in read_text(data).files for line in file.lines)
    return Counter(line.sign + line.text for line in lines if line.sign != b" " and line.text.strip())


def _likeness(one: Counter[bytes], other: Counter[bytes]) -> float:
    union = (one | other).total()
    return (one & other).total() / union if union else 0.0


def assign_numbers(
    known: Sequence[Known], known_of: Sequence[int | None], retired: Sequence[int]
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return an ascending number for every commit, and all numbers that are retired afterwards.

    The commit of a known patch keeps its number unless the commit was moved. A new or moved commit gets a number from
    the middle of its gap, or the next number after the last patch. Raises a `NotHeldError` that lists the gaps that are
    too small.
    """
    kept = _rising([None if old is None else known[old].number for old in known_of])
    taken = set(retired) | {patch.number for patch in known}
    numbers: list[int | None] = list(kept)
    problems = []
    at = 0
    while at < len(numbers):
        if numbers[at] is not None:
            at += 1
            continue
        end = at
        while end < len(numbers) and numbers[end] is None:
            end += 1
        low = numbers[at - 1] if at else 0
        assert low is not None
        if end == len(numbers):
            start = max([low, *taken]) + 1
            free = list(range(start, start + end - at))
        else:
            high = numbers[end]
            assert high is not None
            free = _spread([n for n in range(low + 1, high) if n not in taken], end - at)
            if not free:
                problems.append(
                    f"{end - at} patch{'' if end - at == 1 else 'es'} for the gap between {low:04d} and {high:04d}"
                )
                free = [low] * (end - at)
        numbers[at:end] = free
        at = end
    if problems:
        raise ExportRefused(
            "too few free numbers where commits were inserted or moved",
            problems=problems,
            hint="use --renumber to give every patch a new number, from 1",
        )
    given = tuple(number for number in numbers if number is not None)
    return given, tuple(sorted(taken - set(given)))


def _rising(numbers: Sequence[int | None]) -> list[int | None]:
    """Return the numbers of the longest ascending subsequence, and None in place of all others."""
    best: list[list[int]] = []
    for index, number in enumerate(numbers):
        if number is None:
            best.append([])
            continue
        runs = [best[i] for i in range(index) if best[i] and (numbers[best[i][-1]] or 0) < number]
        best.append([*_longest(runs), index])
    kept = set(_longest(best))
    return [number if index in kept else None for index, number in enumerate(numbers)]


def _longest(runs: list[list[int]]) -> list[int]:
    return max(runs, key=len) if runs else []


def _spread(free: list[int], count: int) -> list[int]:
    """Return `count` of the free numbers, evenly spaced to leave room for later insertions.

    Return an empty list if there are too few.
    """
    if len(free) < count:
        return []
    return [free[(2 * i + 1) * len(free) // (2 * count)] for i in range(count)]
