"""Check all decisions and evidence, using only the repository.

Only ssh-keygen is run, and nothing is fetched. With the objects of the pin, the check proves that trees follow from
patches. If these objects are missing here, the trees count as asserted, not as proven.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from patchstack.builds.inputs.variant import Variants, load_variants
from patchstack.errors import ConfigError, MissingError, PatchstackError
from patchstack.evidence.ledger import Decision, Ledger, Outcome, counting, named_records
from patchstack.evidence.signing import Signature, Signers, signatures, strays
from patchstack.evidence.store import BadRecord, Evidence
from patchstack.git.remote import Cache
from patchstack.series.files.order import has_patches
from patchstack.series.lock import read_lock
from patchstack.series.verify.verify import prove_series
from patchstack.tasks import task
from patchstack.workflow.ledger.brought import check_brought
from patchstack.workflow.ledger.comparisons import check_comparisons
from patchstack.workflow.ledger.finding import Findings
from patchstack.workflow.ledger.source import SeriesFacts, check_builds, check_source
from patchstack.workflow.ledger.verdicts import check_verdicts, material
from patchstack.workspace import Workspace

OLD_FORMAT = "format 1: outputs not kept, not re-derivable"


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedDecision:
    """The findings on a decision.

    `counts` is true if it is the current decision for a patch of a series. `superseded_by` is the id of the decision
    that replaced it.
    """

    decision: Decision
    findings: Findings
    counts: bool
    superseded_by: str | None = None
    signatures: tuple[Signature, ...] = ()

    @property
    def signed_by(self) -> tuple[str, ...]:
        """The allowed signers who signed the decision."""
        return tuple(one.by for one in self.signatures if one.counts)


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerCheck:
    """The findings on a ledger.

    `problems` are the problems that do not belong to a single decision, such as damaged files. `unnamed` are the
    records that no decision names. `old_records` is the number of records of format 1. `undecided` are the patches
    without a current acceptance. `bytes` is the size of evidence and ledger in the repository. `signers` describes the
    source of the list of allowed signers. `notes` are the reasons why trees could not be proven here.
    """

    decisions: tuple[CheckedDecision, ...]
    problems: tuple[str, ...]
    unnamed: tuple[str, ...]
    old_records: int
    undecided: tuple[str, ...]
    bytes: int
    signers: str | None = None
    notes: tuple[str, ...] = field(default=())

    @property
    def holds(self) -> bool:
        """Whether the ledger has neither wrong findings nor problems."""
        return not self.problems and not any(one.findings.wrong for one in self.decisions)


def check_ledger(
    workspace: Workspace, cache: Cache, signers: Signers | None, *, require_signed: bool = False
) -> LedgerCheck:
    """Check every decision of a workspace, and the records that no decision names.

    With `require_signed`, each patch needs a decision signed by an allowed signer. `cache` must be offline, so that
    nothing is fetched.

    Raises `MissingError` if signatures must be checked and ssh-keygen is missing.
    """
    ledger, kept = Ledger(workspace.root / "ledger"), Evidence(workspace.root / "evidence")
    decisions, problems = ledger.look()
    wrong = list(problems)
    facts, notes = _facts(workspace, cache, wrong)
    variants = load_variants(workspace.variants)
    counts = counting(decisions)
    replaced = _replaced(decisions, counts)
    checked = []
    for decision in decisions:
        with task(f"checking decision {decision.id[:12]}"):
            own = facts.get(decision.series)
            in_series = own is not None and any(
                patch.commit in decision.commits and counts.get(patch.commit) == decision for patch in own.lock.patches
            )
            findings = _check(decision, own, kept, variants, counts_for_patch=in_series)
            signed = signatures(decision, ledger.directory, signers)
            findings.wrong += [f"signature {one.path.name}: {one.problem}" for one in signed if one.broken]
            if require_signed and in_series and not any(one.counts for one in signed):
                told = "; ".join(f"{one.path.name}: {one.problem}" for one in signed) or "it has no signature"
                findings.wrong.append(f"no allowed signer signed it: {told}")
        checked.append(
            CheckedDecision(
                decision=decision,
                findings=findings,
                counts=in_series,
                superseded_by=replaced.get(decision.id),
                signatures=signed,
            )
        )
    undecided = _undecided(facts, counts)
    if require_signed:
        wrong += [f"patch {name} has no decision that could be signed" for name in undecided]
    wrong += [f"{path}: it signs no decision" for path in strays(ledger.directory, iter(one.id for one in decisions))]
    unnamed = _check_unnamed(decisions, kept, wrong)
    return LedgerCheck(
        decisions=tuple(checked),
        problems=tuple(wrong),
        unnamed=unnamed,
        old_records=_check_old(kept, wrong),
        undecided=undecided,
        bytes=_size(kept.directory) + _size(ledger.directory),
        signers=signers.where if signers is not None else None,
        notes=tuple(notes),
    )


def _check(
    decision: Decision,
    facts: SeriesFacts | None,
    kept: Evidence,
    variants: Variants,
    *,
    counts_for_patch: bool,
) -> Findings:
    found = Findings()
    found.derived.append("its content matches its name")
    if decision.format < 2:
        if counts_for_patch:
            found.wrong.append(f"{OLD_FORMAT}, and it is the one that counts: accept its commits again")
        else:
            found.asserted.append(OLD_FORMAT)
        return found
    if decision.outcome is Outcome.REJECTED and "steps" not in decision.evidence:
        found.asserted.append("only the reason that its author gave: accept examined nothing")
        return found
    with material(decision, kept, found) as given:
        if given is None:
            return found
        if facts is None:
            found.asserted.append(f"the series {decision.series}, which is not in patchstack.yaml or has no lock")
        elif check_source(decision, facts, found):
            check_builds(decision, facts, variants, given.builds, found)
        check_verdicts(given, found)
        check_brought(given, facts, found)
        check_comparisons(decision, kept, given.builds, found)
    return found


def _facts(workspace: Workspace, cache: Cache, wrong: list[str]) -> tuple[dict[str, SeriesFacts], list[str]]:
    """Return the facts about the series in the repository, by name."""
    found, notes = {}, []
    for config in workspace.series:
        try:
            lock = read_lock(config.patches) if has_patches(config.patches) else None
        except ConfigError as error:
            wrong.append(error.message)
            continue
        if lock is None:
            continue
        if not lock.base_commit.startswith(config.pin):
            wrong.append(f"{config.name}: its pin is {config.pin[:12]}, but its lock is for {lock.base_commit[:12]}")
        follow: bool | None = None
        try:
            with task(f"verifying {config.name}"):
                follow = prove_series(dataclasses.replace(config, expect="lock", fork=None, fork_ref=None), cache).holds
        except MissingError as error:
            notes.append(f"{config.name}: {error.message}")
        except PatchstackError as error:
            follow = False
            wrong.append(f"{config.name}: {error.message}")
        found[config.name] = SeriesFacts(lock=lock, patches=Path(config.patches), trees_follow=follow)
    return found, notes


def _replaced(decisions: Sequence[Decision], counts: Mapping[str, Decision]) -> dict[str, str]:
    """Return the ids of replaced decisions, each with the id of the decision that replaced it."""
    return {
        one.id: counts[one.commits[-1]].id
        for one in decisions
        if one.commits and one.commits[-1] in counts and counts[one.commits[-1]].id != one.id
    }


def _undecided(facts: Mapping[str, SeriesFacts], counts: Mapping[str, Decision]) -> tuple[str, ...]:
    """Return the patches whose current decision is not an acceptance, or that have no decision."""
    return tuple(
        f"{name}/{patch.file}"
        for name, one in facts.items()
        for patch in one.lock.patches
        if patch.commit not in counts or counts[patch.commit].outcome is not Outcome.ACCEPTED
    )


def _check_unnamed(decisions: Sequence[Decision], kept: Evidence, wrong: list[str]) -> tuple[str, ...]:
    """Check the records that no decision names, and return them."""
    named = {one.sha256 for one in named_records(decisions).values()}
    for decision in decisions:
        records = decision.evidence.get("records") if decision.format > 1 else None
        named |= {str(one) for one in records.values()} if isinstance(records, Mapping) else set()
    unnamed = tuple(digest for digest in kept.digests() if digest not in named)
    for digest in unnamed:
        try:
            kept.read(digest)
        except BadRecord as error:
            wrong.append(f"record {digest[:12]}, which no decision names, {error.message}")
    return unnamed


def _check_old(kept: Evidence, wrong: list[str]) -> int:
    keys = tuple(kept.old_keys())
    wrong += [f"record {key[:12]} of format 1 {problem}" for key in keys if (problem := kept.old_problem(key))]
    return len(keys)


def _size(directory: Path) -> int:
    return sum(path.lstat().st_size for path in directory.rglob("*") if path.is_file()) if directory.is_dir() else 0
