"""Check that a decision belongs to the series.

The decision's commits, trees, diffs and builds are compared with the lock and the patch files.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from patchstack.builds.inputs.key import RECIPE_VERSION
from patchstack.builds.inputs.variant import Variants
from patchstack.canonical import canonical
from patchstack.errors import PatchstackError
from patchstack.evidence.ledger import Candidate, Decision
from patchstack.git.format import patch_ids
from patchstack.git.objects import Commit, object_id, parse_commit
from patchstack.series.lock import Lock, LockedPatch
from patchstack.workflow.ledger.finding import Findings


@dataclass(frozen=True, slots=True, kw_only=True)
class SeriesFacts:
    """The facts about a series in the repository.

    `patches` is the directory of the patches. `trees_follow` is true if the trees were proven to follow from the pin
    and the patches. It is None if the objects for the proof are missing here.
    """

    lock: Lock
    patches: Path
    trees_follow: bool | None = None


def check_source(decision: Decision, facts: SeriesFacts, found: Findings) -> bool:
    """Compare the commits of a decision with the lock and the patch files.

    Return whether the series contains all of these commits, one after the other. Other findings are added to `found`.
    """
    places = {patch.commit: place for place, patch in enumerate(facts.lock.patches)}
    at = [places[commit] for commit in decision.commits if commit in places]
    if len(at) < len(decision.commits) or not at:
        gone = [commit[:12] for commit in decision.commits if commit not in places]
        found.asserted.append(f"commits that are not in the series now: {', '.join(gone) or 'none are named'}")
        return False
    if at != list(range(at[0], at[0] + len(at))):
        found.wrong.append("its commits do not follow each other in the series")
        return False
    below = facts.lock.patches[at[0] - 1] if at[0] else None
    for candidate, place in zip(decision.candidates, at, strict=True):
        patch = facts.lock.patches[place]
        _check_commit(candidate, patch, below.commit if below is not None else facts.lock.base_commit, found)
        _check_patch(candidate, patch, facts.patches, found)
        below = patch
    match facts.trees_follow:
        case True:
            found.derived.append("its trees follow from the pin and the patches")
        case False:
            found.wrong.append("the series does not verify: its trees do not follow from the pin and the patches")
        case None:
            found.asserted.append("that its trees follow from the pin and the patches: objects of the pin are missing")
    return True


def check_builds(
    decision: Decision, facts: SeriesFacts, variants: Variants, builds: Mapping[str, Mapping[str, Any]], found: Findings
) -> None:
    """Compare the pin of a decision, and its builds `before` and `candidate`, with the series.

    If a build differs from its variant in the workspace, the difference is added to `asserted`.
    """
    evidence = decision.evidence
    places = {patch.commit: place for place, patch in enumerate(facts.lock.patches)}
    first = places[decision.commits[0]]
    below = facts.lock.patches[first - 1] if first else None
    trees = {
        "before": below.tree if below is not None else facts.lock.base_tree,
        "candidate": decision.candidates[-1].tree,
    }
    base = facts.lock.base_commit
    found.follows(evidence.get("pin") == base, f"its pin is {base[:12]}", "its pin is not the one of the series")
    for which, tree in trees.items():
        step = builds.get(which)
        if step is None:
            found.wrong.append(f"it has no build {which}")
            continue
        inputs = step.get("inputs")
        key = str(step.get("build"))
        if not isinstance(inputs, Mapping) or hashlib.sha256(canonical(inputs)).hexdigest() != key:
            found.wrong.append(f"build {which}: the key {key[:12]} does not follow from its inputs")
            continue
        if inputs.get("tree") != tree:
            found.wrong.append(f"build {which}: {key[:12]} was made from a different tree than {tree[:12]}")
            continue
        other = _other_variant(str(step.get("variant")), inputs, variants)
        if other:
            found.asserted.append(f"build {which}: the variant, {other}")
        found.derived.append(f"build {which}: {key[:12]} follows from its inputs and tree {tree[:12]}")
        found.asserted.append(f"build {which}: that the toolchain {str(inputs.get('toolchain'))[:19]} made these files")


def _check_commit(candidate: Candidate, patch: LockedPatch, parent: str, found: Findings) -> None:
    what = f"commit {candidate.commit[:12]}"
    if not patch.object:
        found.asserted.append(f"{what}: its tree (the lock lacks the commit)")
        return
    if object_id("commit", patch.object) != candidate.commit:
        found.wrong.append(f"{what}: the lock has a different commit")
        return
    try:
        commit: Commit = parse_commit(candidate.commit, patch.object)
    except (PatchstackError, ValueError, IndexError, KeyError) as error:
        found.wrong.append(f"{what}: the commit in the lock is damaged ({type(error).__name__})")
        return
    fits = commit.tree == candidate.tree == patch.tree and commit.parents == (parent,)
    found.follows(fits, f"{what}: its tree and its parent", f"{what}: not the tree or the parent that it names")
    if commit.subject != candidate.subject:
        found.wrong.append(f"{what}: its subject is not that of the commit")


def _check_patch(candidate: Candidate, patch: LockedPatch, directory: Path, found: Findings) -> None:
    what = f"patch {patch.file}"
    try:
        content = (directory / Path(patch.file).name).read_bytes()
    except OSError as error:
        found.wrong.append(f"{what}: cannot be read: {error.strerror}")
        return
    if hashlib.sha256(content).hexdigest() != patch.sha256:
        found.wrong.append(f"{what}: not the file that the lock names")
        return
    (patch_id,) = patch_ids([content])
    if patch_id != candidate.patch_id:
        found.wrong.append(f"{what}: its change differs from the one that was decided on")
        return
    whole = not candidate.diff.endswith("\n(cut)\n")
    if whole and candidate.diff and (own := patch_ids([candidate.diff.encode()])) != (patch_id,):
        found.wrong.append(f"{what}: the decision's diff is a different one ({own[0][:12] or 'no patch'})")
        return
    found.derived.append(f"{what}: the change that was decided on")


def _other_variant(name: str, inputs: Mapping[str, Any], variants: Variants) -> str:
    """Return how the inputs of a build differ from the build's variant in the workspace.

    Return an empty string if they do not differ.
    """
    try:
        variant = variants.get(name)
    except PatchstackError:
        return f"{name} is not in the workspace now"
    now: dict[str, object] = {
        "recipe": RECIPE_VERSION,
        "cmake": {key: setting.value for key, setting in variant.cmake.items()},
        "compile": {key: setting.value for key, setting in variant.compile.items()},
        "targets": sorted(set(variant.targets.value)) if variant.targets is not None else [],
        "architecture": variant.arch.value if variant.arch is not None else None,
    }
    if variant.optional_targets is not None:
        now["optional_targets"] = sorted(set(variant.optional_targets.value))
    other = [key for key, value in now.items() if inputs.get(key) != value]
    return f"{name} now has different {', '.join(other)}" if other else ""
