"""Why a source does not compile, and which patch wrote the line it fails at."""

from __future__ import annotations

from patchstack.builds.errors.blame import BlameStep, who_wrote, who_wrote_each
from patchstack.builds.errors.first_error import Failure, FailureKind, find_failure
from patchstack.builds.inputs.arch import toolkit_complaint
from patchstack.builds.inputs.plan import Plan
from patchstack.builds.inputs.source import Source
from patchstack.builds.record.record import Rejection
from patchstack.builds.run.recipe import Layout
from patchstack.builds.run.session import NotJudged, out_of_memory
from patchstack.engine.protocol import OutOfSpace
from patchstack.errors import MissingError, NotHeldError, PatchstackError

_FEW = 4


def explain(log: bytes, source: Source, plan: Plan, layout: Layout) -> Rejection:
    """Why a build failed, where that is the source's doing.

    Raises what says that it is not: `NotJudged` (no memory, or no known error), `OutOfSpace`, `MissingError` (a toolkit
    too old), `NotHeldError` (the build wants the network, which it does not get).
    """
    lines = log.decode("utf-8", "replace").splitlines()
    failure = find_failure(lines, source=layout.source, build=layout.build)
    if (error := _not_the_source(failure, plan)) is not None:
        raise error
    patch, origin = _origin(failure, source)
    return Rejection(
        kind=str(failure.kind),
        message=failure.message,
        file=failure.file,
        line=failure.line,
        patch=patch,
        origin=origin,
        block=failure.block,
    )


def _not_the_source(failure: Failure, plan: Plan) -> PatchstackError | None:
    shown = failure.block[:12]
    match failure.kind:
        case FailureKind.OUT_OF_MEMORY:
            error: PatchstackError = out_of_memory(plan)
            error.problems = shown
            return error
        case FailureKind.NO_SPACE:
            return OutOfSpace(
                f"the disk of {plan.engine.spec} is full: {failure.message}",
                problems=shown,
                hint="docker system df on the engine's machine says what takes it" if plan.engine.isolated else None,
            )
        case FailureKind.TOOLKIT_TOO_OLD:
            need = toolkit_complaint(plan.arch, (0, 0)) if plan.arch else None
            return MissingError(f"the CUDA toolkit is too old: {failure.message}", problems=shown, hint=need)
        case FailureKind.NETWORK:
            where = f" ({failure.file}:{failure.line})" if failure.line else ""
            return NotHeldError(
                f"the build wants the network, which it does not get{where}: {failure.message}",
                problems=shown,
                hint="find the option that wants it and switch it off: --define NAME=OFF",
            )
        case FailureKind.UNKNOWN:
            return NotJudged(
                f"the build failed, and nothing in its log is a known error: {failure.message}",
                problems=shown,
                hint="--keep-container leaves it behind, to look into",
            )
    return None


def _origin(failure: Failure, source: Source) -> tuple[str | None, str]:
    """The patch that wrote the line, and the same in words."""
    if not source.steps or source.base_tree is None:
        return None, "not a series: no patch to name"
    if failure.file is None:
        return None, "no file of the source is named"
    steps = [BlameStep(label=step.file, tree=step.tree) for step in source.steps]
    found = who_wrote(source.objects, source.base_tree, steps, failure.file, failure.line or 1)
    if found is None:
        return None, f"{failure.file} is not in the tree: the build made it"
    if failure.line is None:
        return None, "no line is named" + _changed_by(found.touched_by)
    if found.patch is not None:
        order = [step.file for step in source.steps]
        since = tuple(one for one in found.touched_by if order.index(one) > order.index(found.patch))
        told = _changed_by(since).replace("in this file", "in this file since")
        return found.patch, f"line written by {found.patch}{told}"
    # A header of upstream's that a patch's code instantiates or includes: the first place on the way that is a patch's.
    inside = [place for place in failure.sites if not place[0].startswith("/")]
    places = zip(inside, who_wrote_each(source.objects, source.base_tree, steps, inside), strict=True)
    for (file, line), origin in places:
        if origin is not None and origin.patch is not None:
            return origin.patch, f"upstream's own line, reached from {file}:{line}, written by {origin.patch}"
    return None, "upstream's own line" + (_changed_by(found.touched_by) or ", in a file that no patch touches")


def _changed_by(patches: tuple[str, ...]) -> str:
    names = ", ".join(patches[:_FEW]) + (", …" if len(patches) > _FEW else "")
    return f"; changed in this file: {names}" if patches else ""
