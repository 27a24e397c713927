"""What patches bring besides their change, by the trailers of their messages: switches, and the gates that show them.

    Switch: LLAMA_KV_PAGED
    New-Gate: kv-paged

A gate that comes with its patch must FAIL without the patch, and PASS with it. `New-Gate: SUITE/NAME` names one of a
suite, if several have a gate of that name.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from patchstack.git.patch.trailers import NEW_GATES, SWITCH, metadata_of, parse_trailers, read_message

_NO_SWITCH = ("none", "-")


@dataclass(frozen=True, slots=True, kw_only=True)
class Brought:
    """What one patch brings. `commit` and `subject` are the fork commit's (empty for a patch file without them);
    `switches` are the values of `Switch`, `gates` those of `New-Gate`: `NAME` or `SUITE/NAME`."""

    commit: str
    subject: str
    switches: tuple[str, ...]
    gates: tuple[str, ...]

    @property
    def unproven(self) -> tuple[str, ...]:
        """The switches that no gate of the patch shows."""
        return () if self.gates else self.switches


def brought_by_commit(commit: str, data: bytes) -> Brought:
    """Return what a commit brings. `data` is the commit object."""
    header, _, message = data.partition(b"\n\n")
    encoding = next((line[9:] for line in header.split(b"\n") if line.startswith(b"encoding ")), b"utf-8")
    try:
        text = message.decode(encoding.decode("ascii", "replace"), "replace")
    except (LookupError, UnicodeError, ValueError):
        text = message.decode("utf-8", "replace")
    subject = " ".join(text.lstrip("\n").partition("\n\n")[0].split("\n")).strip()
    return _brought(commit, subject, metadata_of(parse_trailers(text)))


def brought_by_patch(data: bytes) -> Brought:
    """Return what a patch file brings."""
    message = read_message(data)
    return _brought("", message.subject, message.metadata())


def gates_brought(patches: Iterable[bytes]) -> tuple[str, ...]:
    """Return the gates that come with patch files, each once: `NAME` or `SUITE/NAME`."""
    return tuple(dict.fromkeys(name for data in patches for name in brought_by_patch(data).gates))


def _brought(commit: str, subject: str, metadata: dict[str, tuple[str, ...]]) -> Brought:
    switches = dict.fromkeys(one.strip() for one in metadata.get(SWITCH, ()))
    return Brought(
        commit=commit,
        subject=subject,
        switches=tuple(one for one in switches if one and one.lower() not in _NO_SWITCH),
        gates=tuple(dict.fromkeys(metadata.get(NEW_GATES, ()))),
    )
