"""Write the findings of lint as SARIF 2.1.0 for code scanning.

GitHub uses only a part of the format: a rule's `shortDescription` and `help`, one location for each result, and
`primaryLocationLineHash` to recognize a result.

Sources: OASIS sarif-v2.1.0; GitHub, "SARIF support for code scanning".
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Sequence
from typing import Any
from urllib.parse import quote

from patchstack import __version__
from patchstack.checks.entries import CheckEntry
from patchstack.report.annotations import GRAVE_RULES, Checkout
from patchstack.report.documents.lint import FindingEntry, LintDocument
from patchstack.report.documents.read import Report
from patchstack.report.text import printable
from patchstack.verdict import Verdict

SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
_CHECK, _PLACES = "check/", 10
LARGEST = 5000  # maximum number of results that code scanning stores


def sarif(documents: Sequence[Report], ground: Checkout) -> dict[str, Any]:
    """Return a SARIF log with one run: the findings and the failed checks of all series.

    Waived findings, and findings in files outside the repository, are omitted. The log contains at most `LARGEST`
    results.
    """
    lints = [document for document in documents if isinstance(document, LintDocument)]
    rules = {rule.id: rule.reason for document in lints for rule in document.rules}
    rules |= {_id(check): check.what or f"the check {check.name}" for document in lints for check in document.checks}
    places = {rule: place for place, rule in enumerate(rules)}
    seen: Counter[str] = Counter()
    results = []
    for document in lints:
        for finding in document.findings:
            uri = ground.file(document.series, finding.file)
            if uri is not None:
                results.append(_result(finding, uri, places[finding.rule], seen))
        for failed in map(_finding, document.checks):
            uri = ground.file(document.series, failed.file) if failed is not None else None
            if failed is not None and uri is not None:
                results.append(_result(failed, uri, places[failed.rule], seen))
    return {
        "$schema": SCHEMA,
        "version": "2.1.0",
        "runs": [
            {
                "tool": {
                    "driver": {
                        "name": "patchstack lint",
                        "semanticVersion": __version__,
                        "rules": [_rule(rule, reason) for rule, reason in rules.items()],
                    }
                },
                "columnKind": "unicodeCodePoints",
                "originalUriBaseIds": {"%SRCROOT%": {"description": {"text": "the repository's root"}}},
                "results": results[:LARGEST],
            }
        ],
    }


def _id(check: CheckEntry) -> str:
    """Return the id of the SARIF rule for a check."""
    return f"{_CHECK}{check.name}"


def _finding(check: CheckEntry) -> FindingEntry | None:
    """Return a finding for a check that does not hold, on the line that defines the check. Return None if it holds."""
    if check.verdict == Verdict.PASS:
        return None
    places = "".join(f"; {place.path}:{place.line}: {place.name}" for place in check.places[:_PLACES])
    return FindingEntry(
        rule=_id(check),
        file=check.file,
        number=check.patch,
        line=check.line,
        message=f"{check.verdict}: {check.reason}{places}",
    )


def _rule(rule: str, reason: str) -> dict[str, Any]:
    return {
        "id": rule,
        "name": rule,
        "shortDescription": {"text": reason},
        "fullDescription": {"text": reason},
        "help": {"text": reason},
        "defaultConfiguration": {"level": _level(rule)},
    }


def _level(rule: str) -> str:
    return "error" if rule in GRAVE_RULES or rule.startswith(_CHECK) else "warning"


def _result(finding: FindingEntry, uri: str, place: int, seen: Counter[str]) -> dict[str, Any]:
    text = printable(finding.message)
    told = hashlib.sha256("\0".join((finding.rule, uri, text)).encode()).hexdigest()[:16]
    seen[told] += 1
    return {
        "ruleId": finding.rule,
        "ruleIndex": place,
        "level": _level(finding.rule),
        "message": {"text": text.replace("[", "\\[").replace("]", "\\]")},
        "locations": [
            {
                "physicalLocation": {
                    "artifactLocation": {"uri": quote(uri), "uriBaseId": "%SRCROOT%"},
                    "region": {"startLine": max(1, finding.line)},
                }
            }
        ],
        "partialFingerprints": {"primaryLocationLineHash": f"{told}:{seen[told]}"},
    }
