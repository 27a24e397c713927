"""Checks are policy: a change's own checks are listed, and not used."""

from __future__ import annotations

from pathlib import Path

from tests.conftest import RunCli
from tests.unit.workflow.test_checks import HOOK, SITES, a_series


def test_a_changed_check_is_listed_and_not_used(tmp_path: Path, run_cli: RunCli) -> None:
    a_series(tmp_path, HOOK.replace("commit 1$", "nobody") + SITES)
    path = tmp_path / "patchstack.yaml"
    trusted = tmp_path / "trusted.yaml"
    trusted.write_text(path.read_text())
    path.write_text(path.read_text().replace("nobody", "commit 1$").replace("places", "renamed"))
    for command in (["verify", "--checks"], ["lint"]):
        ran = run_cli(*command, "--workspace", path, "--policy-from", trusted, "--json")
        assert ran.code == 1, ran
        checks = {one["name"]: one["verdict"] for one in ran.document["checks"]}
        assert checks == {"hook": "FAIL", "places": "INVALID"}
        assert "series.mine.checks.hook.pattern: 'changed by commit 1$', not 'changed by nobody'" in ran.stderr
        assert "series.mine.checks.renamed: added" in ran.stderr
        assert "series.mine.checks.places: removed" in ran.stderr


def test_sites_are_not_recorded_into_somebody_elses_policy(tmp_path: Path, run_cli: RunCli) -> None:
    a_series(tmp_path, SITES)
    path = tmp_path / "patchstack.yaml"
    trusted = tmp_path / "trusted.yaml"
    trusted.write_text(path.read_text())
    ran = run_cli(
        "verify", "--workspace", path, "--policy-from", trusted, "--record", "places", "--why", "now they are fine"
    )
    assert ran.code == 2
    assert "--record cannot be combined with --policy-from, which ignores patchstack.yaml" in ran.stderr
    assert trusted.read_text() == path.read_text()
