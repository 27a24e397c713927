"""`patchstack canary` as a table, as words, and as a document."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from patchstack.report.table import Give, Table
from patchstack.report.text import counted, patch_count
from patchstack.upstream.canary.landed import drop_reason
from patchstack.upstream.canary.result import APPLIES, Broken, Canary, CanaryPatch, Likeness, State
from patchstack.upstream.history import UpstreamCommit

if TYPE_CHECKING:
    from patchstack.upstream.forecast.forecast import Forecast

SCHEMA = "patchstack.canary/1"

_STYLES = {
    **{state.value: "red" for state in State},
    State.CLEAN.value: "green",
    State.OFFSET.value: "green",
    State.STALE.value: "yellow",
    State.CASCADE.value: "yellow",
    State.LANDED.value: "cyan",
}


def canary_table(result: Canary) -> Table:
    """Number, subject, strict and three-way verdicts, state, and its cause."""
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
    """The patch or the upstream commit that a state goes back to, as short as can be."""
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
    """The one line that counts."""
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
    """What explains the table: every patch that is not plainly fine, and the commits to blame."""
    for patch in result.patches:
        if patch.state in (State.CLEAN, State.OFFSET):
            continue
        yield f"{patch.file}: {patch.state.value}"
        if patch.state is State.CASCADE:
            yield f"    only because of {', '.join(patch.causes)}"
            continue
        if patch.state is State.LANDED and patch.like is not None:
            yield f"    drop it: --why {_quoted(drop_reason(patch.like))}"
            continue
        for line in patch.problems[:4]:
            yield f"    {line}"
        if len(patch.problems) > 4:
            yield f"    and {len(patch.problems) - 4} more places"
        said = patch.detail.removeprefix("; ".join(patch.problems)).removeprefix("; ")
        for line in said.split("; ") if said else ():
            yield f"    {line}"
    yield from _blamed(result)


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
                yield f"    {_number(patch)} cascade, because of {_short(result, broken.caused_by or '')}"
                continue
            yield f"    {_number(patch)} root: {patch.subject}"
            for line in broken.lines:
                yield f"        {line}"


def breaking(result: Canary) -> list[tuple[UpstreamCommit, list[CanaryPatch]]]:
    """Upstream's commits that break patches, in their order, each with the patches it breaks first."""
    found: dict[int, tuple[UpstreamCommit, list[CanaryPatch]]] = {}
    for patch in result.patches:
        if patch.first_broken is not None:
            commit = patch.first_broken.commit
            found.setdefault(commit.index, (commit, []))[1].append(patch)
    return [found[index] for index in sorted(found)]


def canary_document(result: Canary, forecast: Forecast | None) -> dict[str, Any]:
    """The document `patchstack.canary/1`."""
    range_ = result.range
    return {
        "schema": SCHEMA,
        "series": result.series,
        "upstream": {
            "repository": result.upstream,
            "ref": range_.ref,
            "commit": range_.tip.oid,
            "tree": range_.tip.tree,
        },
        "pin": {"commit": range_.pin.oid, "tree": range_.pin.tree},
        "commits": len(range_.commits),
        "applies": result.applies,
        "applied_count": sum(patch.applies for patch in result.patches),
        "patch_count": len(result.patches),
        "blamed": result.blamed,
        "patches": [_patch(patch) for patch in result.patches],
        "breaking": [
            {**_commit(commit), "patches": [patch.file for patch in patches]} for commit, patches in breaking(result)
        ],
        "forecast": _forecast(forecast) if forecast is not None else None,
        "warnings": list(result.warnings),
    }


def _patch(patch: CanaryPatch) -> dict[str, Any]:
    return {
        "file": patch.file,
        "number": patch.number,
        "subject": patch.subject,
        "state": patch.state.value,
        "strict": patch.strict,
        "threeway": patch.threeway,
        "caused_by": patch.caused_by,
        "causes": list(patch.causes),
        "first_broken": _broken(patch.first_broken) if patch.first_broken is not None else None,
        "detail": patch.detail,
        "problems": list(patch.problems),
        "renamed": [{"from": old, "to": new} for old, new in patch.renamed],
        "collides": [_commit(commit) for commit in patch.collides],
        "like": _like(patch) if patch.like is not None else None,
    }


def _commit(commit: UpstreamCommit) -> dict[str, Any]:
    return {
        "index": commit.index,
        "commit": commit.oid,
        "subject": commit.subject,
        "author": commit.author,
        "date": commit.date,
        "pr": commit.pr,
    }


def _broken(broken: Broken) -> dict[str, Any]:
    return {
        **_commit(broken.commit),
        "root": broken.root,
        "caused_by": broken.caused_by,
        "lines": list(broken.lines),
    }


def _like(patch: CanaryPatch) -> dict[str, Any]:
    like: Likeness | None = patch.like
    assert like is not None
    return {
        "how": like.how,
        "score": round(like.score, 3),
        "commit": _commit(like.commit) if like.commit is not None else None,
        "drop_why": drop_reason(like) if patch.state is State.LANDED else None,
    }


def _forecast(forecast: Forecast) -> dict[str, Any]:
    return {
        "days": forecast.days,
        "until": forecast.until,
        "commits": forecast.commits,
        "weeks": list(forecast.weeks),
        "files": [
            {
                "path": file.path,
                "weeks": list(file.weeks),
                "commits": file.commits,
                "patches": list(file.patches),
                "functions": [
                    {"name": one.name, "commits": one.commits, "patches": list(one.patches)} for one in file.functions
                ],
                "known": file.known,
            }
            for file in forecast.files
        ],
        "patches": [
            {"file": one.file, "number": one.number, "risk": round(one.risk, 3), "where": one.where}
            for one in forecast.patches
        ],
    }
