"""Checks on later commits of upstream: the first commit on which each fails, and the new sites."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.conftest import RunCli
from tests.support.builders import Changes, Fork, numbered
from tests.support.moving import kernel, moved

ALIEN = "void first() {\n    alloc(1);\n}\n"
CHECKS = """\
series:
  mine:
    patches: {series}
    upstream: {upstream}
    pin: "{pin}"
    checks:
      - name: allocations
        what: Each allocation is traced.
        patch: 1
        kind: sites
        pattern: 'alloc\\('
        files: ["src/**"]
        recorded: "2026-11-22: at the pin"
        sites:
          src/other.cpp: [first]
      - name: hook
        patch: 1
        kind: present
        pattern: 'changed by commit 1'
"""


def upstream_of(directory: Path, *steps: tuple[str, Changes]) -> Fork:
    """Return a fork of three patches of the kernel, and an upstream with new allocations."""
    files: Changes = {"src/kernel.cu": numbered(300), "src/other.cpp": ALIEN, "docs/notes.txt": "one\n"}
    forked: list[tuple[str, Changes]] = [
        (f"Change {n} of a kernel", kernel(**{f"l{10 * k}": f"changed by commit {k}" for k in range(1, n + 1)}))
        for n in (1, 2, 3)
    ]
    fork = moved(directory, tuple(forked), *steps, files=files)
    (directory / "patchstack.yaml").write_text(
        CHECKS.format(series=fork.series, upstream=fork.upstream.path, pin=fork.pin)
    )
    return fork


def looked(directory: Path, run_cli: RunCli, code: int, *options: str) -> dict[str, dict[str, Any]]:
    """Return the checks of a canary run, by name."""
    ran = run_cli("canary", "--workspace", directory / "patchstack.yaml", "--to", "main", "--json", *options)
    assert ran.code == code, ran
    return {one["check"]["name"]: one for one in ran.document["checks"]}


STEPS: tuple[tuple[str, Changes], ...] = (
    ("Write the docs", {"docs/notes.txt": "two\n"}),
    ("Add a case", {"src/more.cpp": "void second() {\n    alloc(2);\n}\n"}),
    ("Write more", {"docs/notes.txt": "three\n"}),
    ("Add another case", {"src/other.cpp": ALIEN + "\nvoid third() {\n    alloc(3);\n}\n"}),
)


def test_the_commit_that_adds_a_case_is_named(tmp_path: Path, run_cli: RunCli) -> None:
    upstream_of(tmp_path, *STEPS)
    found = looked(tmp_path, run_cli, 1, "--blame")
    one = found["allocations"]
    assert one["check"]["verdict"] == "FAIL"
    assert one["at_pin"] == "PASS"
    assert one["first_fails"]["subject"] == "Add a case"
    since = {change["name"]: (change["change"], change["since"]["subject"]) for change in one["changes"]}
    assert since == {"second": ("new", "Add a case"), "third": ("new", "Add another case")}
    assert (found["hook"]["check"]["verdict"], found["hook"]["first_fails"]) == ("PASS", None)


def test_without_blame_no_commit_is_named(tmp_path: Path, run_cli: RunCli) -> None:
    upstream_of(tmp_path, *STEPS)
    one = looked(tmp_path, run_cli, 1)["allocations"]
    assert (one["check"]["verdict"], one["first_fails"]) == ("FAIL", None)
    assert {change["since"] for change in one["changes"]} == {None}


def test_a_case_that_comes_and_goes_is_told_and_passes(tmp_path: Path, run_cli: RunCli) -> None:
    upstream_of(tmp_path, STEPS[1], ("Take it out", {"src/more.cpp": None}))
    one = looked(tmp_path, run_cli, 0, "--blame")["allocations"]
    assert (one["check"]["verdict"], one["first_fails"]["subject"], one["changes"]) == ("PASS", "Add a case", [])


def test_a_patch_that_does_not_merge_promises_nothing_but_its_new_sites_are_seen(
    tmp_path: Path, run_cli: RunCli
) -> None:
    upstream_of(tmp_path, ("Change its line", kernel(l10="upstream's own")), STEPS[1])
    found = looked(tmp_path, run_cli, 1, "--blame")
    assert found["hook"]["check"]["verdict"] == "INVALID"
    assert "does not merge there" in found["hook"]["check"]["reason"]
    assert found["allocations"]["first_fails"]["subject"] == "Add a case"


def test_the_screen_names_site_and_commit(tmp_path: Path, run_cli: RunCli) -> None:
    fork = upstream_of(tmp_path, *STEPS[:2])
    ran = run_cli("canary", "--workspace", tmp_path / "patchstack.yaml", "--to", "main", "--blame")
    commit = fork.upstream.head()[:12]
    assert ran.code == 1
    assert f"    fails first on Add a case ({commit}, A U Thor, 2025-06-15; commit 1 after the pin)" in ran.stdout
    assert f"    new site second in src/more.cpp since {commit}" in ran.stdout
    assert ran.stdout.splitlines()[-1] == "FAIL  mine: checks: 1 PASS, 1 FAIL"


DROPS = """\
      - {name: upstream-has-it, patch: 1, at: upstream, kind: present, pattern: 'own_case', files: ["src/**"]}
"""


def test_a_patch_can_go_once_its_drop_check_passes_on_upstream_alone(tmp_path: Path, run_cli: RunCli) -> None:
    fork = upstream_of(tmp_path)
    fork.repo.branch("product", fork.pin)
    fork.repo.commit(
        "Change the kernel",
        kernel(l10="changed by commit 1"),
        body="Drop-When: upstream does it\nDrop-Check: upstream-has-it\nDrop-Check: nobody-wrote-it",
    )
    fork.export()
    with (tmp_path / "patchstack.yaml").open("a") as out:
        out.write(DROPS)

    def drops(code: int) -> dict[str, str]:
        ran = run_cli("canary", "--workspace", tmp_path / "patchstack.yaml", "--to", "main", "--json")
        assert ran.code == code, ran
        assert "upstream-has-it" not in [one["check"]["name"] for one in ran.document["checks"]]
        return {one["check"]: one["verdict"] for one in ran.document["drops"]}

    assert drops(0) == {"upstream-has-it": "FAIL", "nobody-wrote-it": "INVALID"}
    fork.upstream.commit("Do it", {"src/new.cpp": "own_case();\n"})
    assert drops(0) == {"upstream-has-it": "PASS", "nobody-wrote-it": "INVALID"}
    ran = run_cli("canary", "--workspace", tmp_path / "patchstack.yaml", "--to", "main")
    assert "0001-Change-the-kernel.patch can be dropped: upstream does it: check upstream-has-it is PASS" in ran.stdout
    assert "Drop-Check: nobody-wrote-it: INVALID: no check is named nobody-wrote-it" in ran.stdout


def test_status_says_which_patch_can_go(tmp_path: Path, run_cli: RunCli) -> None:
    fork = upstream_of(tmp_path)
    fork.repo.branch("product", fork.pin)
    fork.repo.commit(
        "Change the kernel", kernel(l10="changed by commit 1"), body="Drop-When: it allocates\nDrop-Check: has-it"
    )
    fork.export()
    with (tmp_path / "patchstack.yaml").open("a") as out:
        out.write(
            "      - {name: has-it, patch: 1, at: upstream, kind: present, pattern: 'alloc', files: ['src/**']}\n"
        )
    ran = run_cli("status", "--workspace", tmp_path / "patchstack.yaml", "--json")
    told = "0001-Change-the-kernel.patch can be dropped (it allocates): check has-it is PASS on the pin alone"
    assert told in ran.document["warnings"], ran
