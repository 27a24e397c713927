"""Store the decisions on candidates in a ledger.

Each decision is one file, named by the digest of its content.

A decision of format 2 contains the digest of every record of its evidence, and the input of the verdicts. The verdicts
can therefore be computed again from the repository alone. A decision of format 1 cannot be checked in this way, because
its outputs were not stored.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, fields
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import Any

from patchstack.canonical import canonical, indented
from patchstack.causes import AmbiguousName, LedgerUntrusted, NoSuchDecision
from patchstack.evidence.decided import decided_brings
from patchstack.evidence.origin import NamedRecord
from patchstack.files.atomic import replace_file
from patchstack.files.regular import read_regular
from patchstack.series.lock import read_lock

SCHEMA = "patchstack.decision/2"
OLD_SCHEMA = "patchstack.decision/1"
_NAME = re.compile(r"([0-9a-f]{40})\.json\Z")


class Outcome(StrEnum):
    """The result of a decision."""

    ACCEPTED = "accepted"
    REJECTED = "rejected"


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A fork commit that was accepted or rejected.

    `files` are the paths that it changes, including both paths of a rename. `symbols` are the functions, macros,
    types and environment variables in its changed lines. `diff` is its patch as text.
    """

    commit: str
    subject: str
    patch_id: str
    tree: str
    files: tuple[str, ...] = ()
    symbols: tuple[str, ...] = ()
    diff: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """A decision on one or more commits.

    `made` is a UTC time in RFC 3339 format. `why` is the reason that a person gave. `evidence` is the basis of the
    decision, as JSON (see `docs/reference/gate-json.md`). `supersedes` contains the ids of earlier decisions on the
    same commits that this decision replaces. `format` is 1 or 2.
    """

    outcome: Outcome
    series: str
    made: str
    why: str
    candidates: tuple[Candidate, ...]
    tags: tuple[str, ...] = ()
    evidence: Mapping[str, Any] = field(default_factory=dict)
    supersedes: tuple[str, ...] = ()
    format: int = 2
    _id: str = field(default="", init=False, repr=False, compare=False)

    @property
    def content(self) -> bytes:
        """The decision as canonical JSON. The id is computed from it, and signatures cover it."""
        return canonical(_document(self), ascii=False)

    @property
    def commits(self) -> tuple[str, ...]:
        """The commits that were accepted or rejected."""
        return tuple(one.commit for one in self.candidates)

    @property
    def id(self) -> str:
        """The first 40 hex digits of the SHA-256 of the canonical content."""
        if not self._id:  # cached, because sorting uses it often and the evidence may be large
            object.__setattr__(self, "_id", hashlib.sha256(self.content).hexdigest()[:40])
        return self._id

    def says(self, words: Iterable[str]) -> bool:
        """Return whether every word occurs in the decision.

        The subjects, commits, reason, tags, series, outcome, files and symbols are searched. Case is ignored.
        """
        texts = [self.why, *self.tags, self.series, str(self.outcome)]
        for one in self.candidates:
            texts += [one.subject, one.commit, *one.files, *one.symbols]
        whole = "\n".join(texts).casefold()
        return all(word.casefold() in whole for word in words)


def time_of_decision() -> str:
    """Return the current time for `Decision.made`.

    The time includes microseconds, because decisions are sorted by time and a script can make several in one second.
    """
    return datetime.now(UTC).isoformat(timespec="microseconds")


