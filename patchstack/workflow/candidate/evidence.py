"""Collect the evidence for a decision.

The evidence contains the steps, the suite, and every record with its digest. A decision contains the digests of
everything that its verdicts follow from. `workflow.ledger.check` derives the verdicts again.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from patchstack import __version__
from patchstack.evidence.origin import Known
from patchstack.evidence.store import Evidence
from patchstack.gates.carried import CarriedSuite, ExtraGate, carry
from patchstack.git.remote import shown_url
from patchstack.workflow.candidate.accept import AcceptStep, Terms
from patchstack.workflow.candidate.candidate import CandidateRange


def evidence_of(
    way: CandidateRange, terms: Terms, steps: Sequence[AcceptStep], kept: Evidence, known: Known
) -> dict[str, Any]:
    """Return the evidence of a decision as JSON, and store its records and outputs in `kept`.

    The records come from this machine's cache, or are already recorded evidence.
    """
    records = {}
    for key in sorted({key for step in steps for key in step.evidence.get("observations", ())}):
        if (found := known.find(key)) is not None:
            records[key] = kept.keep(found)
    return {
        "patchstack": __version__,
        "pin": way.sources.base.oid,
        "pin_tree": way.sources.base.tree,
        "upstream": shown_url(way.config.upstream),
        "before": {"commit": way.before.oid, "tree": way.before.tree},
        "suite": _named(terms.carried, kept) if terms.carried is not None else None,
        "brings": terms.brings.document(),
        "suites_of_new_gates": [_named(one, kept) for one in terms.carried_new],
        "unproven": sorted(terms.unproven),
        "records": records,
        "steps": [
            {"name": one.name, "verdict": str(one.verdict), "detail": one.detail, **one.evidence} for one in steps
        ],
    }


def _named(carried: CarriedSuite, kept: Evidence) -> dict[str, Any]:
    """Store the copy of a suite in `kept`, and return its entry in the decision."""
    return {"name": carried.name, "sha256": kept.outputs.keep(carried.content), "size": len(carried.content)}


def carried_terms(workspace: Path, terms: Terms, kept: Evidence) -> Terms:
    """Add copies of the suites to the terms, and return the new terms.

    The copies become part of the decision. They also contain the gates that the change adds. The files that the suites
    and gates name are stored in `kept`.
    """
    asked = terms.suite.name if terms.suite is not None else None
    others = sorted({one.suite.name for one in terms.brings.gates} - {asked})

    def carried(name: str) -> CarriedSuite:
        extra = [
            ExtraGate(entry=one.brought.entry, files=one.brought.files)
            for one in terms.brings.gates
            if one.brought is not None and one.suite.name == name
        ]
        return carry(workspace, name, kept.outputs.keep, extra)

    return dataclasses.replace(
        terms,
        carried=carried(asked) if asked is not None else None,
        carried_new=tuple(carried(name) for name in others),
    )
