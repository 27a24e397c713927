"""`patchstack reject` and `patchstack ledger`: record, list, check and sign decisions."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from patchstack.causes import OptionConflict
from patchstack.cli.complete import complete_decision, complete_series
from patchstack.cli.failures import talk
from patchstack.cli.options import (
    EngineOption,
    OfflineOption,
    WorkspaceOption,
    one_series,
    open_cache,
    the_workspace,
    work_alone,
)
from patchstack.errors import Exit
from patchstack.report.streams import terminal

if TYPE_CHECKING:
    from patchstack.workspace import Workspace

RefArgument = Annotated[str, typer.Argument(metavar="REF", help="A commit of the fork, or a range A..B.")]
SeriesOption = Annotated[
    str | None,
    typer.Option(
        "--series", metavar="NAME", autocompletion=complete_series, help="The series [default: the only one]."
    ),
]


SignersOption = Annotated[
    str | None,
    typer.Option(
        "--signers",
        metavar="FILE|REF",
        help="The list of allowed signers: a file outside the tree, or a ref that has ledger/allowed_signers.",
    ),
]


def reject_command(
    ref: RefArgument,
    why: Annotated[str, typer.Option(metavar="TEXT", help="The reason for the rejection.")],
    tag: Annotated[
        list[str] | None, typer.Option(metavar="WORD", help="A word by which to find the decision. Repeatable.")
    ] = None,
    series: SeriesOption = None,
    json: Annotated[bool, typer.Option("--json", help="Print the decision.")] = False,
    offline: OfflineOption = False,
    workspace: WorkspaceOption = None,
) -> None:
    """Reject a candidate: write its diff and the reason to the ledger.

    The fork is not changed.
    """
    from patchstack.evidence.ledger import Ledger
    from patchstack.report.documents.decision import decision_document
    from patchstack.workflow.candidate.candidate import ledger_directory, open_candidates
    from patchstack.workflow.candidate.reject import reject

    work_alone(workspace, f"patchstack reject {ref}")
    found = the_workspace(workspace)
    way = open_candidates(one_series(found, [series] if series else ()), open_cache(offline=offline), ref)
    decision, path = reject(way, Ledger(ledger_directory(found.root)), why=why, tags=tuple(tag or ()))
    if json:
        print(decision_document(decision).line)
    else:
        print(f"rejected {', '.join(one.commit[:12] for one in decision.candidates)}: {path}")
    talk(f"next: drop the candidate from the fork, and commit {path}")


def ledger_command(
    words: Annotated[
        list[str] | None, typer.Argument(metavar="WORD", help="A word that the decision must contain.")
    ] = None,
    show: Annotated[
        str | None, typer.Option(metavar="ID", autocompletion=complete_decision, help="Print one decision in full.")
    ] = None,
    diff: Annotated[bool, typer.Option("--diff", help="With --show: also print the diff.")] = False,
    check: Annotated[
        bool,
        typer.Option("--check", help="Compute every verdict again from the repository alone, and check signatures."),
    ] = False,
    audit: Annotated[
        int | None,
        typer.Option(metavar="N", min=1, help="Repeat the observations of N random records on this machine."),
    ] = None,
    sign: Annotated[
        str | None,
        typer.Option(metavar="ID", autocompletion=complete_decision, help="Sign a decision with --key."),
    ] = None,
    key: Annotated[
        Path | None, typer.Option(metavar="FILE", help="With --sign: the private key (see ssh-keygen).")
    ] = None,
    engine: EngineOption = None,
    signers: SignersOption = None,
    require_signed: Annotated[
        bool, typer.Option("--require-signed", help="With --check: require a signed decision for each patch.")
    ] = False,
    json: Annotated[bool, typer.Option("--json", help="Print the decisions as documents, one per line.")] = False,
    details: Annotated[
        bool, typer.Option("--details", help="With --check: print every fact, not only counts.")
    ] = False,
    workspace: WorkspaceOption = None,
) -> None:
    """List accepted and rejected candidates with the reasons.

    If words are given, list only the decisions that contain all of them.
    """
    asked = [
        name for name, given in (("--show", show), ("--check", check), ("--audit", audit), ("--sign", sign)) if given
    ]
    if len(asked) > 1 or (asked and words):
        raise OptionConflict(f"{asked[0]} cannot be combined with {' '.join(asked[1:] or words or ())}")
    if (diff and show is None) or (key is not None and sign is None) or ((signers or require_signed) and not check):
        raise OptionConflict("--diff needs --show, --key needs --sign, and --signers and --require-signed need --check")
    if check:
        _check(the_workspace(workspace), signers, require_signed=require_signed, json=json, details=details)
    elif audit is not None:
        _audit(the_workspace(workspace), audit, engine)
    elif sign is not None:
        _sign(the_workspace(workspace), sign, key)
    elif show is not None:
        _show(the_workspace(workspace), show, diff=diff, json=json)
    else:
        _list(the_workspace(workspace), words or (), json=json)


def _check(workspace: Workspace, signers: str | None, *, require_signed: bool, json: bool, details: bool) -> None:
    from patchstack.report.documents.ledger_check import ledger_check_document
    from patchstack.report.ledger_check import print_check
    from patchstack.workflow.ledger.check import check_ledger
    from patchstack.workflow.ledger.signers import find_signers

    if require_signed and signers is None:
        raise OptionConflict(
            "--require-signed needs a list of allowed signers", hint="add --signers origin/main or --signers FILE"
        )
    listed = find_signers(signers, workspace.root) if signers is not None else None
    found = check_ledger(workspace, open_cache(offline=True), listed, require_signed=require_signed)
    if json:
        print(ledger_check_document(found).line)
    else:
        print_check(found, details=details)
    if not found.holds:
        raise typer.Exit(int(Exit.DOES_NOT_HOLD))


def _audit(workspace: Workspace, count: int, spec: str | None) -> None:
    import random

    from patchstack.cli.proving import connected
    from patchstack.evidence.ledger import Ledger
    from patchstack.evidence.store import Evidence
    from patchstack.report.ledger_check import audit_line, audit_summary
    from patchstack.workflow.ledger.audit import Agreement, audit
    from patchstack.workflow.ledger.audit_machine import audit_machine

    ledger, kept = Ledger(workspace.root / "ledger"), Evidence(workspace.root / "evidence")
    found = []
    with connected(spec, workspace) as connection:
        store, models, opened = audit_machine(workspace, connection)
        for one in audit(ledger.read(), kept, store, models, opened, count, random.SystemRandom()):
            found.append(one)
            print(audit_line(one))
    print(audit_summary(found))
    if any(one.agreement is Agreement.DIFFERS for one in found):
        raise typer.Exit(int(Exit.DOES_NOT_HOLD))
    if not any(one.agreement is Agreement.AGREES for one in found):
        raise typer.Exit(int(Exit.MISSING))


def _sign(workspace: Workspace, named: str, key: Path | None) -> None:
    from patchstack.evidence.ledger import Ledger
    from patchstack.evidence.signing import sign
    from patchstack.workflow.candidate.candidate import ledger_directory

    if key is None:
        raise OptionConflict("--sign needs --key", hint="for example: --key ~/.ssh/id_ed25519")
    ledger = Ledger(ledger_directory(workspace.root))
    path = sign(ledger.named(named), ledger.directory, key)
    print(path)
    talk(f"next: commit {path}")


def _show(workspace: Workspace, named: str, *, diff: bool, json: bool) -> None:
    from patchstack.evidence.ledger import Ledger
    from patchstack.report.documents.decision import decision_document
    from patchstack.report.ledger import decision_lines
    from patchstack.workflow.candidate.candidate import ledger_directory

    decision = Ledger(ledger_directory(workspace.root)).named(named)
    if json:
        print(decision_document(decision).line)
        return
    for line in decision_lines(decision, diff=diff):
        print(line)


def _list(workspace: Workspace, words: Sequence[str], *, json: bool) -> None:
    from patchstack.evidence.ledger import Ledger
    from patchstack.report.documents.decision import decision_document
    from patchstack.report.ledger import print_decisions
    from patchstack.workflow.candidate.candidate import ledger_directory

    found = [one for one in Ledger(ledger_directory(workspace.root)).read() if one.says(words)]
    if json:
        for one in found:
            print(decision_document(one).line)
    elif found:
        print_decisions(found)
        if terminal(sys.stdout):
            talk("hint: 'patchstack ledger --show ID' prints the whole reason of a decision")
    else:
        talk("no decisions yet" if not words else f"no decision is about {' '.join(words)}")
