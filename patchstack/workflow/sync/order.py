"""Check and take the step of a sync that the command line requests."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from patchstack.causes import OptionConflict
from patchstack.workflow.sync import sync
from patchstack.workflow.sync.state import SyncState
from patchstack.workflow.sync.workspace import SyncWorkspace


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncOrder:
    """A request with at most one step.

    The step is `to` (for a new pin), `continue_`, `skip`, `drop`, `retry`, `edit`, `drop_landed`, `abort` or `accept`.
    If no step is set, the state is requested. The other fields are options of the step. If `to` is set, `edit` and
    `drop_landed` are options too. `drop`, `retry` and `edit` are patches, by number or by the start of a commit id.
    """

    to: str | None = None
    worktree: Path | None = None
    branch: str | None = None
    continue_: bool = False
    skip: bool = False
    drop: tuple[str, ...] = ()
    why: str | None = None
    retry: tuple[str, ...] = ()
    edit: tuple[str, ...] = ()
    command: tuple[str, ...] = ()
    drop_landed: bool = False
    unattended: bool = False
    discard: bool = False
    abort: bool = False
    accept: bool = False


def check_order(order: SyncOrder, *, gates: bool) -> None:
    """Raise `UsageError` for more than one step, and for options that do not belong to the step.

    `gates` is true if an engine or proofs were named.
    """
    begins = order.to is not None
    steps = {
        "--to": begins,
        "--continue": order.continue_,
        "--skip": order.skip,
        "--drop": bool(order.drop),
        "--retry": bool(order.retry),
        "--edit": bool(order.edit) and not begins,
        "--drop-landed": order.drop_landed and not begins,
        "--abort": order.abort,
        "--accept": order.accept,
    }
    given = [name for name, is_given in steps.items() if is_given]
    if len(given) > 1:
        raise OptionConflict(f"{' and '.join(given)} cannot be used together", hint="request one step at a time")
    if bool(order.drop) != (order.why is not None) or (order.why is not None and not order.why.strip()):
        raise OptionConflict("--drop and --why must be used together", hint="--drop N --why TEXT records the reason")
    if not begins and (order.worktree is not None or order.branch is not None):
        raise OptionConflict("--worktree and --branch require --to", hint="they cannot change during a sync")
    if gates and not (order.accept or order.continue_):
        raise OptionConflict(
            "--engine and --unproven require --accept or --continue", hint="they apply to the suite of the policy"
        )
    if (order.command or order.unattended) and not (begins or order.continue_):
        raise OptionConflict("--exec and --unattended require --to or --continue", hint="they set how a sync runs")
    if order.discard and not (order.skip or order.drop or order.retry or order.abort):
        raise OptionConflict(
            "--discard requires --skip, --drop, --retry or --abort", hint="it discards work made by hand"
        )


def take_step(work: SyncWorkspace, order: SyncOrder) -> SyncState | None:
    """Take the step, and return the state after it. Return None if the series already has the new pin.

    The caller takes the steps `abort` and `accept`.

    Raises the errors of the step.
    """
    if order.to is not None:
        manner = sync.Manner(
            edits=order.edit, command=order.command, drop_landed=order.drop_landed, unattended=order.unattended
        )
        return sync.begin(work, order.to, worktree=order.worktree, branch=order.branch, manner=manner)
    if order.continue_:
        return sync.go_on(work, command=order.command, unattended=order.unattended)
    if order.skip:
        return sync.skip(work, discard=order.discard)
    if order.drop and order.why is not None:
        return sync.drop(work, order.drop, order.why.strip(), discard=order.discard)
    if order.retry:
        return sync.retry(work, order.retry, discard=order.discard)
    if order.edit:
        return sync.edit(work, order.edit)
    return sync.drop_landed(work) if order.drop_landed else work.the_state()
