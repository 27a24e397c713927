"""The source of an observation: made now, recalled from this machine's cache, or recorded evidence."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from patchstack.evidence.store import BadRecord, Evidence, Observations, Record


class Origin(StrEnum):
    """The origin of an observation."""

    OBSERVED = "observed"
    RECALLED = "recalled"
    RECORDED = "recorded"


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """The origin of an observation. `made` is the time, RFC 3339 in UTC (empty: now). `decision` is the id of the
    decision that names it, for recorded evidence."""

    origin: Origin = Origin.OBSERVED
    made: str = ""
    decision: str = ""

    @property
    def words(self) -> str:
        """The source, for people."""
        when = self.made[:16].replace("T", " ") or "at an unknown time"
        match self.origin:
            case Origin.OBSERVED:
                return "observed now"
            case Origin.RECALLED:
                return f"recalled from this machine's cache ({when})"
            case Origin.RECORDED:
                by = f", by decision {self.decision[:12]}" if self.decision else ""
                return f"recorded in evidence/ ({when}{by})"


NOW = Source()
"""The source of observations that are made now."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedRecord:
    """A record that a decision names: the decision's id, and the SHA-256 of the record's file."""

    decision: str
    sha256: str


class Recorded:
    """Recorded evidence: the records that decisions name, by key."""

    def __init__(self, evidence: Evidence, named: Mapping[str, NamedRecord]) -> None:
        self.evidence = evidence
        self.named = named

    def find(self, key: str) -> tuple[Record, Source] | None:
        """Return the record of that key and its source, if it exists and is whole."""
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
    """The known observations: first those of this machine's cache, then recorded evidence (None: no recorded evidence
    counts)."""

    cache: Observations
    recorded: Recorded | None = None

    def find(self, key: str) -> Record | None:
        """Return the record of that key."""
        found = self.cache.find(key)
        if found is None and self.recorded is not None and (named := self.recorded.find(key)) is not None:
            return named[0]
        return found
