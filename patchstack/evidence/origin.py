"""Find known observations in this machine's cache and in recorded evidence, and describe their source."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from patchstack.evidence.store import BadRecord, Evidence, Observations, Record


class Origin(StrEnum):
    """The origin of an observation: a new run, this machine's cache, or recorded evidence."""

    OBSERVED = "observed"
    RECALLED = "recalled"
    RECORDED = "recorded"


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """The origin and time of an observation.

    `made` is a UTC time in RFC 3339 format. It is empty for a new observation. `decision` is the id of the decision
    that names the recorded evidence. It is empty for other origins.
    """

    origin: Origin = Origin.OBSERVED
    made: str = ""
    decision: str = ""

    @property
    def words(self) -> str:
        """The source as readable text."""
        when = self.made[:16].replace("T", " ") or "unknown time"
        match self.origin:
            case Origin.OBSERVED:
                return "observed now"
            case Origin.RECALLED:
                return f"recalled from this machine's cache ({when})"
            case Origin.RECORDED:
                by = f", by decision {self.decision[:12]}" if self.decision else ""
                return f"recorded in evidence/ ({when}{by})"


NOW = Source()
"""The source of new observations."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedRecord:
    """A record that a decision names. `decision` is the decision's id. `sha256` is the digest of the record's file."""

    decision: str
    sha256: str


class Recorded:
    """The recorded evidence that decisions name. Its records are found by key."""

    def __init__(self, evidence: Evidence, named: Mapping[str, NamedRecord]) -> None:
        self.evidence = evidence
        self.named = named

    def find(self, key: str) -> tuple[Record, Source] | None:
        """Return the record with this key and its source.

        Return None if no decision names a record with this key. Also return None if the record is missing, is damaged,
        or has a different key.
        """
        known = self.named.get(key)
        if known is None:
            return None
        try:
            record = self.evidence.read(known.sha256)
        except BadRecord:
            return None
        if record.key != key:
            return None
        made = str(record.facts.get("made", ""))
        return record, Source(origin=Origin.RECORDED, made=made, decision=known.decision)


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """The observations in this machine's cache and in recorded evidence.

    The cache is searched first. If `recorded` is None, only the cache is searched.
    """

    cache: Observations
    recorded: Recorded | None = None

    def find(self, key: str) -> Record | None:
        """Return the record with this key. Return None if it is in neither place."""
        found = self.cache.find(key)
        if found is None and self.recorded is not None and (named := self.recorded.find(key)) is not None:
            return named[0]
        return found
