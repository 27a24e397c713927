"""Every kind of repository: bare, shallow, linked worktrees, mirrors, other formats, and URLs."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conftest import Places, RunCli
from tests.support.builders import Changes, Fork, RepoBuilder, a_fork, numbered, run_git, symlink


@pytest.fixture
def fork(tmp_path: Path) -> Fork:
    return a_fork(tmp_path, 3)


def from_there(fork: Fork, upstream: Path | str, repository: Path | str | None = None) -> list[str]:
    """Return the options of `fork`, with other repositories."""
    named = ["--patches", str(fork.series), "--upstream", str(upstream), "--pin", fork.pin]
    return [*named, "--fork", str(repository or fork.repo.path), "--fork-ref", fork.ref]


def clone(fork: Fork, name: str, *options: str, of: RepoBuilder | None = None) -> Path:
    source = of or fork.repo
    target = fork.series.parent / name
    run_git(
        "clone",
        "-q",
        "--template=",
        "--no-checkout",
        "-b",
        source.on,
        *options,
        f"file://{source.path}",
        target,
        cwd=fork.series.parent,
    )
    return target


def test_nothing_is_fetched_and_no_cache_made_for_repositories_on_this_machine(
    fork: Fork, run_cli: RunCli, places: Places
) -> None:
    assert run_cli("verify", *fork.options).code == 0
    assert not places.cache.exists()


def test_bare_repositories_serve(fork: Fork, run_cli: RunCli) -> None:
    bare = clone(fork, "bare.git", "--bare")
    assert run_cli("verify", *from_there(fork, bare, bare)).code == 0


def test_the_git_directory_itself_serves(fork: Fork, run_cli: RunCli) -> None:
    assert run_cli("verify", *from_there(fork, fork.upstream.path / ".git", fork.repo.path / ".git")).code == 0


def test_a_linked_worktree_serves_and_its_head_is_its_own(fork: Fork, run_cli: RunCli) -> None:
    linked = fork.series.parent / "linked"
    fork.repo.git("worktree", "add", "-q", "--detach", "--no-checkout", linked, fork.commits[-1])
    options = [*fork.sources, "--fork", str(linked), "--fork-ref", "HEAD"]
    assert run_cli("verify", *options).code == 0
    fork.repo.commit("Moves on", {"README": "on\n"})
    assert run_cli("verify", *options).code == 0
    assert run_cli("verify", *fork.options).code == 1


def test_packed_objects_and_packed_refs_serve(fork: Fork, run_cli: RunCli) -> None:
    for repo in (fork.repo, fork.upstream):
        repo.git("gc", "-q")
    assert run_cli("verify", *fork.options).code == 0


def test_a_repository_that_borrows_objects_from_another_serves(fork: Fork, run_cli: RunCli) -> None:
    borrower = fork.series.parent / "borrower"
    run_git(
        "clone",
        "-q",
        "--template=",
        "--shared",
        "--no-checkout",
        "-b",
        "product",
        fork.repo.path,
        borrower,
        cwd=fork.series.parent,
    )
    assert run_cli("verify", *from_there(fork, borrower, borrower)).code == 0


def test_a_mirror_without_a_configuration_file_serves(fork: Fork, run_cli: RunCli) -> None:
    mirror = clone(fork, "mirror.git", "--mirror")
    (mirror / "config").unlink()
    ran = run_cli("verify", *from_there(fork, mirror, mirror))
    assert (ran.code, ran.stderr) == (0, "")


def test_a_shallow_fork_that_reaches_the_pin_serves(fork: Fork, run_cli: RunCli) -> None:
    shallow = clone(fork, "shallow", "--depth=4")
    assert run_cli("verify", *from_there(fork, fork.upstream.path, shallow)).code == 0
    assert run_cli("verify", *from_there(fork, shallow, shallow)).code == 0


def test_a_shallow_fork_that_ends_before_the_pin_is_told_how_to_deepen(fork: Fork, run_cli: RunCli) -> None:
    shallow = clone(fork, "shallow", "--depth=2")
    ran = run_cli("verify", *from_there(fork, fork.upstream.path, shallow))
    assert (ran.code, ran.stdout) == (3, "")
    assert ran.stderr == (
        f"error: {shallow} is shallow: its history does not reach the pin {fork.pin[:12]}\n\n"
        f"hint: run 'git -C {shallow} fetch --deepen=1000'\n"
    )


def test_a_shallow_upstream_without_the_pin_is_told_so(fork: Fork, run_cli: RunCli) -> None:
    shallow = clone(fork, "shallow", "--depth=2")
    ran = run_cli("verify", *from_there(fork, shallow, shallow))
    assert (ran.code, ran.stdout) == (3, "")
    assert ran.stderr.startswith(
        f"error: pin {fork.pin} is not in {shallow}\n\n"
        f"hint: the clone is shallow: run 'git -C {shallow} fetch --unshallow', or"
    )


def test_a_sha256_repository_is_refused_in_clear_words(fork: Fork, run_cli: RunCli) -> None:
    other = fork.series.parent / "sha256"
    run_git("init", "-q", "--object-format=sha256", other, cwd=fork.series.parent)
    ran = run_cli("verify", *from_there(fork, other))
    assert (ran.code, ran.stdout) == (2, "")
    assert ran.stderr == (
        f"error: {other} is a sha256 repository\n\n"
        "hint: patchstack reads only SHA-1 repositories, because its pins and trees are SHA-1 ids\n"
    )


def test_a_repository_with_reftable_refs_serves(fork: Fork, run_cli: RunCli) -> None:
    table = fork.series.parent / "table"
    if run_git("init", "-q", "--ref-format=reftable", table, cwd=fork.series.parent, check=False).returncode != 0:
        pytest.skip("the git here does not know --ref-format=reftable")
    run_git("fetch", "-q", f"file://{fork.repo.path}", "product:product", cwd=table)
    assert run_cli("verify", *from_there(fork, table, table)).code == 0


@pytest.mark.parametrize("kind", ["absent", "empty directory", "file", "inside"])
def test_what_is_no_repository_is_named(fork: Fork, run_cli: RunCli, kind: str) -> None:
    place = fork.series.parent / "place"
    if kind == "empty directory":
        place.mkdir()
    elif kind == "file":
        place.write_text("text")
    elif kind == "inside":
        place = fork.upstream.path / "src"
        place.mkdir()
    ran = run_cli("verify", *from_there(fork, place))
    words = {"absent": "no such file or directory", "file": "Not a directory"}
    assert (ran.code, ran.stdout) == (3 if kind == "absent" else 2, "")
    assert ran.stderr.startswith("error: ")
    assert str(place) in ran.stderr
    assert words.get(kind, "is not a git repository") in ran.stderr


@pytest.mark.parametrize("name", ["new\nline", "co:lon", "\\back", '"quoted"', "#hash", " blank "])
def test_a_path_with_odd_characters_serves_and_git_itself_gets_to_its_objects(
    tmp_path: Path, run_cli: RunCli, name: str
) -> None:
    directory = tmp_path / name
    directory.mkdir()
    steps: list[tuple[str, Changes]] = [
        ("Text", {"a": "x\n"}),
        ("Link", {"link": symlink("a")}),
        ("More", {"b": "y\n"}),
    ]
    fork = a_fork(directory, steps=steps)
    assert run_cli("verify", *fork.options).code == 0
    bare = clone(fork, f"bare {name}", "--bare")
    assert run_cli("verify", *from_there(fork, bare, bare)).code == 0


@pytest.mark.parametrize("inside", ["docs", ".git/refs", "docs/.git"])
def test_a_directory_inside_a_repository_is_none_also_below_a_path_with_a_colon(
    tmp_path: Path, run_cli: RunCli, inside: str
) -> None:
    directory = tmp_path / "co:lon"
    directory.mkdir()
    fork = a_fork(directory)
    below = fork.upstream.path / inside
    below.mkdir(parents=True, exist_ok=True)
    ran = run_cli("verify", *from_there(fork, below))
    assert ran.code == 2
    assert f"error: {below} is not a git repository" in ran.stderr


def test_hooks_and_leaking_git_variables_do_not_reach_the_answer(
    fork: Fork, run_cli: RunCli, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in {
        "GIT_DIR": "/nonexistent",
        "GIT_WORK_TREE": "/nonexistent",
        "GIT_INDEX_FILE": "/nonexistent/index",
        "GIT_OBJECT_DIRECTORY": "/nonexistent/objects",
        "GIT_CEILING_DIRECTORIES": "/",
        "GIT_REPLACE_REF_BASE": "refs/evil/",
        "GIT_TRACE": "1",
    }.items():
        monkeypatch.setenv(name, value)
    ran = run_cli("verify", *fork.options)
    assert (ran.code, ran.stderr) == (0, "")


def test_a_users_git_configuration_does_not_change_the_answer(fork: Fork, run_cli: RunCli, places: Places) -> None:
    steps = {"src/other.cpp": numbered(40, {3: "trailing blanks   "})}
    fork.commits.append(fork.repo.commit("Change 4", steps))
    fork.commits.append(fork.repo.commit("A link", {"docs/link": "text"}))
    fork.export()
    (places.home / ".gitattributes").write_text("* text eol=crlf filter=evil\n")
    (places.home / ".gitconfig").write_text(
        "[apply]\n\twhitespace = fix\n\tignoreWhitespace = change\n[core]\n\tautocrlf = true\n"
        f"\tattributesFile = {places.home}/.gitattributes\n\tabbrev = 5\n[diff]\n\tnoprefix = true\n"
        "[log]\n\tshowSignature = true\n"
    )
    ran = run_cli("verify", *fork.options, "--json")
    assert ran.code == 0
    assert [patch["tree"] for patch in ran.document["patches"]] == fork.trees


def test_replaced_objects_are_not_followed(fork: Fork, run_cli: RunCli) -> None:
    tree = fork.trees[-1]
    fork.repo.git("replace", fork.commits[-1], fork.commits[0])
    assert fork.repo.git("rev-parse", f"{fork.commits[-1]}^{{tree}}") != tree, "git itself follows them"
    ran = run_cli("verify", *fork.options, "--json")
    assert (ran.code, ran.document["expected_tree"]) == (0, tree)


def test_the_part_that_git_itself_does_leaves_even_the_times_of_objects_alone(fork: Fork, run_cli: RunCli) -> None:
    """git updates the time of an object that it would write and finds in an alternate. A user's store must not change
    so."""
    fork.commits.append(fork.repo.commit("Binary", {"table.bin": b"\0\1\2\3" * 9}))
    fork.export()
    assert run_cli("verify", *fork.options).code == 0


def test_the_part_that_git_itself_does_leaves_even_the_times_of_packs_alone(fork: Fork, run_cli: RunCli) -> None:
    fork.commits.append(fork.repo.commit("Binary", {"table.bin": b"\0\1\2\3" * 9}))
    fork.export()
    fork.repo.git("gc", "-q")
    assert run_cli("verify", *fork.options).code == 0


def test_an_upstream_and_a_fork_by_url_are_fetched_into_the_cache(fork: Fork, run_cli: RunCli, places: Places) -> None:
    urls = from_there(fork, f"file://{fork.upstream.path}", f"file://{fork.repo.path}")
    ran = run_cli("verify", *urls, "--json")
    assert ran.code == 0
    assert [patch["tree"] for patch in ran.document["patches"]] == fork.trees
    assert ran.document["expected_from"] == f"fork file://{fork.repo.path} product ({fork.commits[-1][:12]})"
    assert sorted(path.name.rpartition("-")[0] for path in (places.cache / "repositories").glob("*.git")) == [
        "fork",
        "upstream",
    ]
    # All objects exist now.
    again = run_cli("verify", *urls, "--json", "--offline")
    words = f"fork file://{fork.repo.path} product as last fetched ({fork.commits[-1][:12]})"
    assert (again.code, again.document) == (0, {**ran.document, "expected_from": words})


def test_a_fork_by_url_that_moved_is_fetched_anew(fork: Fork, run_cli: RunCli) -> None:
    urls = from_there(fork, fork.upstream.path, f"file://{fork.repo.path}")
    assert run_cli("verify", *urls).code == 0
    fork.repo.commit("One more", {"README": "more\n"})
    assert "the fork has 1 commit the series lacks" in run_cli("verify", *urls).told
    fork.repo.branch("product", fork.commits[1])
    assert "the series has 1 patch the fork lacks" in run_cli("verify", *urls).told


def test_urls_offline_without_a_cache_are_missing(fork: Fork, run_cli: RunCli) -> None:
    url = f"file://{fork.upstream.path}"
    ran = run_cli("verify", *from_there(fork, url, f"file://{fork.repo.path}"), "--offline")
    assert (ran.code, ran.stdout) == (3, "")
    assert ran.stderr == f"error: pin {fork.pin} of {url} is not in the cache\n\nhint: run once without --offline\n"


def test_a_url_that_is_not_there_is_missing(fork: Fork, run_cli: RunCli) -> None:
    ran = run_cli("verify", *from_there(fork, "file:///nonexistent/upstream", "file:///nonexistent/fork"))
    assert (ran.code, ran.stdout) == (3, "")
    assert ran.stderr.startswith(f"error: pin {fork.pin} could not be fetched from file:///nonexistent/upstream: ")
    assert ran.stderr.endswith("\n\nhint: check the URL, the name and the network\n")


def test_a_ref_that_is_not_at_the_url_is_missing(fork: Fork, run_cli: RunCli) -> None:
    fork.ref = "prodct"
    url = f"file://{fork.repo.path}"
    ran = run_cli("verify", *from_there(fork, fork.upstream.path, url))
    assert (ran.code, ran.stdout) == (3, "")
    assert ran.stderr.startswith(f"error: ref prodct could not be fetched from {url}: couldn't find remote ref prodct")


def test_an_abbreviated_pin_with_a_url_asks_for_all_of_it(fork: Fork, run_cli: RunCli) -> None:
    url = f"file://{fork.upstream.path}"
    ran = run_cli("verify", "--patches", fork.series, "--upstream", url, "--pin", fork.pin[:12], "--apply-only")
    assert (ran.code, ran.stdout) == (3, "")
    assert "hint: give the full commit id if the upstream is a URL" in ran.stderr
