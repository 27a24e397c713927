"""Rule `scope`: a patch changes only the files of its `Scope:` trailers."""

from __future__ import annotations

from collections.abc import Iterator

from patchstack.git.patch.trailers import SCOPE, metadata_of
from patchstack.series.lint.globs import effort, matching
from patchstack.series.lint.rule import Finding, Rule, Subject, named
from patchstack.series.lint.trailers import trailers_of

ID = "scope"
_MOST = 2_000_000
"""The limit on the work of matching the scopes of all patches.

It is needed because a patch defines its own scope, which may be hostile.
"""


def outside(paths: list[str], globs: tuple[str, ...]) -> list[str]:
    """Return the paths that no glob matches. Without globs, the list is empty."""
    return [path for path in paths if globs and matching(path, globs) is None]


def check(subject: Subject) -> Iterator[Finding]:
    """Report each changed file outside the patch's scope, at the line on which the file's diff begins.

    If the scopes would take too much work to check, report this once, and stop.
    """
    left = _MOST
    for patch in subject.patches:
        globs = metadata_of(trailers_of(patch)).get(SCOPE, ())
        seen: set[bytes] = set()
        for file in patch.text.files if globs else ():
            for path in (file.old, file.new):
                if path is None or path in seen:
                    continue
                left -= effort(named(path), globs)
                if left < 0:
                    yield patch.finding(ID, file.number, "the scopes of the series are too much work to check")
                    return
                if outside([named(path)], globs):
                    seen.add(path)
                    message = f"{named(path)}: outside the patch's Scope ({', '.join(globs)})"
                    yield patch.finding(ID, file.number, message)


RULE = Rule(
    id=ID,
    reason="a patch that changes more than its Scope is reviewed and tested as a smaller change than it is",
    check=check,
)
