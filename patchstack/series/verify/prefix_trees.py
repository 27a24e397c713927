"""Apply a whole series, and return the tree after every patch."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice

from patchstack.git.apply import Applier, Fault, Outcome, Problem
from patchstack.git.objects import MissingObject
from patchstack.git.patch.anchored import apply_anchored
from patchstack.git.patch.diff import old_names
from patchstack.git.patch.effort import LARGEST
from patchstack.series.files.directory import PatchFile, Series
from patchstack.tasks import counted, task

_PATHS = 64
"""The number of files after which a group is requested. At most this number is taken from one patch."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Link:
    """One patch and the result of applying it.

    `outcome` is None if the patch was not tried. `before` and `after` are the trees before and after the patch. They
    are equal if the patch was not applied. `fuzz` is true if the patch would apply with fuzz, as in quilt.
    """

    patch: PatchFile
    outcome: Outcome | None
    before: str
    after: str
    fuzz: bool = False

    @property
    def applied(self) -> bool:
        return self.outcome is not None and self.outcome.applied


def apply_series(applier: Applier, series: Series, *, keep_going: bool = False) -> tuple[Link, ...]:
    """Apply the patches in order. Stop after the first patch that does not apply, unless `keep_going` is set."""
    links: list[Link] = []
    tree = applier.overlay.write()
    stopped = False
    with task("applying patches") as this:
        patches = _read_ahead(applier, series.patches)
        for patch in counted(patches, this, len(series.patches), lambda patch: patch.file):
            if stopped:
                links.append(Link(patch=patch, outcome=None, before=tree, after=tree))
                continue
            outcome = apply_in_turn(applier, patch)
            fuzz = False
            if not outcome.applied and not patch.anchored and patch.data is not None:
                outcome, fuzz = _diagnosed(applier, patch.data, outcome)
            after = outcome.tree or tree
            links.append(Link(patch=patch, outcome=outcome, before=tree, after=after, fuzz=fuzz))
            tree = after
            stopped = not outcome.applied and not keep_going
    return tuple(links)


def _read_ahead(applier: Applier, patches: Iterable[PatchFile]) -> Iterator[PatchFile]:
    """Yield the patches, after requesting the files that they change.

    The files are requested in groups, which is faster than one request for each file.
    """
    group: list[PatchFile] = []
    paths: dict[bytes, None] = {}
    for patch in patches:
        group.append(patch)
        if patch.data is not None and len(patch.data) <= LARGEST:
            paths.update(dict.fromkeys(islice(old_names(patch.data), _PATHS)))
        if len(paths) >= _PATHS:
            applier.overlay.read_ahead(paths)
            yield from group
            group, paths = [], {}
    applier.overlay.read_ahead(paths)
    yield from group


def _diagnosed(applier: Applier, data: bytes, outcome: Outcome) -> tuple[Outcome, bool]:
    from patchstack.git.diagnose import diagnose

    found = diagnose(applier.objects, applier.overlay, data, outcome)
    return found.outcome, found.fuzz


def apply_in_turn(applier: Applier, patch: PatchFile) -> Outcome:
    """Apply one patch of a series. If an object is missing, the error names the patch."""
    try:
        return apply_patch(applier, patch)
    except MissingObject as missing:
        raise missing.during(patch.file) from missing


def apply_patch(applier: Applier, patch: PatchFile) -> Outcome:
    """Apply one patch file, plain or anchored."""
    if patch.data is None:
        problem = Problem(
            fault=Fault.MALFORMED, path="", detail="the file is too large: git apply reads under 1023 MiB"
        )
        return Outcome(tree=None, problems=(problem,))
    if patch.anchored:
        return apply_anchored(applier.objects, applier.overlay, patch.data)
    return applier.apply(patch.data)
