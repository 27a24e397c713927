"""Show how every patch fits onto every upstream commit.

Consecutive commits with the same result are joined into spans.
"""

from __future__ import annotations

from patchstack.tasks import counted, task
from patchstack.upstream.canary.diagnose import Diagnoser
from patchstack.upstream.canary.result import Fit, Span
from patchstack.upstream.history import UpstreamRange


def timeline(diagnoser: Diagnoser, range_: UpstreamRange) -> tuple[Span, ...]:
    """Return the spans of all patches, from the pin to the tip, sorted by patch and then by commit."""
    count = len(diagnoser.own)
    begun: list[tuple[int, Fit]] = []
    found: list[list[Span]] = [[] for _ in range(count)]
    trees = [(-1, range_.pin.tree), *((commit.index, commit.tree) for commit in range_.commits)]
    last: object = None
    with task("building the timeline") as this:
        for index, tree in counted(trees, this, len(trees), lambda one: str(one[0] + 1)):
            entries = diagnoser.chain.touched.entries(tree)
            if entries == last:
                continue
            last = entries
            fits = _fits(diagnoser, tree)
            for patch, fit in enumerate(fits):
                if patch >= len(begun):
                    begun.append((index, fit))
                elif begun[patch][1] is not fit:
                    first, before = begun[patch]
                    found[patch].append(Span(patch=patch, first=first, last=index - 1, fit=before))
                    begun[patch] = index, fit
    for patch, (first, fit) in enumerate(begun):
        found[patch].append(Span(patch=patch, first=first, last=len(range_.commits) - 1, fit=fit))
    return tuple(span for spans in found for span in spans)


def _fits(diagnoser: Diagnoser, tree: str) -> list[Fit]:
    run, merges = diagnoser.chain.run(tree), diagnoser.carried(tree).clean
    fits = []
    for index, (applied, offset, merged) in enumerate(zip(run.applied, run.offset, merges, strict=True)):
        if applied:
            fits.append(Fit.OFFSET if offset else Fit.APPLIES)
        elif not diagnoser.own.applies(index):
            fits.append(Fit.AT_PIN)
        else:
            fits.append(Fit.MERGES if merged else Fit.FAILS)
    return fits
