"""Explain why a patch does not apply.

Possible reasons are damaged text, needed fuzz, and changed whitespace. Only refused patches are examined, so other
patches take no extra time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from patchstack.git.apply import Fault, Outcome, Problem
from patchstack.git.objects import Objects
from patchstack.git.overlay import EXECUTABLE, FILE, TreeOverlay
from patchstack.git.patch.damage import find_damage
from patchstack.git.patch.effort import too_large
from patchstack.git.patch.fuzz import Placed, Tries, place_with_fuzz
from patchstack.git.patch.text import PatchedFile, read_text

_LARGEST = 16 * 1024 * 1024
_TRIES = 1_000_000  # maximum sum of file bytes read and lines compared for one patch
_DAMAGES = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnosis:
    """An outcome whose problems have explanations. `fuzz` is true if the complete patch would apply with fuzz."""

    outcome: Outcome
    fuzz: bool


def diagnose(objects: Objects, overlay: TreeOverlay, data: bytes, outcome: Outcome) -> Diagnosis:
    """Examine a refused patch, and add explanations to its problems."""
    if too_large(data):
        return Diagnosis(outcome=outcome, fuzz=False)
    damages = find_damage(data)
    if damages and outcome.problems[0].fault is Fault.MALFORMED:
        first, *others = outcome.problems
        said = "; ".join(f"line {damage.line}: {damage.what}" for damage in damages[:_DAMAGES])
        more = f"; and {len(damages) - _DAMAGES} more" if len(damages) > _DAMAGES else ""
        told = replace(first, detail=f"{first.detail}: {said}{more}", line=damages[0].line)
        return Diagnosis(outcome=replace(outcome, problems=(told, *others)), fuzz=False)
    returns = next((damage.what for damage in damages if damage.what.startswith("its lines end in CRLF")), "")
    if returns and outcome.problems:
        first, *others = outcome.problems
        told = replace(first, detail=f"{first.detail.partition(' (its lines end')[0]}; {returns}")
        return Diagnosis(outcome=replace(outcome, problems=(told, *others)), fuzz=False)
    files = read_text(data).files
    refused = {problem.path for problem in outcome.problems if problem.fault is Fault.CONFLICT}
    named = ((file.path.decode("utf-8", "replace"), file) for file in files)
    tries = Tries(_TRIES)
    words = {path: _words(objects, overlay, file, tries) for path, file in named if path in refused}
    problems = tuple(_with(problem, words.get(problem.path)) for problem in outcome.problems)
    conflicts = [problem for problem in problems if problem.fault is Fault.CONFLICT]
    fuzz = len(conflicts) == len(problems) and all(_FUZZ in problem.detail for problem in conflicts)
    return Diagnosis(outcome=replace(outcome, problems=problems), fuzz=fuzz)


_FUZZ = "applies with fuzz"


def _with(problem: Problem, words: tuple[str, ...] | None) -> Problem:
    if not words or problem.fault is not Fault.CONFLICT:
        return problem
    return replace(problem, detail="; ".join([problem.detail, *words]))


def _words(objects: Objects, overlay: TreeOverlay, file: PatchedFile, tries: Tries) -> tuple[str, ...]:
    """Return remarks that explain why the hunks of a file do not apply.

    Return no remarks if no explanation is found.
    """
    if file.old is None or not file.hunks or overlay.obstacle(file.old) is not None:
        return ()
    entry = overlay.entry(file.old)
    if entry is None or entry[0] not in (FILE, EXECUTABLE):
        return ()
    content = objects.blob(entry[1], file.old.decode("utf-8", "replace"))
    if len(content) > _LARGEST:
        return ()
    return (*_bare(file), *_fuzzy(content, file, tries))


def _bare(file: PatchedFile) -> Sequence[str]:
    hunk = next((one for one in file.hunks if one.bare and one.old_start > 1), None)
    if hunk is None or not all(one.bare for one in file.hunks):
        return ()
    return (
        "the diff has no context (-U0), so no tool can tell where its lines belong: make it again with git diff -U3, "
        "or as an anchored patch",
    )


def _fuzzy(content: bytes, file: PatchedFile, tries: Tries) -> Sequence[str]:
    if len(content) > tries.left:
        return ()
    placed = place_with_fuzz(content, file.hunks, tries=tries)
    if isinstance(placed, Placed):
        return [
            f"hunk {number} {_FUZZ} {place.fuzz} at line {place.line}: refresh it"
            for number, place in enumerate(placed.places, 1)
            if place.fuzz
        ]
    if isinstance(place_with_fuzz(content, file.hunks, most=0, key=_folded, tries=tries), Placed):
        return (
            "it differs from the file in whitespace only: was one of them re-indented, or tabs replaced by spaces?",
        )
    return ()


def _folded(line: bytes) -> bytes:
    return b" ".join(line.split())
