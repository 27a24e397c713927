"""An upstream that moves on from the pin, and canary's results for the series."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.conftest import Ran, RunCli
from tests.support.builders import (
    Changes,
    Fork,
    RepoBuilder,
    a_fork,
    an_upstream,
    format_patch,
    numbered,
    run_git,
    the_oracle,
)

Steps = tuple[tuple[str, Changes], ...]


def moved(directory: Path, steps: Steps | None, *upstream: tuple[str, Changes], files: Changes | None = None) -> Fork:
    """Return a fork of some steps (None: three changes of a kernel), and an upstream with commits after the pin.

    `files` are upstream's at the pin, instead of the builders'."""
    fork = a_fork(directory, 3, steps) if files is None else _fork_of(directory, files, steps or ())
    for subject, changes in upstream:
        fork.upstream.commit(subject, changes)
    return fork


def _fork_of(directory: Path, files: Changes, steps: Steps) -> Fork:
    upstream, pin = an_upstream(directory, files)
    run_git("clone", "-q", "--template=", "--no-checkout", upstream.path, directory / "fork", cwd=directory)
    fork = Fork(
        upstream=upstream,
        pin=pin,
        repo=RepoBuilder(directory / "fork"),
        ref="product",
        commits=[],
        series=directory / "patches",
    )
    fork.repo.branch("product", pin)
    fork.commits = [fork.repo.commit(subject, changes) for subject, changes in steps]
    fork.patches = format_patch(fork.repo, pin, fork.ref, fork.series)
    return fork


def kernel(**changed: str) -> Changes:
    """Return the builders' kernel with some lines changed: `kernel(l10="x")`."""
    return {"src/kernel.cu": numbered(300, {int(name[1:]): text for name, text in changed.items()})}


def look(fork: Fork, run_cli: RunCli, *options: str) -> dict[str, Any]:
    """Return the document of a canary run on upstream's main."""
    ran = asked(fork, run_cli, *options, "--json")
    assert ran.code in (0, 1), ran
    found: dict[str, Any] = ran.document
    assert ran.code == (0 if found["applies"] else 1)
    return found


def asked(fork: Fork, run_cli: RunCli, *options: str) -> Ran:
    """Return a canary run on upstream's main."""
    to = () if "--to" in options else ("--to", "main")
    return run_cli("canary", *fork.sources, *to, *options)


def states(document: dict[str, Any]) -> list[str]:
    return [patch["state"] for patch in document["patches"]]


def told_by_git(fork: Fork, directory: Path) -> list[tuple[str, list[str]]]:
    """Return the pin and every commit after it, with the patches that fail there in a chain of strict applies."""
    oracle = the_oracle(directory / "oracle", fork.upstream, fork.repo)
    listed = fork.upstream.git("rev-list", "--reverse", "--first-parent", f"{fork.pin}..main").split()
    found = []
    for commit in (fork.pin, *listed):
        tree, failed = fork.upstream.tree(commit), []
        for path in sorted(fork.series.iterdir()):
            after = oracle.apply(tree, path.read_bytes())
            if after is None:
                failed.append(path.name)
            tree = after or tree
        found.append((commit, failed))
    return found
