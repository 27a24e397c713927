"""Rules for every workflow and the action, checked in the YAML itself, including comments."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.runner.jobs import load
from tests.support.checkout import ROOT

OWN = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
EXAMPLES = sorted((ROOT / "docs" / "examples" / "ci").glob("*.yml"))
WORKFLOWS = [*OWN, *EXAMPLES]
EVERYTHING = [*WORKFLOWS, ROOT / "action.yml"]
REUSABLE = [ROOT / ".github" / "workflows" / f"{name}.yml" for name in ("pr", "canary", "gates-gpu", "release")]
WRITING = {"security-events", "issues", "id-token", "attestations", "contents", "pull-requests"}
by_name = pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)


def jobs(path: Path) -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = load(path)["jobs"]
    assert found
    return found


def steps(path: Path) -> Iterator[dict[str, Any]]:
    document = load(path)
    if "runs" in document:
        yield from document["runs"]["steps"]
    for job in document.get("jobs", {}).values():
        yield from job.get("steps", [])


def uses(path: Path) -> list[str]:
    """Yield every `uses:` with its comment."""
    return re.findall(r"(?m)^\s*(?:- )?uses: (.*)$", path.read_text("utf-8"))


def test_all_workflows_are_looked_at() -> None:
    assert [path.name for path in OWN] == [
        "canary.yml",
        "ci.yml",
        "gates-gpu.yml",
        "pages.yml",
        "pr.yml",
        "release.yml",
    ]
    assert len(EXAMPLES) >= 5
    assert sum(len(uses(path)) for path in EVERYTHING) > 50


@by_name
def test_nothing_is_granted_at_the_top_and_each_grant_says_why(path: Path) -> None:
    text = path.read_text("utf-8")
    assert load(path)["permissions"] == {}
    for name, job in jobs(path).items():
        assert "permissions" in job, f"{name} has none of its own"
        for scope, right in job["permissions"].items():
            assert re.search(rf"(?m)^      {scope}: {right} # \w.{{10,}}$", text), f"{name}: why {scope}: {right}?"


@by_name
def test_a_job_that_may_write_runs_nothing_of_the_repository(path: Path) -> None:
    if path.name == "fork-mirror.yml":
        return  # this one pushes a branch; its code is in the file itself
    for name, job in jobs(path).items():
        rights = {scope for scope, right in job["permissions"].items() if right == "write"}
        if rights and "uses" not in job:
            used = [step["uses"].partition("@")[0] for step in job["steps"] if "uses" in step]
            assert "actions/checkout" not in used, f"{name} may write {rights}, and checks out"
            assert not any(one.startswith("./") for one in used), name
            assert rights == {"issues"} or not any("run" in step for step in job["steps"]), name


@pytest.mark.parametrize("path", EVERYTHING, ids=lambda path: path.name)
def test_every_action_is_named_by_commit_with_its_version(path: Path) -> None:
    for one in uses(path):
        if one.startswith("./"):
            assert one in ("./", "./.patchstack"), one
            continue
        assert re.fullmatch(r"[\w.-]+/[\w./-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+", one), one


def test_one_version_of_an_action_everywhere() -> None:
    found: dict[str, set[str]] = {}
    for path in EVERYTHING:
        for one in uses(path):
            name, at, version = one.partition("@")
            if at:
                owner = "/".join(name.split("/")[:2])
                found.setdefault(owner, set()).add(version)
    assert {name: versions for name, versions in found.items() if len(versions) > 1} == {}


@pytest.mark.parametrize("path", EVERYTHING, ids=lambda path: path.name)
def test_no_script_holds_an_expression(path: Path) -> None:
    for step in steps(path):
        assert "${{" not in step.get("run", ""), step
        assert "${{" not in step.get("shell", ""), step


@by_name
def test_no_event_gives_a_fork_s_code_the_repository_s_rights(path: Path) -> None:
    events = load(path)["on"]
    assert not set(events) & {"pull_request_target", "workflow_run", "issue_comment", "repository_dispatch"}


@by_name
def test_no_credentials_stay_behind_a_checkout(path: Path) -> None:
    for step in steps(path):
        if step.get("uses", "").startswith("actions/checkout@"):
            assert step["with"]["persist-credentials"] is False, step


@by_name
def test_every_job_ends_by_itself_and_runs_are_not_piled_up(path: Path) -> None:
    document = load(path)
    assert document["concurrency"]["group"]
    for name, job in jobs(path).items():
        assert "uses" in job or 1 <= job["timeout-minutes"] <= 300, name


@by_name
def test_no_secret_is_named(path: Path) -> None:
    text = path.read_text("utf-8")
    assert "secrets" not in text and "GITHUB_TOKEN" not in text
    assert all(
        "GH_TOKEN" not in step.get("env", {}) or "issues: write" in text or "contents: write" in text
        for step in steps(path)
    )


@by_name
def test_foreign_text_of_an_event_is_read_nowhere(path: Path) -> None:
    said = re.findall(r"github\.(?:event\.[\w.]+|head_ref|actor)", path.read_text("utf-8"))
    # The owner of the repository names the default branch, and no event does.
    known = {"github.event.pull_request.number", "github.event.pull_request.head.repo.full_name"}
    assert set(said) <= known | {"github.event.repository.default_branch"}


@pytest.mark.parametrize("path", REUSABLE, ids=lambda path: path.name)
def test_a_reusable_workflow_runs_its_own_commit_of_patchstack(path: Path) -> None:
    document = load(path)
    assert "workflow_call" in document["on"]
    for name, job in document["jobs"].items():
        own = [step for step in job["steps"] if step.get("with", {}).get("path") == ".patchstack"]
        runs_it = any(".patchstack" in str(step.get("uses", "")) + step.get("run", "") for step in job["steps"])
        assert bool(own) == runs_it, name
        for step in own:
            assert step["with"]["repository"] == "${{ job.workflow_repository }}"
            assert step["with"]["ref"] == "${{ job.workflow_sha }}"


@pytest.mark.parametrize("path", REUSABLE, ids=lambda path: path.name)
def test_every_input_has_words_and_a_default(path: Path) -> None:
    for name, one in load(path)["on"]["workflow_call"]["inputs"].items():
        assert one["description"] and "default" in one and one["type"] in ("string", "boolean"), name


def test_examples_give_what_the_called_jobs_ask_for_and_no_more() -> None:
    for path in EXAMPLES:
        for name, job in jobs(path).items():
            if "uses" not in job:
                continue
            called = ROOT / job["uses"].partition("@")[0].removeprefix("OWNER/patchstack/")
            asked = {
                (scope, right)
                for other in load(called)["jobs"].values()
                if "pypi" not in str(other.get("environment"))
                for scope, right in other["permissions"].items()
            }
            assert set(job["permissions"].items()) == asked, (path.name, name)
            inputs = load(called)["on"]["workflow_call"]["inputs"]
            assert set(job["with"]) <= set(inputs), (path.name, name)


def test_pull_requests_are_compared_with_the_fork_and_see_their_base() -> None:
    pr = load(ROOT / ".github/workflows/pr.yml")
    assert pr["on"]["workflow_call"]["inputs"]["expect"]["default"] == "fork"
    (verify,) = [step for step in pr["jobs"]["series"]["steps"] if step.get("with", {}).get("command") == "verify"]
    assert verify["with"]["expect"].startswith("${{ inputs.expect ||")
    assert pr["jobs"]["series"]["steps"][0]["with"]["fetch-depth"] == 2


def test_what_a_pull_request_brings_is_built_in_containers_only() -> None:
    for name in ("pr", "canary", "gates-gpu", "release"):
        for step in steps(ROOT / f".github/workflows/{name}.yml"):
            if step.get("with", {}).get("command") == "build":
                assert step["with"]["args"].startswith("--engine docker "), (name, step)


def test_a_release_uses_no_cache_of_any_kind() -> None:
    path = ROOT / ".github/workflows/release.yml"
    text = path.read_text("utf-8")
    assert "actions/cache" not in text and not re.search(r"(?m)^\s+cache: (?!'false')", text)
    for step in steps(path):
        if step.get("uses") == "./.patchstack":
            assert step["with"]["cache"] == "false", step
        if step.get("with", {}).get("command") == "build":
            assert "--no-ccache" in step["with"]["args"]


def test_only_the_action_touches_caches_and_writes_where_prepare_allows() -> None:
    for path in WORKFLOWS:
        assert "actions/cache" not in path.read_text("utf-8"), path
    save = [step for step in steps(ROOT / "action.yml") if "cache/save" in step.get("uses", "")]
    assert len(save) == 1 and save[0]["if"].startswith("steps.prepare.outputs.write == 'true' &&")


def gpu_jobs() -> list[tuple[str, dict[str, Any]]]:
    return [
        (f"{path.name}: {name}", job)
        for path in WORKFLOWS
        for name, job in jobs(path).items()
        if "self-hosted" in str(job.get("runs-on"))
    ]


def test_the_gpu_is_for_pushes_of_maintainers_in_a_container_one_at_a_time() -> None:
    found = gpu_jobs()
    assert [name for name, _ in found] == ["gates-gpu.yml: gate", "release.yml: gate"]
    for name, job in found:
        assert "github.event_name == 'push'" in job["if"], name
        assert "ephemeral" in job["runs-on"], name
        assert job["container"]["volumes"] == ["/srv/models:/models:ro"], name
        assert "--security-opt no-new-privileges" in job["container"]["options"], name
        assert "--privileged" not in str(job["container"]) and "docker.sock" not in str(job["container"]), name
        assert job["container"]["image"].rstrip(" }").endswith("|| 'patchstack.invalid/none'"), name
        assert job["permissions"] == {"contents": "read"}, name
    gates = load(ROOT / ".github/workflows/gates-gpu.yml")
    assert set(gates["on"]) == {"push", "workflow_call"}
    assert gates["on"]["push"] == {"branches": ["pull-request/[0-9]+"]}
    assert gates["concurrency"] == {"group": "patchstack-gpu", "cancel-in-progress": False}
    assert all("startsWith(github.ref, 'refs/heads/pull-request/')" in job["if"] for job in gates["jobs"].values())
    release = load(ROOT / ".github/workflows/release.yml")["jobs"]["gate"]
    assert "github.ref_type == 'tag'" in release["if"] and release["concurrency"]["group"] == "patchstack-gpu"


def test_the_issue_is_kept_by_a_job_that_can_do_nothing_else() -> None:
    job = load(ROOT / ".github/workflows/canary.yml")["jobs"]["issue"]
    assert job["permissions"] == {"issues": "write"}
    assert [step["uses"].partition("@")[0] for step in job["steps"] if "uses" in step] == ["actions/download-artifact"]
    (script,) = [step["run"] for step in job["steps"] if "run" in step]
    assert "--app github-actions" in script


def test_canary_looks_at_one_commit_and_moves_no_pin() -> None:
    canary = load(ROOT / ".github/workflows/canary.yml")["jobs"]
    (build,) = [step for step in canary["compile"]["steps"] if step.get("id") == "build"]
    assert build["with"]["upstream-commit"] == "${{ needs.look.outputs.upstream-commit }}"
    assert not any(job["permissions"].get("contents") == "write" for job in canary.values())
    assert " sync" not in "".join(step.get("run", "") for job in canary.values() for step in job["steps"])


def test_only_this_repository_publishes_and_only_what_it_built() -> None:
    release = load(ROOT / ".github/workflows/release.yml")
    assert release["on"]["workflow_call"]["inputs"]["called"]["default"] is True
    for name in ("package", "publish"):
        assert "!inputs.called" in release["jobs"][name]["if"]
    assert release["jobs"]["publish"]["permissions"] == {"id-token": "write"}
    (taken,) = (one["with"] for one in release["jobs"]["publish"]["steps"] if "download-artifact" in one["uses"])
    assert taken == {"artifact-ids": "${{ needs.package.outputs.artifact }}", "path": "dist"}, "never by its name"
    assert release["jobs"]["publish"]["environment"]["name"] == "pypi"


def test_the_action_s_inputs_reach_programs_through_the_environment_only() -> None:
    action = load(ROOT / "action.yml")
    for step in action["runs"]["steps"]:
        if "run" in step:
            assert set(re.findall(r"\$(\w+)", step["run"])) <= {
                "PYTHON", "PATCHSTACK_CI_PYTHON", "GITHUB_ACTION_PATH",
            }  # fmt: skip
            assert " -I " in step["run"]
    read = "".join(str(step.get("env", "")) for step in action["runs"]["steps"])
    assert all(f"inputs.{name} " in read for name in action["inputs"]), "an input that nothing reads"
    written = set(re.findall(r"steps\.run\.outputs\.([\w-]+)", str(action["outputs"])))
    assert written == {
        *("holds", "applied-tree", "build-key", "build-directory", "upstream-commit"),
        *("report", "sarif", "issue", "predicate"),
    }


def test_what_is_switched_off_in_the_audits_says_why() -> None:
    ignored = [
        (path.name, number)
        for path in EVERYTHING
        for number, line in enumerate(path.read_text("utf-8").split("\n"), 1)
        if "zizmor: ignore" in line
    ]
    for name, number in ignored:
        lines = (ROOT / ".github/workflows" / name).read_text("utf-8").split("\n")
        assert lines[number - 2].lstrip().startswith("# "), f"{name}:{number} does not say why"
    config = (ROOT / ".github/zizmor.yml").read_text("utf-8")
    for rule in load(ROOT / ".github/zizmor.yml")["rules"]:
        assert re.search(rf"(?m)^  {rule}:\n    # \S", config), rule


def test_a_release_needs_signed_decisions_or_observes_everything_again() -> None:
    release = jobs(ROOT / ".github" / "workflows" / "release.yml")
    assert {"build", "gate", "ledger"} <= set(release["compare"]["needs"])
    assert "needs.ledger.result == 'success'" in release["compare"]["if"]
    assert "inputs.suite == '' && inputs.evidence != 'again'" in release["compare"]["if"]
    assert release["attest"]["needs"] == "compare"
    assert "needs.compare.result == 'success'" in release["attest"]["if"]
    signed, again = (step for step in release["ledger"]["steps"] if "ledger --check" in step.get("run", ""))
    assert "--require-signed --signers" in signed["run"]
    assert signed["if"] == "${{ (inputs.evidence || 'signed') != 'again' }}", "whatever else is asked for is signed"
    assert again["if"] == "${{ inputs.evidence == 'again' }}"
    checkouts = [step["with"] for step in release["ledger"]["steps"] if "checkout" in step.get("uses", "")]
    assert checkouts[1] == {
        "ref": "refs/heads/${{ github.event.repository.default_branch }}",
        "path": ".protected",
        "persist-credentials": False,
    }
