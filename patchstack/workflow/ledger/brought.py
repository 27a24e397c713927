"""Check the gates that came with the candidates of a decision.

Each must fail without the candidates and pass with them. The messages of the commits name these gates, and the lock
contains the messages. So a decision cannot omit a gate, or present an older gate as a new one.
"""

from __future__ import annotations

from patchstack.errors import PatchstackError
from patchstack.evidence.decided import BroughtGate, DecidedBrings, decided_brings
from patchstack.evidence.ledger import Decision, Outcome
from patchstack.series.brought import Brought, brought_by_commits
from patchstack.workflow.candidate.new_gates import judge_new_gate, outcome
from patchstack.workflow.ledger.finding import Findings
from patchstack.workflow.ledger.source import SeriesFacts
from patchstack.workflow.ledger.verdicts import PHASES, Material, check_step


def check_brought(given: Material, facts: SeriesFacts | None, found: Findings) -> None:
    """Compare the gates and switches of a decision with its commits. Derive the verdicts of the gates again."""
    decision = given.decision
    brings = decided_brings(decision.evidence)
    commits = _commits(decision, facts)
    if decision.outcome is Outcome.ACCEPTED and commits:
        _check_named(brings, commits, found)
    drawn = 0
    for gate in (brings or DecidedBrings()).gates:
        drawn += _check_gate(given, gate, found)
    if drawn:
        found.derived.append(f"{drawn} gates that came with it: FAIL without it, PASS with it, drawn again")
    known = {(which, one.path) for one in (brings or DecidedBrings()).gates for which in PHASES}
    found.wrong += [
        f"new gate {path} ({which}) is not a gate that the commits add"
        for which, path in given.new_steps
        if (which, path) not in known
    ]


def _commits(decision: Decision, facts: SeriesFacts | None) -> tuple[Brought, ...]:
    """Return the gates and switches that a decision's commits add, read from the commit messages.

    The result is empty if the lock lacks one of these commits or an earlier commit.
    """
    patches = facts.lock.patches if facts is not None else ()
    places = [place for place, patch in enumerate(patches) if patch.commit in decision.commits]
    held = [(patch.commit, patch.object) for patch in patches[: max(places, default=-1) + 1]]
    if len(places) < len(decision.commits) or not all(data for _, data in held):
        return ()
    return tuple(one for one in brought_by_commits(held) if one.commit in decision.commits)


def _check_named(brings: DecidedBrings | None, commits: tuple[Brought, ...], found: Findings) -> None:
    told = brings or DecidedBrings()
    named = {(one.commit, name) for one in commits for name in one.gates}
    said = {(one.commit, one.named) for one in told.gates}
    found.wrong += [f"gate {name} came with {commit[:12]}, and has no result" for commit, name in sorted(named - said)]
    found.wrong += [f"gate {name} did not come with {commit[:12]}" for commit, name in sorted(said - named)]
    found.wrong += [
        f"gate {one.named} came with {one.commit[:12]}, but {one.path} is a different one"
        for one in told.gates
        if one.named not in (one.gate, one.path)
    ]
    unproven = {one.commit: one.switches for one in told.unproven}
    for one in commits:
        what = f"{', '.join(one.switches)} of {one.commit[:12]}"
        if one.unproven and unproven.get(one.commit) == one.unproven and told.reason.strip():
            found.asserted.append(f"switch {what}: that it does something; no gate shows it: {told.reason}")
        elif one.unproven and brings is None:
            found.asserted.append(f"switch {what}: that it does something; neither a gate nor a reason is recorded")
        elif one.unproven:
            found.wrong.append(f"switch {what} has neither a gate that shows it nor a reason to have none")


def _check_gate(given: Material, one: BroughtGate, found: Findings) -> bool:
    """Derive the verdicts of a gate again, for both builds."""
    gate = given.gate(one.suite, one.gate)
    if gate is None:
        found.wrong.append(f"new gate {one.path} is not in the suites that the decision carries")
        return False
    fits = []
    for which in PHASES:
        what = f"new gate {one.path} ({which})"
        step = given.new_steps.get((which, one.path))
        if step is None or which not in given.builds:
            if given.decision.outcome is Outcome.ACCEPTED:
                found.wrong.append(f"{what} has no verdict")
            fits.append(False)
            continue
        try:
            judgement = judge_new_gate(gate, given.replay(which, step), which)
        except PatchstackError as error:
            found.wrong.append(f"{what}: {error.message}")
            fits.append(False)
            continue
        verdict, reason = outcome(which, judgement)
        fits.append(check_step(given, gate, step, judgement, (str(verdict), reason), what, found))
        if str(judgement.verdict) != step.get("gave"):
            found.wrong.append(f"{what}: the outputs give {judgement.verdict}, not {step.get('gave')}")
            fits.append(False)
    return all(fits)
