"""Check whether a parked patch would still apply to a newer upstream, at its place in the series."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from patchstack.git.apply import Applier
from patchstack.git.objects import Objects, parse_commit
from patchstack.series.files.directory import PatchFile, Series
from patchstack.series.files.names import number_of
from patchstack.series.lock import ParkedPatch
from patchstack.series.verify.prefix_trees import apply_patch, apply_series
from patchstack.upstream.canary.carried_trees import CarriedTrees
from patchstack.upstream.history import UpstreamRange
from patchstack.upstream.merge.patch import Picker


class Still(StrEnum):
    """Whether and how a parked patch still applies."""

    APPLIES = "would still apply"
    MERGES = "would merge three-way"
    CONFLICT = "does not apply any more"
    AT_PIN = "does not apply to its own pin as it is"


@dataclass(frozen=True, slots=True, kw_only=True)
class ParkedAhead:
    """A parked patch, the reason why it is parked, and how it fits onto a newer upstream."""

    file: str
    number: int | None
    subject: str
    reason: str
    still: Still


def look_at_parked(
    objects: Objects, series: Series, range_: UpstreamRange, parked: Sequence[ParkedPatch]
) -> tuple[ParkedAhead, ...]:
    """Apply each parked patch to upstream's tip, after the patches with smaller numbers. Writes nothing."""
    if not parked:
        return ()
    numbers = [patch.number for patch in series.patches if patch.number is not None]
    before = {one.file: max((n for n in numbers if n < (number_of(one.file) or 0)), default=None) for one in parked}
    with Applier(objects, range_.pin.tree) as applier:
        links = apply_series(applier, series, keep_going=True)
        wanted = [number for number in before.values() if number is not None]
        trees = CarriedTrees(objects, links, wanted).on(range_.tip.tree)
        at_pin = {link.patch.number: link.after for link in links}
        found = []
        for one in parked:
            place = before[one.file]
            onto = range_.tip.tree if place is None else trees.after[place]
            base = range_.pin.tree if place is None else at_pin[place]
            found.append(
                ParkedAhead(
                    file=one.file,
                    number=number_of(one.file),
                    subject=parse_commit(one.commit, one.object).subject,
                    reason=one.reason,
                    still=_fits(objects, one, base, onto),
                )
            )
        return tuple(found)


def _fits(objects: Objects, parked: ParkedPatch, base: str, onto: str) -> Still:
    """Return how a parked patch fits onto a tree. `base` is the tree at the patch's place in the series on the pin."""
    patch = PatchFile(file=parked.file, number=number_of(parked.file), subject="", commit=None, data=parked.text)
    with Applier(objects, onto) as applier:
        if apply_patch(applier, patch).applied:
            return Still.APPLIES
    with Applier(objects, base) as applier:
        after = apply_patch(applier, patch).tree
        if after is None:
            return Still.AT_PIN
        return Still.MERGES if Picker(objects).merge(base, after, onto).clean else Still.CONFLICT
