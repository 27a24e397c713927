"""Show the result of `patchstack canary` as a table and as text."""

from __future__ import annotations

from collections.abc import Iterator

from patchstack.report.table import Give, Table
from patchstack.report.text import counted, patch_count
from patchstack.upstream.canary.landed import drop_reason
from patchstack.upstream.canary.result import (
    APPLIES,
    Broken,
    Canary,
    CanaryPatch,
    Culprit,
    State,
    breaking,
    to_mend,
)

_STYLES = {
    **{state.value: "red" for state in State},
    State.CLEAN.value: "green",
    State.OFFSET.value: "green",
    State.STALE.value: "yellow",
    State.CASCADE.value: "yellow",
    State.LANDED.value: "cyan",
}


def canary_table(result: Canary) -> Table:
    """Return a table of all patches.

    The columns are the number, the subject, the strict and three-way results, the state, and the cause of the state.
    """
    titles = ["number", "subject", "strict", "threeway", "state", "because of"]
    return Table(
        titles=titles,
        rows=[
            (
                _number(patch),
                patch.subject,
                patch.strict or "-",
                patch.threeway or "-",
                patch.state.value,
                _because(result, patch),
            )
            for patch in result.patches
        ],
        styles=_STYLES,
        gives={"subject": Give.FOLD, "because of": Give.FOLD},
    )


def _number(patch: CanaryPatch) -> str:
    return f"{patch.number:04d}" if patch.number is not None else "?"


def _because(result: Canary, patch: CanaryPatch) -> str:
    """Return the short name of the patch or upstream commit that causes a state, or an empty text."""
    if patch.like is not None and patch.state is State.LANDED:
        return patch.like.commit.label if patch.like.commit is not None else "the pin"
    if patch.caused_by is not None:
        return _short(result, patch.caused_by)
    if patch.state in APPLIES:
        return ""
    if patch.first_broken is not None and patch.first_broken.root:
        return patch.first_broken.commit.label
    return patch.collides[0].label if patch.collides else ""


def _short(result: Canary, file: str) -> str:
    numbers = [patch.number for patch in result.patches if patch.file == file]
    return f"{numbers[0]:04d}" if numbers and numbers[0] is not None else file


def canary_truth(result: Canary) -> str:
    """Return the summary line: the upstream, how many patches apply, and how many have each state."""
    range_ = result.range
    total, applying = len(result.patches), sum(patch.applies for patch in result.patches)
    where = f"{result.upstream} {range_.ref} ({range_.tip.oid[:12]})"
    if not range_.commits:
        distance = "the pin itself"
    else:
        count = len(range_.commits)
        distance = f"{counted(count, 'commit')} after the pin {range_.pin.oid[:12]}"
    if len(result.landed) == total:
        everything = "the only patch has" if total == 1 else f"all {total} patches have"
        return f"{result.series}: {everything} landed in {where}: nothing is left to carry"
    applied = "1 patch applies as it is" if total == 1 else f"{total} patches apply as they are"
    word = "applies to" if result.applies else "does not apply to"
    merging = sum(patch.threeway in ("clean", "landed") for patch in result.patches)
    states = [(state, sum(patch.state is state for patch in result.patches)) for state in State]
    told = ", ".join(f"{count} {state.value}" for state, count in states if count)
    return (
        f"{result.series}: {word} {where}, {distance}: {applying} of {applied}, "
        f"{merging} {'merges' if total == 1 else 'merge'} three-way ({told})"
    )


def canary_explanation(result: Canary) -> Iterator[str]:
    """Yield what to do, in order.

    The patches to repair come first, grouped by the upstream commit that breaks them. The group whose repair frees the
    most other patches is first. The patches to drop or to review come next. With `--blame`, the last lines name the
    commits that break patches.
    """
    told: set[str] = set()
    for culprit in to_mend(result):
        yield _header(culprit)
        for patch in culprit.roots:
            yield f"    {patch.file}: {patch.state.value}"
            yield from _said(patch, "        ")
        if culprit.freed:
            yield f"    frees {', '.join(_number(patch) for patch in culprit.freed)}"
        told.update(patch.file for patch in (*culprit.roots, *culprit.freed))
    for patch in result.patches:
        if patch.file in told or (patch.state in (State.CLEAN, State.OFFSET) and not _noted(patch)):
            continue
        yield f"{patch.file}: {patch.state.value}"
        if patch.state is State.CASCADE:
            yield f"    only because of {', '.join(patch.causes)}"
        elif patch.state is State.LANDED and patch.like is not None:
            yield f"    drop it: --why {_quoted(drop_reason(patch.like))}"
        else:
            yield from _said(patch, "    ")
    yield from _blamed(result)


def _header(culprit: Culprit) -> str:
    """Return the heading of a group of patches to repair.

    It shows the number of patches, how many other patches their repair frees, and the upstream commit, if it is known.
    """
    count = len(culprit.freed)
    frees = f", which frees {count} more" if count else ""
    what = f"mend {patch_count(len(culprit.roots))}{frees}"
    if culprit.commit is None:
        return f"{what}:"
    commit = culprit.commit
    title = commit.subject.removesuffix(f"(#{commit.pr})").strip()
    return f"{what}: {commit.label} {title} ({commit.oid[:12]}, {commit.author}, {commit.date})"


def _said(patch: CanaryPatch, margin: str) -> Iterator[str]:
    """Yield the reasons why a patch fails, and further remarks."""
    for line in patch.problems[:4]:
        yield f"{margin}{line}"
    if len(patch.problems) > 4:
        yield f"{margin}and {len(patch.problems) - 4} more places"
    said = patch.detail.removeprefix("; ".join(patch.problems)).removeprefix("; ")
    for line in said.split("; ") if said else ():
        yield f"{margin}{line}"


def _noted(patch: CanaryPatch) -> bool:
    """Return whether a patch that applies has a remark other than its offset."""
    return any(not line.startswith("its lines are ") for line in patch.problems)


def _quoted(text: str) -> str:
    return '"' + text.replace('"', "'") + '"'


def _blamed(result: Canary) -> Iterator[str]:
    if result.blamed is None:
        return
    if not breaking(result):
        yield "no upstream commit breaks a patch"
        return
    for commit, patches in breaking(result):
        count = len(patches)
        yield (
            f"{commit.label} breaks {patch_count(count)}: {commit.subject} "
            f"({commit.oid[:12]}, {commit.author}, {commit.date}; commit {commit.index} after the pin)"
        )
        for patch in patches:
            broken = patch.first_broken
            assert broken is not None
            if not broken.root:
                because = " and ".join(_short(result, one) for one in broken.causes)
                yield f"    {_number(patch)} cascade, because of {because}{_together(broken)}"
                continue
            yield f"    {_number(patch)} root: {patch.subject}{_together(broken)}"
            for line in broken.lines:
                yield f"        {line}"


def _together(broken: Broken) -> str:
    """Return a phrase with the earlier commits that are also needed to break the patch.

    The phrase is empty if there are none.
    """
    if not broken.together:
        return ""
    few = "neither" if len(broken.together) == 1 else "none of them"
    return f" (only together with {', '.join(commit.label for commit in broken.together)}; {few} breaks it alone)"
