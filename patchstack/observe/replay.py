"""Judge a gate again from records alone. No program is run.

A record is used for an invocation if it matches the invocation, and if the given build contains every file that the
recorded program may have loaded. The record also names the machine, but the machine cannot be checked here.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self

from patchstack.canonical import canonical, one_line
from patchstack.causes import NotInBuild, NotRecorded
from patchstack.evidence.origin import Origin, Source
from patchstack.evidence.store import Record
from patchstack.observe.kept import observation_of
from patchstack.observe.layout import Programs
from patchstack.observe.observer import RunContext
from patchstack.observe.protocol import Attempt, Complete, Invocation, Model, Observed

_SOURCE = Source(origin=Origin.RECORDED)


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedBuilds:
    """The files of several builds with their digests.

    Gates name a build by its key, or by a path below `root`.
    """

    root: Path
    files: Mapping[str, Mapping[str, str]]

    def named(self, build: str | Programs) -> Mapping[str, str]:
        """Return the files of a build with their digests. Raises `MissingError` if the files are not recorded."""
        if isinstance(build, Programs):
            names = [build.key or str(build.directory)]
        else:
            names = [build, *(key for key in self.files if key.startswith(build) and len(build) >= 8)]
        for name in names:
            path = Path(name)
            short = str(path.relative_to(self.root)) if path.is_absolute() and path.is_relative_to(self.root) else name
            if short in self.files:
                return self.files[short]
        raise NotRecorded(f"no files are recorded for the other build {names[0][:12]}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Replay:
    """An `Observer` that uses only records.

    `files` are the files of the judged build, with their digests. `borrows` is true if a program of a different build
    ran with the libraries of this build; the records do not contain this fact.
    """

    records: Sequence[Record]
    files: Mapping[str, str]
    builds: RecordedBuilds
    context: RunContext
    borrows: bool = True

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Do nothing, because nothing is open."""

    def within(self, context: RunContext) -> Self:
        return replace(self, context=context)

    def beside(self, build: str | Programs) -> Replay:
        return replace(self, files=self.builds.named(build), context=replace(self.context, reference=None, judge=None))

    def judged_with(self, program: str, judge: Programs) -> Replay:
        theirs = self.builds.named(judge)
        if program not in theirs or not self.borrows:
            raise NotInBuild(f"{program} of the other build could not run with the libraries of this build")
        files = {**self.files, program: theirs[program]}
        return replace(self, files=files, context=replace(self.context, reference=None, judge=None))

    def build_digest(self) -> str:
        return hashlib.sha256(canonical(dict(self.files))).hexdigest()

    def programs(self) -> frozenset[str]:
        return frozenset(self.files)

    def has(self, kept: str) -> bool:
        return any(kept in _kept(record) for record in self.records)

    def size_of(self, kept: str) -> int | None:
        sizes = (_kept(record).get(kept) for record in self.records)
        return next((size for size in sizes if isinstance(size, int)), None)

    def digest_of(self, model: Model) -> str:
        if model.sha256 is not None:
            return model.sha256
        found = {digest for record in self.records if (digest := _models(record).get(model.name)) is not None}
        if len(found) != 1:
            raise NotRecorded(f"no digest of model {model.name} is recorded")
        return str(found.pop())

    def observe(self, invocation: Invocation, *, complete: Complete, tries: int = 3, salt: str = "") -> Observed:
        if invocation.program not in self.files:
            raise NotInBuild(f"{invocation.program} is not in the build")
        wanted = self._ingredients(invocation, salt)
        complaint = "no record matches it"
        for record in self.records:
            seen = observation_of(record, _SOURCE) if self._answers(record.ingredients, wanted) else None
            if seen is None:
                continue
            if (why := complete(seen)) is not None:
                complaint = why
                continue
            attempt = Attempt(
                what=invocation.what,
                key=seen.key,
                code=seen.code,
                seconds=seen.seconds,
                complaint=None,
                source=_SOURCE,
            )
            return Observed(observation=seen, attempts=(attempt,))
        lost = Attempt(what=invocation.what, key="", code=0, seconds=0.0, complaint=complaint, source=_SOURCE)
        return Observed(observation=None, attempts=(lost,))

    def _answers(self, ingredients: Mapping[str, Any], wanted: Mapping[str, Any]) -> bool:
        loaded = ingredients.get("programs")
        if not isinstance(loaded, Mapping) or invocation_parts(ingredients) != wanted:
            return False
        return ingredients["program"] in loaded and _contained(loaded.items(), self.files)

    def _ingredients(self, invocation: Invocation, salt: str) -> dict[str, Any]:
        return {
            "program": invocation.program,
            "args": list(invocation.args),
            "env": dict(invocation.env),
            "models": {model.name: self.digest_of(model) for model in invocation.models},
            "inputs": {name: hashlib.sha256(data).hexdigest() for name, data in invocation.inputs.items()},
            "keeps": list(invocation.keeps),
            "brings": list(invocation.brings),
            "requests": [one_line([one.path, one.body]) for one in invocation.requests],
            "kind": self.context.kind,
            "salt": salt,
        }


def invocation_parts(ingredients: Mapping[str, Any]) -> dict[str, Any]:
    """Return the ingredients that come from an invocation.

    The schema, the files of the build and the hardware are omitted.
    """
    return {name: value for name, value in ingredients.items() if name not in ("schema", "programs", "hardware")}


def _contained(loaded: Iterable[tuple[str, str]], files: Mapping[str, str]) -> bool:
    return all(files.get(name) == digest for name, digest in loaded)


def _kept(record: Record) -> Mapping[str, Any]:
    found = record.facts.get("kept")
    return found if isinstance(found, Mapping) else {}


def _models(record: Record) -> Mapping[str, Any]:
    found = record.ingredients.get("models")
    return found if isinstance(found, Mapping) else {}
