"""A release attests only artifacts whose digests come from jobs of its own run, and no others of the same names."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.runner.jobs import Ran, Runner
from tests.support.checkout import ROOT
from tests.support.ci_world import a_runner

RELEASE = ROOT / ".github" / "workflows" / "release.yml"
NAMES = ("cpu.tar", "cuda-sm121.tar")
STATEMENT = {"result": "PASSED", "passedTests": ["quick/says"]}


def sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


@dataclass
class Release:
    """A run whose build jobs made two archives, and whose gates ran on one of them."""

    runner: Runner
    built: dict[str, str] = field(default_factory=dict)
    gate: dict[str, str] = field(default_factory=dict)
    jobs: str = "2"

    @property
    def artifacts(self) -> Path:
        return self.runner.directory / "artifacts"

    def upload(self, artifact: str, name: str, content: bytes) -> None:
        (self.artifacts / artifact).mkdir(exist_ok=True)
        (self.artifacts / artifact / name).write_bytes(content)

    def compare(self) -> Ran:
        needs: dict[str, Any] = {
            "plan": {"outputs": {"jobs": self.jobs}},
            "build": {"result": "success", "outputs": self.built},
            "gate": {"result": "success" if self.gate else "skipped", "outputs": self.gate},
            "ledger": {"result": "success"},
        }
        ran = self.runner.job(RELEASE, "compare", inputs={"suite": "quick" if self.gate else ""}, needs=needs)
        assert ran is not None
        return ran

    def attest(self, outputs: dict[str, str], subject: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
        self.runner.other.clear()
        needs = {"compare": {"result": "success", "outputs": outputs}}
        assert self.runner.job(RELEASE, "attest", inputs={}, needs=needs, matrix={"subject": subject}) is not None
        return self.runner.other


@pytest.fixture
def release(tmp_path: Path) -> Release:
    (tmp_path / "a product").mkdir()
    made = Release(a_runner(tmp_path / "runner", tmp_path / "a product"))
    made.runner.ref = "refs/tags/v1"
    for number, name in enumerate(NAMES):
        made.upload(f"patchstack-release-{name.removesuffix('.tar')}", name, name.encode())
        made.built[f"digest-{number}"] = f"{sha256(name.encode())}  {name}"
    made.built |= {f"digest-{number}": "" for number in range(2, 8)}
    statement = json.dumps(STATEMENT, indent=1).encode()
    made.upload("patchstack-gates", "test-result.json", statement)
    made.gate = {"binaries": made.built["digest-1"], "statement": sha256(statement)}
    return made


def test_what_is_attested_are_the_digests_that_the_jobs_gave(release: Release) -> None:
    ran = release.compare()
    assert ran.ok, ran.log
    cpu, gpu = json.loads(ran.outputs["subjects"])
    assert (cpu["name"], cpu["gated"], gpu["name"], gpu["gated"]) == ("cpu.tar", False, "cuda-sm121.tar", True)
    ((_, only),) = release.attest(ran.outputs, cpu)
    assert only == {"subject-name": "cpu.tar", "subject-digest": f"sha256:{sha256(b'cpu.tar')}"}
    (_, made), (_, said) = release.attest(ran.outputs, gpu)
    assert made["subject-digest"] == said["subject-digest"] == f"sha256:{sha256(b'cuda-sm121.tar')}"
    assert said["predicate-type"] == "https://in-toto.io/attestation/test-result/v0.1"
    assert json.loads(said["predicate"]) == STATEMENT


def test_without_gates_nothing_is_said_of_them(release: Release) -> None:
    release.gate = {}
    ran = release.compare()
    assert ran.ok, ran.log
    assert [one["gated"] for one in json.loads(ran.outputs["subjects"])] == [False, False]
    assert ran.outputs["statement"] == ""


@pytest.mark.parametrize(
    ("attack", "says"),
    [
        ("replaced", "cpu.tar is "),
        ("added", "evil.tar is "),
        ("nested", "sub/evil.tar is "),
        ("another artifact with the same file", "cuda-sm121.tar is "),
        ("missing", "cpu.tar is missing"),
        ("a build that gave no digest", "2 builds were planned, and 1 gave a digest"),
        ("no digests at all", "2 builds were planned, and 0 gave a digest"),
        ("another statement", "the statement of the gates is not the one that the gates' job made"),
        ("gates of other binaries", "which no build of this run is"),
    ],
)
def test_an_artifact_that_no_job_of_the_run_answers_for_stops_it(release: Release, attack: str, says: str) -> None:
    match attack:
        case "replaced":
            release.upload("patchstack-release-cpu", "cpu.tar", b"evil")
        case "added":
            release.upload("patchstack-release-evil", "evil.tar", b"evil")
        case "nested":
            (release.artifacts / "patchstack-release-evil" / "sub").mkdir(parents=True)
            release.upload("patchstack-release-evil", "sub/evil.tar", b"evil")
        case "another artifact with the same file":
            release.upload("patchstack-release-zzz", "cuda-sm121.tar", b"evil")
        case "missing":
            (release.artifacts / "patchstack-release-cpu" / "cpu.tar").unlink()
        case "a build that gave no digest":
            release.built["digest-1"] = ""
        case "no digests at all":
            release.built = {}
        case "another statement":
            release.upload("patchstack-gates", "test-result.json", b"{}")
        case "gates of other binaries":
            release.gate["binaries"] = f"{sha256(b'evil')}  cuda-sm121.tar"
    ran = release.compare()
    assert not ran.ok
    assert any(says in one.data for one in ran.commands if one.name == "error"), ran.log
    assert not ran.outputs["subjects"]


def test_the_gates_run_on_nothing_but_what_was_built(release: Release) -> None:
    release.upload("patchstack-release-cuda-sm121", "cuda-sm121.tar", b"evil")
    ran = release.runner.job(
        RELEASE,
        "gate",
        inputs={"suite": "quick"},
        needs={"build": {"result": "success", "outputs": release.built}},
    )
    assert ran is not None
    assert not ran.ok
    (error,) = (one.data for one in ran.commands if one.name == "error")
    assert error == f"this is not the archive that the build job made: {sha256(b'evil')}  cuda-sm121.tar"
    assert [step.outcome for step in ran.steps][-3:] == ["skipped"] * 3
