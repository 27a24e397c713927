"""`patchstack.suites/1`: the suites of a workspace, which `patchstack gate suites` lists."""

from __future__ import annotations

from patchstack.document import Document, Part


class SuiteGate(Part, frozen=True, kw_only=True):
    """One gate of a suite."""

    name: str
    kind: str


class SuiteEntry(Part, frozen=True, kw_only=True):
    """One suite.

    It has the name, the purpose (empty if not given), and the gates in the order in which they run.
    """

    suite: str
    what: str
    gates: tuple[SuiteGate, ...]


class SuitesDocument(Document, frozen=True, kw_only=True, tag="patchstack.suites/1"):
    """The suites of a workspace file."""

    suites: tuple[SuiteEntry, ...]
