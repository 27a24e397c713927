"""The data from a runner: inputs, events, and which runs may write a cache."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from patchstack.cli.ci.cached import cache_inputs, cache_plan
from patchstack.cli.ci.inputs import Command, Event, Inputs, arguments, handed_on, read_event, read_inputs
from patchstack.errors import UsageError


def inputs(**given: str) -> Inputs:
    return read_inputs({f"PATCHSTACK_CI_{name.upper()}": value for name, value in given.items()})


def test_nothing_given_is_verify() -> None:
    assert inputs() == Inputs(
        command=Command.VERIFY, workspace="patchstack.yaml", series="", arch="", args=(), expect="", upstream_commit=""
    )


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (
            {"command": "verify", "series": "paged", "expect": "fork"},
            "verify paged --workspace patchstack.yaml --json --expect fork",
        ),
        ({"command": "lint"}, "lint --workspace patchstack.yaml --json"),
        (
            {"command": "canary", "args": "--blame --strict"},
            "canary --workspace patchstack.yaml --json --blame --strict",
        ),
        (
            {"command": "canary", "upstream_commit": "a" * 40},
            f"canary --workspace patchstack.yaml --json --to {'a' * 40}",
        ),
        (
            {"command": "build", "arch": "121", "args": "--jobs 2"},
            "build --workspace patchstack.yaml --json --arch 121 --jobs 2",
        ),
        (
            {"command": "gate", "args": "--suite quick"},
            "gate run --report r/gates --workspace patchstack.yaml --json --suite quick",
        ),
    ],
)
def test_a_command_line_for_every_command(given: dict[str, str], words: str) -> None:
    assert " ".join(arguments(inputs(**given), Path("r"))) == words


def test_words_are_taken_apart_and_never_run() -> None:
    assert inputs(args="--define 'A=$(id) `id` ;x' --b").args == ("--define", "A=$(id) `id` ;x", "--b")


@pytest.mark.parametrize(
    "given",
    [
        {"command": "lint", "expect": "fork"},
        {"command": "verify", "upstream_commit": "a" * 40},
        {"command": "gate", "series": "x"},
        {"command": "canary", "arch": "121"},
    ],
)
def test_inputs_that_do_not_go_together_are_refused(given: dict[str, str]) -> None:
    with pytest.raises(UsageError):
        arguments(inputs(**given), Path("r"))


@pytest.mark.parametrize("workspace", ["/etc/patchstack.yaml", "../patchstack.yaml", "a/../../b.yaml"])
def test_a_workspace_outside_of_the_repository_is_refused(workspace: str) -> None:
    with pytest.raises(UsageError, match="is not below the repository's root"):
        inputs(workspace=workspace)


def test_an_event_is_read_as_far_as_it_goes(tmp_path: Path) -> None:
    path = tmp_path / "event.json"
    base = "b" * 40
    path.write_text(json.dumps({"repository": {"default_branch": "trunk"}, "pull_request": {"base": {"sha": base}}}))
    event = read_event(
        {"GITHUB_EVENT_PATH": str(path), "GITHUB_EVENT_NAME": "pull_request", "GITHUB_REF": "refs/pull/1/merge"}
    )
    assert event == Event(name="pull_request", ref="refs/pull/1/merge", default_branch="trunk", base=base)
    assert event.pull_request and not event.on_default_branch
    for odd in ("[]", '{"repository": 7, "pull_request": {"base": {"sha": "--output=x"}}}', "null"):
        path.write_text(odd)
        assert read_event({"GITHUB_EVENT_PATH": str(path)}) == Event(name="", ref="", default_branch="", base="")
    path.write_text("{")
    with pytest.raises(UsageError, match="cannot be read"):
        read_event({"GITHUB_EVENT_PATH": str(path)})


def test_what_talks_to_the_runner_or_as_the_job_is_not_handed_on() -> None:
    ours = ["GITHUB_OUTPUT", "GITHUB_ENV", "GITHUB_PATH", "GITHUB_STATE", "GITHUB_STEP_SUMMARY", "GITHUB_TOKEN"]
    ours += ["GH_TOKEN", "ACTIONS_RUNTIME_TOKEN", "ACTIONS_ID_TOKEN_REQUEST_TOKEN", "INPUT_ARGS", "PATCHSTACK_CI_ARGS"]
    kept = {"PATH": "/bin", "HOME": "/", "PATCHSTACK_CACHE": "c", "DOCKER_HOST": "d", "GITHUB_SHA": "s"}
    assert handed_on({**kept, **dict.fromkeys(ours, "x")}) == kept


def event(name: str, ref: str) -> Event:
    return Event(name=name, ref=ref, default_branch="main", base="")


@pytest.mark.parametrize(
    ("name", "ref", "command", "reads", "writes"),
    [
        ("push", "refs/heads/main", Command.VERIFY, True, True),
        ("schedule", "refs/heads/main", Command.CANARY, True, True),
        ("push", "refs/heads/other", Command.VERIFY, True, False),
        ("push", "refs/heads/pull-request/7", Command.VERIFY, True, False),
        ("pull_request", "refs/pull/7/merge", Command.VERIFY, True, False),
        ("pull_request", "refs/heads/main", Command.VERIFY, True, False),
        ("pull_request_target", "refs/heads/main", Command.VERIFY, True, False),
        ("issue_comment", "refs/heads/main", Command.VERIFY, True, False),
        ("workflow_run", "refs/heads/main", Command.VERIFY, True, False),
        ("push", "refs/tags/v1", Command.VERIFY, False, False),
        ("push", "refs/heads/main", Command.BUILD, False, False),
        ("push", "refs/heads/main", Command.GATE, False, False),
    ],
)
def test_only_the_default_branch_writes_and_a_release_does_not_even_read(
    name: str, ref: str, command: Command, reads: bool, writes: bool
) -> None:
    plan = cache_plan(command, event(name, ref), wanted=True, content=[b"x"], platform="Linux-X64")
    assert (plan.read, plan.write) == (reads, writes)
    off = cache_plan(command, event(name, ref), wanted=False, content=[b"x"], platform="Linux-X64")
    assert (off.read, off.write) == (False, False)


def test_without_a_default_branch_nobody_writes() -> None:
    nobody = Event(name="push", ref="refs/heads/", default_branch="", base="")
    assert not cache_plan(Command.VERIFY, nobody, wanted=True, content=[], platform="x").write


def test_the_key_is_of_workspace_and_patches(tmp_path: Path) -> None:
    def key() -> str:
        content = cache_inputs(tmp_path / "patchstack.yaml", {"a": tmp_path})
        return cache_plan(
            Command.VERIFY, event("push", "refs/heads/main"), wanted=True, content=content, platform="x"
        ).key

    keys = [key()]
    (tmp_path / "patchstack.yaml").write_text("x")
    keys.append(key())
    (tmp_path / "0001-a.patch").write_text("x")
    keys.append(key())
    (tmp_path / "0001-a.patch").write_text("y")
    keys.append(key())
    assert len(set(keys)) == 4
    assert key() == keys[-1]
