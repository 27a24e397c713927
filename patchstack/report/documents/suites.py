"""`patchstack.suites/1`: the suites of a workspace, which `patchstack gate suites` lists."""

from __future__ import annotations

from patchstack.document import Document, Part


class SuiteGate(Part, frozen=True, kw_only=True):
    """One gate of a suite."""

    name: str
    kind: str


class SuiteEntry(Part, frozen=True, kw_only=True):
    """One suite: its name, its purpose, and its gates.

    The purpose is empty if none is given. The gates are in the order in which they run.
    """

    suite: str
    what: str
    gates: tuple[SuiteGate, ...]


class SuitesDocument(Document, frozen=True, kw_only=True, tag="patchstack.suites/1"):
    """The suites of a workspace file."""

    suites: tuple[SuiteEntry, ...]
