"""What a decision rests on, as it holds it: the steps, the suite that was asked, and every record with its digest.

A decision holds all that its verdicts are drawn from, by digest: see `workflow.ledger_check`, which draws them again.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from patchstack import __version__
from patchstack.evidence.origin import Known
from patchstack.evidence.store import Evidence
from patchstack.gates.carried import carry
from patchstack.git.remote import shown_url
from patchstack.workflow.candidate.accept import AcceptStep, Terms
from patchstack.workflow.candidate.candidate import CandidateRange


def evidence_of(
    way: CandidateRange, terms: Terms, steps: Sequence[AcceptStep], kept: Evidence, known: Known
) -> dict[str, Any]:
    """Return the evidence of a decision as JSON, with its records and outputs put into `kept`.

    The records come from this machine's cache, or are recorded evidence already.
    """
    records = {}
    for key in sorted({key for step in steps for key in step.evidence.get("observations", ())}):
        if (found := known.find(key)) is not None:
            records[key] = kept.keep(found)
    suite = None
    if terms.carried is not None:
        digest = kept.outputs.keep(terms.carried.content)
        suite = {"name": terms.carried.name, "sha256": digest, "size": len(terms.carried.content)}
    return {
        "patchstack": __version__,
        "pin": way.sources.base.oid,
        "pin_tree": way.sources.base.tree,
        "upstream": shown_url(way.config.upstream),
        "before": {"commit": way.before.oid, "tree": way.before.tree},
        "suite": suite,
        "unproven": sorted(terms.unproven),
        "records": records,
        "steps": [
            {"name": one.name, "verdict": str(one.verdict), "detail": one.detail, **one.evidence} for one in steps
        ],
    }


def carried_terms(workspace: Path, terms: Terms, kept: Evidence) -> Terms:
    """Return the terms with their suite as a decision carries it; the files that it names are put into `kept`."""
    if terms.suite is None:
        return terms
    return dataclasses.replace(terms, carried=carry(workspace, terms.suite.name, kept.outputs.keep))
