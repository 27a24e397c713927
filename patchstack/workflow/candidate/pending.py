"""What was seen of candidates that were not accepted: kept, so that a rejection has its evidence.

A file `evidence/candidates/COMMIT.json`, named by the last commit; examining the same commits again replaces it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from patchstack.canonical import indented
from patchstack.files.atomic import replace_file
from patchstack.workflow.candidate.candidate import CandidateRange

SCHEMA = "patchstack.examined/2"


def keep(root: Path, way: CandidateRange, evidence: Mapping[str, Any]) -> Path:
    """Write down, below the workspace's directory, how every step came out: the evidence of a decision."""
    document = {
        "schema": SCHEMA,
        "series": way.config.name,
        "commits": [one.oid for one in way.new],
        "made": datetime.now(UTC).isoformat(timespec="seconds"),
        "evidence": dict(evidence),
    }
    path = _path(root, way)
    path.parent.mkdir(parents=True, exist_ok=True)
    replace_file(path, indented(document))
    return path


def recall(root: Path, way: CandidateRange) -> dict[str, Any]:
    """What is known of just these commits, as a decision keeps it; empty if nothing is, or what is there is
    damaged."""
    try:
        document = json.loads(_path(root, way).read_text(encoding="utf-8"))
        known = document["schema"] == SCHEMA and document["commits"] == [one.oid for one in way.new]
        return {"made": str(document["made"]), **document["evidence"]} if known else {}
    except (OSError, ValueError, KeyError, TypeError):
        return {}


def _path(root: Path, way: CandidateRange) -> Path:
    return root / "evidence" / "candidates" / f"{way.head.oid}.json"
