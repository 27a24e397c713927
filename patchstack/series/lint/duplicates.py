"""Rule `duplicate`: no patch repeats the change of an earlier patch, and no patch is empty."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator

from patchstack.series.lint.rule import Finding, LintedPatch, Rule, Subject

ID = "duplicate"
_TELLING = 3
_BLANKS = b" \t\r\v\f"
_Key = tuple[str, bytes]


def check(subject: Subject) -> Iterator[Finding]:
    """Report patches that have no diff or repeat an earlier patch.

    A patch repeats an earlier one if both have the same patch-id, or add and remove the same lines in the same files.
    Equal lines count only if at least three of them have four or more characters, not counting blanks, because a few
    short lines may be equal by chance.
    """
    seen: dict[_Key, str] = {}
    for patch in subject.patches:
        if not patch.text.files:
            if patch.file.data is not None:
                yield patch.finding(ID, 1, "there is no diff in it")
            continue
        keys = list(_keys(patch))
        earlier = next((seen[key] for key in keys if key in seen), None)
        if earlier is not None:
            yield patch.finding(ID, patch.text.files[0].number, f"it makes the same change as {earlier}")
        for key in keys:
            seen.setdefault(key, patch.file.file)


def _keys(patch: LintedPatch) -> Iterator[_Key]:
    """Yield the keys of a change.

    The first key is made from all lines without blanks, so changes with the same patch-id have the same key. The second
    key is made only from the added and removed lines. It is omitted if too few of them are long enough.
    """
    whole, own = hashlib.sha256(), hashlib.sha256()
    telling = 0
    for file in sorted(patch.text.files, key=lambda file: (file.path, file.old or b"")):
        head = repr((file.old, file.new, file.modes)).encode() + file.binary + b"\n"
        whole.update(head)
        own.update(head)
        lines = [(b"=" if line.sign == b" " else line.sign) + line.text for line in file.lines]
        whole.update(b"\n".join(lines).translate(None, _BLANKS) + b"\n")
        changed = b"\n".join([line for line in lines if line[:1] != b"="])
        own.update(changed + b"\n")
        telling += sum(len(bare) > 4 for bare in changed.translate(None, _BLANKS).split(b"\n"))
    yield "whole", whole.digest()
    if telling >= _TELLING:
        yield "own", own.digest()


RULE = Rule(
    id=ID,
    reason="a repeated change or an empty patch comes from a rebase or an export that went wrong",
    check=check,
)
