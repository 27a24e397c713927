"""Read the switches and gates that patches declare in their trailers.

    Switch: LLAMA_KV_PAGED
    New-Gate: kv-paged

The first patch that names a switch declares this switch. Later patches that name the switch change its effect. A new
gate must FAIL without its patch and PASS with it. If several suites have a gate with the same name, the trailer is
`New-Gate: SUITE/NAME`.
"""

from __future__ import annotations

from collections.abc import Iterable, Set
from dataclasses import dataclass

from patchstack.git.patch.trailers import NEW_GATES, SWITCH, metadata_of, parse_trailers, read_message

_NO_SWITCH = ("none", "-")


@dataclass(frozen=True, slots=True, kw_only=True)
class Brought:
    """The switches and gates that one patch adds.

    `commit` and `subject` are the id and subject of the fork commit. Each is empty if the patch file does not record
    it. `switches` lists the values of `Switch` that no earlier patch names. `gates` lists the values of `New-Gate`, in
    the form `NAME` or `SUITE/NAME`.
    """

    commit: str
    subject: str
    switches: tuple[str, ...]
    gates: tuple[str, ...]

    @property
    def unproven(self) -> tuple[str, ...]:
        """The switches that no gate proves: all switches of a patch that adds no gate."""
        return () if self.gates else self.switches


def brought_by_commits(commits: Iterable[tuple[str, bytes]]) -> tuple[Brought, ...]:
    """Return the switches and gates that each commit of a series adds.

    `commits` contains pairs of a commit id and a commit object, starting with the child of the pin.
    """
    found: list[Brought] = []
    known: set[str] = set()
    for commit, data in commits:
        found.append(_by_commit(commit, data, known))
        known |= set(found[-1].switches)
    return tuple(found)


def gates_brought(patches: Iterable[bytes]) -> tuple[str, ...]:
    """Return the gates that patch files add, without duplicates, as `NAME` or `SUITE/NAME`."""
    messages = (read_message(data) for data in patches)
    return tuple(dict.fromkeys(name for one in messages for name in one.metadata().get(NEW_GATES, ())))


def _by_commit(commit: str, data: bytes, known: Set[str]) -> Brought:
    header, _, message = data.partition(b"\n\n")
    encoding = next((line[9:] for line in header.split(b"\n") if line.startswith(b"encoding ")), b"utf-8")
    try:
        text = message.decode(encoding.decode("ascii", "replace"), "replace")
    except (LookupError, UnicodeError, ValueError):
        text = message.decode("utf-8", "replace")
    metadata = metadata_of(parse_trailers(text))
    switches = dict.fromkeys(one.strip() for one in metadata.get(SWITCH, ()))
    return Brought(
        commit=commit,
        subject=" ".join(text.lstrip("\n").partition("\n\n")[0].split("\n")).strip(),
        switches=tuple(one for one in switches if one and one.lower() not in _NO_SWITCH and one not in known),
        gates=tuple(dict.fromkeys(metadata.get(NEW_GATES, ()))),
    )
