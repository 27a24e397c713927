"""The ledger: candidates accepted and rejected, and why. One file a decision, named by its content."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any

from patchstack.canonical import canonical, indented
from patchstack.errors import ConfigError, MissingError, UsageError
from patchstack.files.atomic import replace_file
from patchstack.series.lock import read_lock

SCHEMA = "patchstack.decision/1"
_NAME = re.compile(r"([0-9a-f]{40})\.json\Z")


class Outcome(StrEnum):
    """What was decided."""

    ACCEPTED = "accepted"
    REJECTED = "rejected"


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A fork commit that was decided on. `symbols` are the functions, macros and switches its lines are about, `files`
    the paths it changes (of a rename both), `diff` its patch as text."""

    commit: str
    subject: str
    patch_id: str
    tree: str
    files: tuple[str, ...] = ()
    symbols: tuple[str, ...] = ()
    diff: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """A decision on one or more commits. `made` is RFC 3339 in UTC; `why` is a person's reason; `evidence` is what it
    rests on, as JSON: build keys, proofs, gates with their verdicts and observation keys, benchmark results."""

    outcome: Outcome
    series: str
    made: str
    why: str
    candidates: tuple[Candidate, ...]
    tags: tuple[str, ...] = ()
    evidence: Mapping[str, Any] = field(default_factory=dict)

    @property
    def id(self) -> str:
        """The first 40 digits of the SHA-256 of the canonical content."""
        return hashlib.sha256(_content(self)).hexdigest()[:40]

    def says(self, words: Iterable[str]) -> bool:
        """Whether every word occurs in subjects, reason, tags, files or symbols, in any case."""
        texts = [self.why, *self.tags, self.series, str(self.outcome)]
        for one in self.candidates:
            texts += [one.subject, one.commit, *one.files, *one.symbols]
        whole = "\n".join(texts).casefold()
        return all(word.casefold() in whole for word in words)


class Ledger:
    """The decisions below a directory."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    def write(self, decision: Decision) -> Path:
        """Write a decision down, whole or not at all; the same decision twice is one file."""
        self.directory.mkdir(parents=True, exist_ok=True)
        path = self.directory / f"{decision.id}.json"
        replace_file(path, indented(_document(decision), ascii=False))
        return path

    def read(self) -> tuple[Decision, ...]:
        """Every decision, the newest first. Raises `ConfigError` with all files that are damaged, or are not what their
        names say."""
        if not self.directory.is_dir():
            return ()
        found, problems = [], []
        for path in sorted(self.directory.iterdir()):
            match = _NAME.match(path.name)
            if match is None:
                continue
            try:
                decision = _decision(json.loads(path.read_text(encoding="utf-8")))
            except (OSError, ValueError, KeyError, TypeError) as error:
                problems.append(f"{path}: {type(error).__name__}: {error}")
                continue
            if decision.id != match.group(1):
                problems.append(f"{path}: its content is not what it was named by")
            found.append(decision)
        if problems:
            raise ConfigError(
                "the ledger has files that cannot be trusted", problems=problems, hint="git log -p -- ledger shows how"
            )
        return tuple(sorted(found, key=lambda one: (one.made, one.id), reverse=True))

    def named(self, start: str) -> Decision:
        """The decision whose id starts so. Raises `MissingError` for none, `UsageError` for several."""
        found = [one for one in self.read() if one.id.startswith(start)]
        if not found:
            raise MissingError(f"the ledger has no decision {start}", hint="patchstack ledger lists them")
        if len(found) > 1:
            raise UsageError(f"{start} is the start of {len(found)} ids", problems=[one.id for one in found])
        return found[0]


def accepted_patches(directory: Path, patches: Path) -> dict[str, tuple[str, Path]]:
    """Which decision of a ledger took each patch of an exported series in: by file, its id and its path. Commits that
    were not accepted, or were rewritten since, have none."""
    decisions = {
        candidate.commit: decision.id
        for decision in reversed(Ledger(directory).read())
        if decision.outcome is Outcome.ACCEPTED
        for candidate in decision.candidates
    }
    lock = read_lock(patches) if decisions else None
    return {
        patch.file: (decisions[patch.commit], directory / f"{decisions[patch.commit]}.json")
        for patch in (lock.patches if lock else ())
        if patch.commit in decisions
    }


def _content(decision: Decision) -> bytes:
    return canonical(_document(decision), ascii=False)


def _document(decision: Decision) -> dict[str, Any]:
    # Through JSON once: tuples are lists there, and the id must not depend on which of both it was.
    found: dict[str, Any] = json.loads(json.dumps({"schema": SCHEMA, **asdict(decision)}))
    return found


def _decision(document: Mapping[str, Any]) -> Decision:
    if document["schema"] != SCHEMA:
        raise ValueError(f"schema {document['schema']}, not {SCHEMA}")
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
    )
