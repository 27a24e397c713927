"""Read the inputs of the action, and the event, from the environment of a runner."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from patchstack.causes import CiInputRefused, InputUnreadable, OptionConflict

_OID = re.compile(r"[0-9a-f]{40}\Z")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*\Z")
_OURS_ALONE = ("GITHUB_OUTPUT", "GITHUB_ENV", "GITHUB_PATH", "GITHUB_STATE", "GITHUB_STEP_SUMMARY", "GITHUB_TOKEN")
_OURS_PREFIXES = ("ACTIONS_", "INPUT_", "GH_", "PATCHSTACK_CI_")


class Command(StrEnum):
    """The command that the action runs."""

    VERIFY = "verify"
    LINT = "lint"
    CANARY = "canary"
    BUILD = "build"
    GATE = "gate"


@dataclass(frozen=True, slots=True, kw_only=True)
class Inputs:
    """The inputs of the action.

    `workspace` is the path of `patchstack.yaml`, relative to the root of the repository. `expect` is `fork`, `lock` or
    empty. `upstream_commit` is the commit for canary and build, and is empty for the default commit. `policy_from` is a
    commit or a file. If it is empty, the event determines the source of the policy.
    """

    command: Command
    workspace: str
    series: str
    arch: str
    args: tuple[str, ...]
    expect: str
    upstream_commit: str
    policy_from: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """The event of the workflow.

    `base` is the commit into which a pull request will be merged. It is empty for other events.
    """

    name: str
    ref: str
    default_branch: str
    base: str

    @property
    def pull_request(self) -> bool:
        return self.name.startswith("pull_request")

    @property
    def on_default_branch(self) -> bool:
        return bool(self.default_branch) and self.ref == f"refs/heads/{self.default_branch}"


def read_inputs(environment: Mapping[str, str]) -> Inputs:
    """Return the inputs from the variables that the action sets. Raises `UsageError` for invalid values."""

    def text(name: str, default: str = "") -> str:
        return environment.get(f"PATCHSTACK_CI_{name}", "").strip() or default

    command, commit, expect, series = text("COMMAND", "verify"), text("UPSTREAM_COMMIT"), text("EXPECT"), text("SERIES")
    if command not in list(Command):
        raise CiInputRefused(f"command {command!r} is not one of {', '.join(Command)}")
    if commit and not _OID.match(commit):
        raise CiInputRefused(f"upstream-commit {commit!r} is not a full commit id of 40 hexadecimal digits")
    if expect not in ("", "fork", "lock"):
        raise CiInputRefused(f"expect {expect!r} is neither fork nor lock")
    if series and not _NAME.match(series):
        raise CiInputRefused(f"series {series!r} is not the name of a series")
    workspace = text("WORKSPACE", "patchstack.yaml")
    if Path(workspace).is_absolute() or ".." in Path(workspace).parts:
        raise CiInputRefused(f"workspace {workspace!r} is not below the repository's root")
    try:
        args = tuple(shlex.split(text("ARGS")))
    except ValueError as error:
        raise CiInputRefused(f"args cannot be parsed: {error}", hint="quote words as in a shell") from error
    return Inputs(
        command=Command(command),
        workspace=workspace,
        series=series,
        arch=text("ARCH"),
        args=args,
        expect=expect,
        upstream_commit=commit,
        policy_from=text("POLICY_FROM"),
    )


def read_event(environment: Mapping[str, str]) -> Event:
    """Return the event of the runner. Raises `UsageError` if the event file cannot be read."""
    payload: Any = {}
    if path := environment.get("GITHUB_EVENT_PATH"):
        try:
            payload = json.loads(Path(path).read_text("utf-8"))
        except (OSError, ValueError) as error:
            raise InputUnreadable(f"GITHUB_EVENT_PATH {path} cannot be read: {error}") from error
    branch = _inside(payload, "repository", "default_branch")
    base = _inside(payload, "pull_request", "base", "sha")
    return Event(
        name=environment.get("GITHUB_EVENT_NAME", ""),
        ref=environment.get("GITHUB_REF", ""),
        default_branch=branch,
        base=base if _OID.match(base) else "",
    )


def arguments(inputs: Inputs, report: Path, *, policy: str = "", by_hand: tuple[str, ...] = ()) -> tuple[str, ...]:
    """Return the command line of patchstack for the inputs.

    `policy` is the source of the policy. If it is empty, the policy of the checkout is used. If the series is built on
    a different commit than its pin, `by_hand` contains the options that describe the series. Raises `UsageError` for
    inputs that cannot be combined.
    """
    if inputs.arch and inputs.command is not Command.BUILD:
        raise OptionConflict("the input arch can only be used with the command build")
    if inputs.expect and inputs.command is not Command.VERIFY:
        raise OptionConflict("the input expect can only be used with the command verify")
    if inputs.upstream_commit and inputs.command not in (Command.CANARY, Command.BUILD):
        raise OptionConflict("the input upstream-commit can only be used with the commands canary and build")
    if inputs.series and inputs.command is Command.GATE:
        raise CiInputRefused(
            "the input series cannot be used with the command gate", hint="name a suite in args: --suite NAME"
        )
    words = [inputs.command.value]
    if inputs.command is Command.GATE:
        words += ["run", "--report", str(report / "gates")]
    if by_hand:
        words += by_hand
    else:
        words += [inputs.series] if inputs.series else []
        words += ["--workspace", inputs.workspace]
    words += ["--policy-from", policy] if policy and inputs.command is not Command.CANARY else []
    words += ["--json"]
    words += ["--arch", inputs.arch] if inputs.arch else []
    words += ["--expect", inputs.expect] if inputs.expect else []
    words += ["--to", inputs.upstream_commit] if inputs.upstream_commit and inputs.command is Command.CANARY else []
    return (*words, *inputs.args)


def handed_on(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the environment for the command.

    Variables with which a program could communicate with the runner, or act as the job, are removed.
    """
    return {
        name: value
        for name, value in environment.items()
        if name not in _OURS_ALONE and not name.startswith(_OURS_PREFIXES)
    }


def _inside(payload: Any, *names: str) -> str:
    for name in names:
        payload = payload.get(name) if isinstance(payload, dict) else None
    return payload if isinstance(payload, str) else ""
