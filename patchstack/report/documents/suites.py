"""`patchstack.suites/1`: the suites of a workspace, as `patchstack gate suites` lists them."""

from __future__ import annotations

from patchstack.document import Document, Part


class SuiteGate(Part, frozen=True, kw_only=True):
    """A gate of a suite."""

    name: str
    kind: str


class SuiteEntry(Part, frozen=True, kw_only=True):
    """A suite.

    `what` is its purpose, or empty if none is given. `gates` are in the order in which they run.
    """

    suite: str
    what: str
    gates: tuple[SuiteGate, ...]


class SuitesDocument(Document, frozen=True, kw_only=True, tag="patchstack.suites/1"):
    """The suites of a workspace file."""

    suites: tuple[SuiteEntry, ...]
