"""Rule `trailers`: every message must end with the required trailers.

Trailers are parsed by git's rules.
"""

from __future__ import annotations

from collections.abc import Iterator

from patchstack.git.patch.trailers import Trailer, parse_trailers
from patchstack.series.lint.message import kept_message
from patchstack.series.lint.rule import Finding, LintedPatch, Rule, Subject

ID = "trailers"


def trailers_of(patch: LintedPatch) -> tuple[Trailer, ...]:
    """Return the trailers of a patch. They are read from the part of the message that `git am` keeps."""
    body = b"\n".join(line.text.rstrip(b"\r") for line in kept_message(patch.text.message))
    return parse_trailers(f"subject\n\n{body.decode('utf-8', 'replace')}")


def check(subject: Subject) -> Iterator[Finding]:
    """Report required trailers that are missing from the message or have no value."""
    if not subject.policy.trailers:
        return
    for patch in subject.patches:
        present = {trailer.key.lower() for trailer in trailers_of(patch) if trailer.value}
        missing = [key for key in subject.policy.trailers if key.lower() not in present]
        if missing:
            what = "trailer" if len(missing) == 1 else "trailers"
            yield patch.finding(ID, patch.text.subject_line, f"the message has no {what} {', '.join(missing)}")


RULE = Rule(
    id=ID,
    reason="docs and status tables are made from trailers, and a patch without them is missing there",
    check=check,
)
