"""Decide which recorded evidence counts.

A record in the tree is a file that anyone could have written. Outside CI, `gate run` may use such a record, and then
reports where it came from. In CI, and for an acceptance, only records signed by an allowed signer count.
"""

from __future__ import annotations

import os
from pathlib import Path

from patchstack.evidence.ledger import Ledger, named_records
from patchstack.evidence.origin import Recorded
from patchstack.evidence.signing import Signers, signatures
from patchstack.evidence.store import Evidence


def in_ci() -> bool:
    """Return whether this process runs in CI, where anyone may have written the files in the repository."""
    return os.environ.get("CI", "").lower() not in ("", "0", "false", "no")


def recorded_evidence(root: Path, signers: Signers | None) -> Recorded | None:
    """Return the recorded evidence that counts here, or None if no evidence counts.

    With `signers`, only the records of decisions that an allowed signer signed count. Without `signers`, no evidence
    counts in CI. Elsewhere, all records that a decision names count.
    """
    if signers is not None:
        return signed_evidence(root, signers)
    if in_ci():
        return None
    return Recorded(Evidence(root / "evidence"), named_records(Ledger(root / "ledger").look()[0]))


def signed_evidence(root: Path, signers: Signers) -> Recorded:
    """Return the records of the decisions that an allowed signer signed."""
    ledger = Ledger(root / "ledger")
    signed = [
        one for one in ledger.look()[0] if any(found.counts for found in signatures(one, ledger.directory, signers))
    ]
    return Recorded(Evidence(root / "evidence"), named_records(signed))
