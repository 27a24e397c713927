"""`patchstack init`: a workspace from an existing fork or directory of patches."""

from __future__ import annotations

from pathlib import Path

import pytest

from patchstack.workspace import read_workspace
from tests.conftest import Patchstack
from tests.support.builders import Fork, a_fork, run_git


@pytest.fixture
def fork(tmp_path: Path) -> Fork:
    fork = a_fork(tmp_path, 3)
    fork.upstream.commit("Upstream moves on", {"README": "later\n"})
    fork.upstream.git("symbolic-ref", "HEAD", "refs/heads/main")
    return fork


def test_the_pin_is_the_merge_base_with_upstream(
    fork: Fork, patchstack: Patchstack, capsys: pytest.CaptureFixture[str]
) -> None:
    assert patchstack("init", "--fork", "fork", "--fork-ref", "product", "--upstream", "upstream") == 0
    told = capsys.readouterr()
    assert f"pin {fork.pin} (Add the kernel), from the merge base with upstream HEAD; 3 commits above it" in told.out
    assert told.err == "next: patchstack export product\n"
    (series,) = read_workspace(Path("patchstack.yaml")).series
    assert (series.name, series.pin, series.fork_ref) == ("product", fork.pin, "product")
    assert patchstack("export") == 0
    assert patchstack("verify") == 0


def test_without_an_upstream_the_fork_s_own_knowledge_of_it_serves(fork: Fork, patchstack: Patchstack) -> None:
    fork.repo.git("fetch", "-q", "origin")
    assert patchstack("init", "--fork", "fork", "--fork-ref", "product") == 0
    assert read_workspace(Path("patchstack.yaml")).series[0].pin == fork.pin


def test_a_fork_that_knows_no_upstream_needs_a_pin(
    fork: Fork, patchstack: Patchstack, capsys: pytest.CaptureFixture[str]
) -> None:
    fork.repo.git("remote", "remove", "origin")
    assert patchstack("init", "--fork", "fork", "--fork-ref", "product") == 2
    assert "hint: use --upstream REPO or --pin SHA" in capsys.readouterr().err
    assert not Path("patchstack.yaml").exists()
    assert patchstack("init", "--fork", "fork", "--fork-ref", "product", "--pin", fork.pin[:9]) == 0
    assert read_workspace(Path("patchstack.yaml")).series[0].pin == fork.pin


def test_histories_without_a_commit_in_common_are_told(
    fork: Fork, patchstack: Patchstack, capsys: pytest.CaptureFixture[str]
) -> None:
    run_git("init", "-q", "other", cwd=Path.cwd())
    run_git("commit", "-q", "--allow-empty", "-m", "x", cwd=Path("other"))
    assert patchstack("init", "--fork", "fork", "--fork-ref", "product", "--upstream", "other") == 3
    assert "no common ancestor" in capsys.readouterr().err


def test_a_directory_of_patches_becomes_a_series(
    fork: Fork, patchstack: Patchstack, capsys: pytest.CaptureFixture[str]
) -> None:
    assert patchstack("init", "--patches", "patches", "--upstream", "upstream", "--pin", fork.pin) == 0
    assert "3 patches" in capsys.readouterr().out
    assert patchstack("verify", "--apply-only") == 0


def test_comments_and_order_of_an_existing_workspace_stay(fork: Fork, patchstack: Patchstack) -> None:
    text = (
        "# top\nseries:\n  zeta:  # first\n    pin: " + fork.pin + "  # pinned\n    upstream: upstream\n"
        "    patches: patches # here\n\n# end\n"
    )
    Path("patchstack.yaml").write_text(text)
    assert patchstack("init", "--fork", "fork", "--fork-ref", "product", "--upstream", "upstream") == 0
    after = Path("patchstack.yaml").read_text()
    for comment in ("# top", "# first", "# pinned", "# here", "# end"):
        assert comment in after
    assert after.startswith("# top\nseries:\n  zeta:  # first\n    pin: ")
    assert [series.name for series in read_workspace(Path("patchstack.yaml")).series] == ["zeta", "product"]


def test_a_name_that_is_taken_is_refused_and_nothing_written(
    fork: Fork, patchstack: Patchstack, capsys: pytest.CaptureFixture[str]
) -> None:
    assert patchstack("init", "--fork", "fork", "--fork-ref", "product", "--upstream", "upstream") == 0
    before = Path("patchstack.yaml").read_bytes()
    assert patchstack("init", "--fork", "fork", "--fork-ref", "product", "--upstream", "upstream") == 2
    assert "already has a series product" in capsys.readouterr().err
    assert Path("patchstack.yaml").read_bytes() == before


@pytest.mark.parametrize(
    ("args", "told"),
    [
        ([], "neither --fork nor --patches was given"),
        (["--fork", "fork"], "--fork needs --fork-ref"),
        (["--patches", "patches"], "--patches needs --upstream and --pin"),
        (["--fork", "https://example.com/x.git", "--fork-ref", "x"], "init needs a fork on this machine"),
        (["--fork", "fork", "--fork-ref", "nosuch", "--upstream", "upstream"], "fork ref nosuch is not in fork"),
    ],
)
def test_wrong_usage_is_told(
    fork: Fork, patchstack: Patchstack, capsys: pytest.CaptureFixture[str], args: list[str], told: str
) -> None:
    assert patchstack("init", *args) in (2, 3)
    assert told in capsys.readouterr().err
    assert not Path("patchstack.yaml").exists()
