"""The rule `scope`: a patch changes only the files of its own trailers."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conftest import RunCli
from tests.support.builders import Fork, a_fork


def a_scoped(directory: Path, *trailers: str) -> Fork:
    fork = a_fork(directory, 0)
    fork.commits = [
        fork.repo.commit(
            "Change two files", {"src/other.cpp": "x\n", "docs/notes.txt": "four\n"}, body="\n".join(trailers)
        )
    ]
    fork.export()
    return fork


@pytest.mark.parametrize(
    ("trailers", "found"),
    [
        ([], []),
        (["Scope: src/** docs/**"], []),
        (["Scope: src/**", "Scope: docs/"], []),
        (["scope: src/**, docs/notes.txt"], []),
        (["Scope: src/**"], ["docs/notes.txt: outside the patch's Scope (src/**)"]),
        (
            ["Scope: tools/"],
            [
                "docs/notes.txt: outside the patch's Scope (tools/)",
                "src/other.cpp: outside the patch's Scope (tools/)",
            ],
        ),
    ],
)
def test_files_outside_the_scope_are_findings(
    tmp_path: Path, run_cli: RunCli, trailers: list[str], found: list[str]
) -> None:
    fork = a_scoped(tmp_path, *trailers)
    ran = run_cli("lint", *fork.sources, "--json")
    assert [one["message"] for one in ran.document["findings"] if one["rule"] == "scope"] == found
    assert ran.code == (1 if found else 0), ran


def test_the_trailers_are_shown(tmp_path: Path, run_cli: RunCli) -> None:
    fork = a_scoped(tmp_path, "Reason: two files, one change", "Drop-When: upstream has it", "Drop-Check: has-it")
    (tmp_path / "patchstack.yaml").write_text(
        f"series: {{mine: {{patches: {fork.series}, upstream: {fork.upstream.path}, pin: '{fork.pin}'}}}}\n"
    )
    chosen = ("--workspace", tmp_path / "patchstack.yaml")
    ran = run_cli("show", "1", *chosen)
    for line in ("two files, one change", "upstream has it", "has-it"):
        assert line in ran.stdout
    metadata = run_cli("show", "1", *chosen, "--json").document["metadata"]
    assert (metadata["reason"], metadata["drop_check"]) == (["two files, one change"], ["has-it"])
