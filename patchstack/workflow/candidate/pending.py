"""Store the observations of candidates that were not accepted, as evidence for a rejection.

The file is `evidence/candidates/COMMIT.json`. COMMIT is the id of the last candidate. The file is replaced when the
same candidates are examined again.
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
    """Write the results of all steps to the workspace, in the form of a decision's evidence. Return the file."""
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
    """Return the recorded evidence for exactly the candidates of `way`, in the form of a decision's evidence.

    The result is empty if there is no evidence, or if the file is damaged.
    """
    try:
        document = json.loads(_path(root, way).read_text(encoding="utf-8"))
        known = document["schema"] == SCHEMA and document["commits"] == [one.oid for one in way.new]
        return {"made": str(document["made"]), **document["evidence"]} if known else {}
    except (OSError, ValueError, KeyError, TypeError):
        return {}


def _path(root: Path, way: CandidateRange) -> Path:
    return root / "evidence" / "candidates" / f"{way.head.oid}.json"
