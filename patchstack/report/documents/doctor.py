"""`patchstack.doctor/1`: what `patchstack doctor` found on this machine."""

from __future__ import annotations

from patchstack.document import Document, Part
from patchstack.machine.local.doctor import Checkup


class CheckEntry(Part, frozen=True, kw_only=True):
    """A check of this machine.

    `found` is the finding, and `use` is what the tool is needed for. `get` describes how to install the tool, or is
    null. `details` contains single values, by name.
    """

    group: str
    name: str
    state: str
    found: str
    use: str
    get: str | None
    details: dict[str, str | int]


class DoctorDocument(Document, frozen=True, kw_only=True, tag="patchstack.doctor/1"):
    """The state of this machine: every check, whether `verify` can run, and where builds can run."""

    verify: bool
    builds: tuple[str, ...]
    checks: tuple[CheckEntry, ...]
    exit_code: int


def doctor_document(checkup: Checkup) -> DoctorDocument:
    """Convert a checkup to its JSON document."""
    return DoctorDocument(
        verify=checkup.verify,
        builds=tuple(checkup.builds),
        checks=tuple(
            CheckEntry(
                group=check.group,
                name=check.name,
                state=check.state.value,
                found=check.found,
                use=check.use,
                get=check.get,
                details=dict(check.details),
            )
            for check in checkup.checks
        ),
        exit_code=int(checkup.exit_code),
    )
