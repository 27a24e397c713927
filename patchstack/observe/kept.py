"""Convert observations to records, and records to observations."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from patchstack.engine.protocol import Ending
from patchstack.evidence.key import Ingredients
from patchstack.evidence.origin import Source
from patchstack.evidence.store import Record
from patchstack.observe.protocol import Invocation, Observation, Reply


def record_of(
    seen: Observation, invocation: Invocation, ingredients: Ingredients, kept: Mapping[str, int | None]
) -> Record:
    """Return the record of an observation.

    `kept` maps each kept file to its size on the engine, in bytes, or to None if the file does not exist.
    """
    facts: dict[str, Any] = {
        "ending": str(seen.ending),
        "code": seen.code,
        "seconds": round(seen.seconds, 3),
        "overflowed": seen.overflowed,
        "replies": [reply.status for reply in seen.replies],
        "made": datetime.now(UTC).isoformat(timespec="seconds"),
        "what": invocation.what,
        "kept": dict(kept),
    }
    blobs = {"stdout": seen.stdout, "stderr": seen.stderr}
    blobs |= {f"reply-{number}": reply.body for number, reply in enumerate(seen.replies)}
    blobs |= {f"file:{name}": data for name, data in seen.files.items()}
    return Record(key=seen.key, ingredients=ingredients.document(), facts=facts, blobs=blobs)


def observation_of(record: Record, source: Source) -> Observation | None:
    """Return the observation of a record. Return None if the record is incomplete or has invalid values."""
    facts, blobs = record.facts, record.blobs
    try:
        return Observation(
            key=record.key,
            ending=Ending(facts["ending"]),
            code=int(facts["code"]),
            stdout=blobs["stdout"],
            stderr=blobs["stderr"],
            seconds=float(facts["seconds"]),
            overflowed=bool(facts["overflowed"]),
            replies=tuple(
                Reply(status=int(status), body=blobs[f"reply-{number}"])
                for number, status in enumerate(facts["replies"])
            ),
            files={name.removeprefix("file:"): blob for name, blob in blobs.items() if name.startswith("file:")},
            source=source,
        )
    except (KeyError, ValueError, TypeError):
        return None
