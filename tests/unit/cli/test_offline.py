"""Without a network: fetched objects are used again, and errors about missing ones say what to do. A clone of the fork
is the upstream only on request."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conftest import Places, RunCli
from tests.support.builders import Fork, a_fork, run_git

LINT, APPLY, CANARY = ("lint",), ("verify", "--apply-only"), ("canary",)
CLONE = "use the local clone as upstream for this command: --upstream ./fork"


@pytest.fixture
def fork(tmp_path: Path) -> Fork:
    """Return a workspace whose upstream is a URL and whose fork is a local clone."""
    found = a_fork(tmp_path)
    workspace(found, f"file://{found.upstream.path}")
    return found


def workspace(fork: Fork, upstream: str) -> None:
    (fork.series.parent / "patchstack.yaml").write_text(
        f"series:\n  product:\n    patches: patches\n    upstream: {upstream}\n    pin: {fork.pin}\n"
        f"    fork: fork\n    fork_ref: {fork.ref}\n"
    )


def cut_off(fork: Fork) -> None:
    """Make upstream's URL stop answering."""
    fork.upstream.path.rename(fork.upstream.path.with_name("gone"))


@pytest.mark.parametrize("command", [LINT, APPLY])
def test_a_second_run_needs_no_network(fork: Fork, run_cli: RunCli, command: tuple[str, ...]) -> None:
    first = run_cli(*command)
    assert first.code == 0
    cut_off(fork)
    second = run_cli(*command, "-v")
    assert (second.code, second.stdout) == (0, first.stdout)
    assert " fetch " not in second.stderr
    assert "run: git" in second.stderr, "else nothing was seen"
    assert run_cli(*command, "--offline").stdout == first.stdout


@pytest.mark.parametrize(("first", "second"), [(LINT, APPLY), (APPLY, LINT)])
def test_what_one_command_fetched_serves_the_other(
    fork: Fork, run_cli: RunCli, first: tuple[str, ...], second: tuple[str, ...]
) -> None:
    assert run_cli(*first).code == 0
    cut_off(fork)
    assert run_cli(*second).code == 0


@pytest.mark.parametrize("command", [LINT, APPLY, ("verify",)])
def test_a_pin_that_never_came_names_the_clone_that_is_here(
    fork: Fork, run_cli: RunCli, command: tuple[str, ...]
) -> None:
    cut_off(fork)
    ran = run_cli(*command)
    url = f"file://{fork.upstream.path}"
    assert (ran.code, ran.stdout) == (3, "")
    assert ran.stderr.startswith(f"error: pin {fork.pin} could not be fetched from {url}: ")
    assert ran.stderr.endswith(f"\n\nhint: check the URL, the name and the network; or {CLONE}\n")
    offline = run_cli(*command, "--offline")
    assert (offline.code, offline.stdout) == (3, "")
    assert offline.stderr == (
        f"error: pin {fork.pin} of {url} is not in the cache\n\nhint: run once without --offline; or {CLONE}\n"
    )


@pytest.mark.parametrize("command", [LINT, APPLY, CANARY])
def test_the_clone_serves_if_it_is_named_and_that_is_said(
    fork: Fork, run_cli: RunCli, places: Places, command: tuple[str, ...]
) -> None:
    cut_off(fork)
    ran = run_cli(*command, "--upstream", "fork")
    assert ran.code == 0
    assert ran.stderr == f"note: product: upstream is fork for this command, not file://{fork.upstream.path}\n"
    assert not places.cache.exists(), "nothing was fetched"


def test_canary_looks_at_what_was_fetched_last_if_it_is_asked_to(fork: Fork, run_cli: RunCli) -> None:
    cold = run_cli(*CANARY)
    assert cold.code == 0
    cut_off(fork)
    ran = run_cli(*CANARY)
    assert (ran.code, ran.stdout) == (3, "")
    assert ran.stderr.endswith(
        f"\n\nhint: check the URL, the name and the network; or use what was fetched last: --offline; or {CLONE}\n"
    )
    assert run_cli(*CANARY, "--offline").code == 0


def test_a_fork_without_a_clone_here_is_not_named(fork: Fork, run_cli: RunCli) -> None:
    cut_off(fork)
    fork.repo.path.rename(fork.repo.path.with_name("elsewhere"))
    ran = run_cli(*LINT)
    assert ran.code == 3
    assert ran.stderr.endswith("\n\nhint: check the URL, the name and the network\n")


def test_a_fork_that_has_the_pin_does_not_serve_unasked(fork: Fork, run_cli: RunCli) -> None:
    run_git("cat-file", "-e", f"{fork.pin}^{{tree}}", cwd=fork.repo.path)
    cut_off(fork)
    assert run_cli("verify").code == 3


@pytest.mark.parametrize(
    "command", [LINT, APPLY, ("verify",), CANARY, ("status",), ("export",), ("checkout", "product", "there")]
)
def test_a_missing_upstream_is_missing_and_not_wrong_usage(
    fork: Fork, run_cli: RunCli, command: tuple[str, ...]
) -> None:
    workspace(fork, "upstream")
    cut_off(fork)
    ran = run_cli(*command)
    assert (ran.code, ran.stdout) == (3, "")
    assert ran.stderr == (
        "error: there is no upstream at ./upstream: no such file or directory\n\n"
        "hint: clone upstream there, or choose a different repository as upstream\n"
    )


@pytest.mark.parametrize("command", [LINT, APPLY, ("verify",), CANARY])
def test_a_missing_upstream_is_cloned_from_where_the_fork_knows_it(
    fork: Fork, run_cli: RunCli, command: tuple[str, ...]
) -> None:
    workspace(fork, "upstream")
    cut_off(fork)
    run_git("remote", "add", "upstream", "https://me:secret@example.org/x/llama.cpp", cwd=fork.repo.path)
    ran = run_cli(*command)
    assert ran.code == 3
    assert ran.stderr.endswith(
        "\n\nhint: run 'git clone https://example.org/x/llama.cpp ./upstream', "
        "or choose a different repository as upstream\n"
    )


def test_an_upstream_that_is_no_repository_is_wrong_usage_still(fork: Fork, run_cli: RunCli) -> None:
    workspace(fork, "patches")
    ran = run_cli(*LINT)
    assert (ran.code, ran.stderr) == (2, "error: ./patches is not a git repository\n")