class Ledger:
    """The decisions in a directory."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    def write(self, decision: Decision) -> Path:
        """Write a decision atomically, and return its file. Equal decisions have the same file."""
        self.directory.mkdir(parents=True, exist_ok=True)
        path = self.directory / f"{decision.id}.json"
        replace_file(path, indented(_document(decision), ascii=False))
        return path

    def read(self) -> tuple[Decision, ...]:
        """Return all decisions, newest first.

        Raises `ConfigError` if a file is damaged or does not match its name. The error lists all such files.
        """
        found, problems = self.look()
        if problems:
            raise LedgerUntrusted(
                "the ledger has files that cannot be trusted",
                problems=problems,
                hint="run 'git log -p -- ledger' to see the changes",
            )
        return found

    def look(self) -> tuple[tuple[Decision, ...], tuple[str, ...]]:
        """Return all valid decisions, newest first, and the problems with the invalid ones.

        A decision is valid if its id, which is computed from the content, matches the name of its file. Files that do
        not have the name of a decision are ignored.
        """
        found, problems = [], []
        for path in sorted(self.directory.iterdir()) if self.directory.is_dir() else ():
            match = _NAME.match(path.name)
            if match is None:
                continue
            try:
                decision = _decision(json.loads(read_regular(path).decode("utf-8")))
            except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
                problems.append(f"{path}: {type(error).__name__}: {error}")
                continue
            if decision.id != match.group(1):
                problems.append(f"{path}: its content does not match its name")
                continue
            found.append(decision)
        return tuple(sorted(found, key=lambda one: (one.made, one.id), reverse=True)), tuple(problems)

    def named(self, start: str) -> Decision:
        """Return the decision whose id starts with `start`.

        Raises `MissingError` if no decision matches, and `UsageError` if several match.
        """
        found = [one for one in self.read() if one.id.startswith(start)]
        if not found:
            raise NoSuchDecision(
                f"the ledger has no decision {start}", hint="run 'patchstack ledger' to list all decisions"
            )
        if len(found) > 1:
            raise AmbiguousName(
                f"decision {start} is ambiguous: {len(found)} ids start with it",
                problems=[one.id for one in found],
                hint="give more digits of the id",
            )
        return found[0]


def counting(decisions: Iterable[Decision]) -> dict[str, Decision]:
    """Return the decision that counts for each commit: the newest that is not superseded.

    A decision can supersede only an older decision on the same commits. Other ids in `supersedes` are ignored.
    """
    given = sorted(decisions, key=lambda one: (one.made, one.id))
    known = {one.id: one for one in given}
    replaced = {
        old
        for one in given
        for old in one.supersedes
        if old in known and known[old].made <= one.made and known[old].commits == one.commits
    }
    return {commit: one for one in given if one.id not in replaced for commit in one.commits}


def named_records(decisions: Iterable[Decision]) -> dict[str, NamedRecord]:
    """Map the keys of records to their digests and decisions.

    Only decisions of format 2 name records. If several decisions name a record with the same key, the newest decision
    counts.
    """
    found: dict[str, NamedRecord] = {}
    for decision in sorted(decisions, key=lambda one: (one.made, one.id)):
        records = decision.evidence.get("records", {}) if decision.format > 1 else {}
        name = decision.id
        for key, digest in records.items() if isinstance(records, Mapping) else ():
            found[str(key)] = NamedRecord(decision=name, sha256=str(digest))
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class AcceptedBy:
    """The decision that accepted a patch.

    `id` is the decision's id, and `path` is its file. `switch_unproven` is the reason why the patch was accepted with a
    switch that no gate tests. It is empty if the patch adds no such switch.
    """

    id: str
    path: Path
    switch_unproven: str = ""


def accepted_patches(directory: Path, patches: Path) -> dict[str, AcceptedBy]:
    """Map the file name of each accepted patch of an exported series to the decision that accepted it.

    A patch is omitted if its commit was not accepted, or if the commit has been rewritten since.
    """
    decisions = {
        commit: decision
        for commit, decision in counting(Ledger(directory).read()).items()
        if decision.outcome is Outcome.ACCEPTED
    }
    lock = read_lock(patches) if decisions else None
    return {
        patch.file: AcceptedBy(
            id=decisions[patch.commit].id,
            path=directory / f"{decisions[patch.commit].id}.json",
            switch_unproven=_switch_unproven(decisions[patch.commit], patch.commit),
        )
        for patch in (lock.patches if lock else ())
        if patch.commit in decisions
    }


def _switch_unproven(decision: Decision, commit: str) -> str:
    brings = decided_brings(decision.evidence)
    return brings.reason if brings is not None and any(one.commit == commit for one in brings.unproven) else ""


def _document(decision: Decision) -> dict[str, Any]:
    values = {one.name: getattr(decision, one.name) for one in fields(decision) if one.init}
    values["candidates"] = [asdict(one) for one in decision.candidates]
    old = values.pop("format") == 1
    if old:
        del values["supersedes"]
    # Converting through JSON turns tuples into lists, so that the id does not depend on the type of a sequence.
    found: dict[str, Any] = json.loads(json.dumps({"schema": OLD_SCHEMA if old else SCHEMA, **values}))
    return found


def _decision(document: Mapping[str, Any]) -> Decision:
    if document["schema"] not in (SCHEMA, OLD_SCHEMA):
        raise ValueError(f"the schema is {document['schema']}, not {SCHEMA}")
    old = document["schema"] == OLD_SCHEMA
    return Decision(
        outcome=Outcome(document["outcome"]),
        series=str(document["series"]),
        made=str(document["made"]),
        why=str(document["why"]),
        candidates=tuple(
            Candidate(
                commit=str(one["commit"]),
                subject=str(one["subject"]),
                patch_id=str(one["patch_id"]),
                tree=str(one["tree"]),
                files=tuple(map(str, one["files"])),
                symbols=tuple(map(str, one["symbols"])),
                diff=str(one["diff"]),
            )
            for one in document["candidates"]
        ),
        tags=tuple(map(str, document["tags"])),
        evidence=dict(document["evidence"]),
        supersedes=() if old else tuple(map(str, document["supersedes"])),
        format=1 if old else 2,
    )
