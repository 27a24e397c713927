"""Rule `names`: a patch file is named after its subject, and its suffix shows how to apply it."""

from __future__ import annotations

import re
from collections.abc import Iterator

from patchstack.git.patch.mail import read_mail
from patchstack.series.files.names import cut_slug, looks_like_patch, make_name, slug_of
from patchstack.series.lint.rule import Finding, LintedPatch, Rule, Subject, named, shown

ID = "names"


def check(subject: Subject) -> Iterator[Finding]:
    """Report wrong suffixes, files that only look like patches, and slugs that are not a short form of the subject."""
    for patch in subject.patches:
        yield from _slug(patch)
        yield from _suffix(patch)
    for file in subject.others:
        if looks_like_patch(file):
            message = "it looks like a patch, but its suffix is not that of a patch, so it is not applied"
            yield Finding(rule=ID, file=file, line=1, message=message)


def sanitized(subject: str) -> str:
    """Return the file name that `git format-patch` makes from a subject, before the name is cut.

    Source: git's format_sanitized_subject.
    """
    kept = re.sub(rb"[^A-Za-z0-9._]+", b"-", subject.encode("utf-8", "replace"))
    return re.sub(rb"\.{2,}", b".", kept).lstrip(b"-").rstrip(b".-").decode("ascii")


def _slug(patch: LintedPatch) -> Iterator[Finding]:
    if patch.file.number is None or not patch.text.subject:
        return
    tagged = patch.text.subject.decode("utf-8", "replace")
    slugs = [sanitized(patch.file.subject), sanitized(tagged)]
    slug = slug_of(patch.file.file)
    if not any(_shortens(slug, full) for full in slugs):
        subject = shown(read_mail(b"Subject: " + patch.text.subject).subject.encode())
        number = patch.file.number
        would = make_name(number, cut_slug(number, slugs[0]), anchored=patch.file.anchored)
        yield patch.finding(ID, patch.text.subject_line, f"the subject is {subject}: git would name the file {would}")


def _shortens(slug: str, full: str) -> bool:
    """Return whether a slug is a short form of the full slug.

    Case is ignored. The slug may be cut at the end, and may omit, join or reorder words.
    """
    slug, full = slug.lower(), full.lower()
    words, wanted = (re.split(r"[-_.]+", text) for text in (full, slug))
    joined = "".join(words)
    return full.startswith(slug) or all(
        word in words or (len(word) >= 4 and word in joined) or (last and any(one.startswith(word) for one in words))
        for word, last in ((word, place == len(wanted) - 1) for place, word in enumerate(wanted))
    )


def _suffix(patch: LintedPatch) -> Iterator[Finding]:
    """Report plain patches that insert lines without context, because git puts such lines at the end of the file."""
    if patch.file.anchored:
        return
    for file in patch.text.files:
        for hunk in file.hunks:
            if file.old is not None and not hunk.before:
                header = hunk.header.decode("ascii", "replace")
                message = (
                    f"{named(file.path)}: {header} has no context, so git apply puts it at the end of the file: "
                    "give it context, or the suffix .anchored"
                )
                yield patch.finding(ID, hunk.number, message)


RULE = Rule(
    id=ID,
    reason="a name that does not match the subject leads readers to the wrong patch",
    check=check,
)
