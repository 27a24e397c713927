"""Jobs of the reusable workflows and of the examples, run step by step on a product."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.builders import run_git
from tests.support.checkout import ROOT
from tests.support.ci_world import WORKSPACE, Product, a_product, write_program

WORKFLOWS = ROOT / ".github" / "workflows"
EXAMPLES = ROOT / "docs" / "examples" / "ci"
CALLED = {"workspace": WORKSPACE}


@pytest.fixture
def product(tmp_path: Path) -> Product:
    return a_product(tmp_path)


class Tracker:
    """An issue tracker that our own `gh` uses. `author` is the one who opened an issue."""

    def __init__(self, product: Product) -> None:
        self.file = product.runner.directory / "issues.json"
        self.calls = product.runner.directory / "gh calls"
        self.file.write_text("[]")
        script = ROOT / "tests" / "runner" / "gh.py"
        write_program(product.runner.programs / "gh", f'exec python3 -I "{script}" "{self.file}" "{self.calls}" "$@"')

    @property
    def issues(self) -> list[dict[str, str]]:
        found: list[dict[str, str]] = json.loads(self.file.read_text())
        return found

    def add(self, **issue: str) -> None:
        self.file.write_text(
            json.dumps([*self.issues, {"state": "open", **issue, "number": str(len(self.issues) + 1)}])
        )


def canary(product: Product) -> dict[str, str]:
    """Run all jobs of canary except the one that compiles, and return the outputs of the first."""
    shutil.rmtree(product.runner.directory / "artifacts")
    (product.runner.directory / "artifacts").mkdir()
    look = product.runner.job(WORKFLOWS / "canary.yml", "look", inputs=CALLED)
    assert look is not None and look.ok, look
    needs = {"look": {"result": "success", "outputs": look.outputs}, "compile": {"result": "skipped"}}
    shutil.rmtree(product.root / "issue", ignore_errors=True)
    words = product.runner.job(WORKFLOWS / "canary.yml", "words", inputs=CALLED, needs=needs)
    assert words is not None and words.ok, words
    shutil.rmtree(product.root / "issue")
    keep = product.runner.job(WORKFLOWS / "canary.yml", "issue", needs={"words": {"result": "success"}})
    assert keep is not None and keep.ok, keep
    return look.outputs


def test_canary_opens_one_issue_keeps_it_and_closes_it(product: Product) -> None:
    product.runner.event_name = "schedule"
    tracker = Tracker(product)
    tracker.add(author="somebody", title="x", body="<!-- patchstack-canary: canary -->\nwritten by somebody")
    assert canary(product)["applies"] == "true"
    assert len(tracker.issues) == 1, "nothing to tell, so nothing is opened"
    pin = product.fork.upstream.head()
    tip = product.fork.upstream.commit("`break` everything; $(touch evil)", {"src/kernel.cu": "nothing\n"})
    outputs = canary(product)
    assert (outputs["applies"], outputs["upstream-commit"]) == ("false", tip)
    (theirs, ours) = tracker.issues
    assert (ours["author"], ours["state"]) == ("app/github-actions", "open")
    assert ours["title"] == "canary: 3 patches of product no longer apply to upstream"
    assert "https://github.example/me/product/actions/runs/42" in ours["body"]
    product.fork.upstream.commit("And some more", {"README": "x\n"})
    canary(product)
    assert len(tracker.issues) == 2 and tracker.issues[1]["body"] != ours["body"]
    product.fork.upstream.branch("main", pin)
    canary(product)
    assert [issue["state"] for issue in tracker.issues] == ["open", "closed"]
    assert tracker.issues[0] == theirs, "an issue that somebody else opened is left alone, whatever its first line"
    product.fork.upstream.commit("Again", {"src/kernel.cu": "nothing\n"})
    canary(product)
    assert [issue["state"] for issue in tracker.issues] == ["open", "open"]
    assert not list(product.root.rglob("evil"))


def test_canary_that_could_not_look_fails(product: Product) -> None:
    product.configure(upstream=str(product.root / "nowhere"))
    look = product.runner.job(WORKFLOWS / "canary.yml", "look", inputs=CALLED)
    assert look is not None and not look.ok
    assert {step.name: step.outcome for step in look.steps}["It could not be looked at"] == "failure"
    assert look.outputs["upstream-commit"] == ""


def test_a_pull_request_that_holds_is_green_and_its_findings_are_handed_on(product: Product) -> None:
    product.pull_request()
    ran = product.runner.job(WORKFLOWS / "pr.yml", "series", inputs=CALLED)
    assert ran is not None and ran.ok, ran
    assert (product.runner.directory / "artifacts" / "patchstack-lint" / "lint.sarif").is_file()
    assert "### lint <code>product</code>: clean" in ran.summary
    assert "### verify <code>product</code>: holds" in ran.summary
    assert list((product.runner.directory / "caches").iterdir()) == []


def test_a_pull_request_is_verified_also_where_lint_finds_something(product: Product) -> None:
    patch = product.patch(2)
    patch.write_text(patch.read_text().replace("+changed by commit 2", "+see /home/jane/notes"))
    product.pull_request()
    ran = product.runner.job(WORKFLOWS / "pr.yml", "series", inputs=CALLED)
    assert ran is not None and not ran.ok
    outcomes = {step.name: step.outcome for step in ran.steps}
    assert outcomes["Lint"] == outcomes["Verify"] == "failure"
    assert outcomes["Hand the findings on"] == "success"


@pytest.mark.parametrize(("head", "uploads"), [("me/product", True), ("somebody/product", False)])
def test_findings_of_a_fork_s_pull_request_are_not_uploaded(product: Product, head: str, uploads: bool) -> None:
    product.pull_request()
    product.runner.event["pull_request"]["head"]["repo"]["full_name"] = head
    (product.runner.directory / "artifacts" / "patchstack-lint").mkdir()
    needs = {"series": {"result": "failure", "outputs": {"sarif": "x"}}}
    ran = product.runner.job(WORKFLOWS / "pr.yml", "sarif", inputs=CALLED, needs=needs)
    assert (ran is not None) is uploads
    assert [action for action, _ in product.runner.other] == ["github/codeql-action/upload-sarif"] * uploads


def test_the_plan_is_a_matrix_that_jobs_can_take(product: Product) -> None:
    ran = product.runner.job(WORKFLOWS / "pr.yml", "plan", inputs=CALLED)
    assert ran is not None and ran.ok, ran
    rows = json.loads(ran.outputs["matrix"])["include"]
    assert [(row["variant"], row["runner"]) for row in rows] == [
        ("cpu", "ubuntu-24.04"),
        ("cuda-sm121", "ubuntu-24.04-arm"),
        ("cuda-sm121", "ubuntu-24.04"),
    ]
    nothing = product.runner.job(WORKFLOWS / "pr.yml", "plan", inputs={**CALLED, "variants": "none"})
    assert nothing is not None and nothing.outputs["jobs"] == "0"
    assert product.runner.job(WORKFLOWS / "pr.yml", "compile", needs={"plan": {"outputs": nothing.outputs}}) is None


@pytest.mark.parametrize(
    ("event", "ref", "runs"),
    [
        ("push", "refs/heads/pull-request/7", True),
        ("pull_request", "refs/heads/pull-request/7", False),
        ("pull_request", "refs/pull/7/merge", False),
        ("push", "refs/heads/main", False),
        ("workflow_dispatch", "refs/heads/pull-request/7", False),
        ("pull_request_target", "refs/heads/main", False),
    ],
)
def test_the_gpu_is_reached_by_pushes_to_pull_request_branches_alone(
    product: Product, event: str, ref: str, runs: bool
) -> None:
    product.runner.event_name, product.runner.ref = event, ref
    write_program(product.runner.programs / "tar", "exit 0")
    artifact = product.runner.directory / "artifacts" / "patchstack-gpu-build"
    artifact.mkdir()
    ran = product.runner.job(WORKFLOWS / "gates-gpu.yml", "gate", inputs=CALLED, needs={"build": {"result": "success"}})
    assert (ran is not None) is runs
    if ran is not None:
        assert not ran.ok, "without suites and programs nothing may pass"


def test_a_fork_s_series_is_exported_and_proposed_once(product: Product) -> None:
    product.runner.event_name = "schedule"
    origin = product.root.parent / "origin.git"
    run_git("clone", "-q", "--bare", product.root, origin, cwd=product.root)
    run_git("remote", "add", "origin", origin, cwd=product.root)
    shutil.copy(product.root / WORKSPACE, product.root / "patchstack.yaml")
    shutil.move(product.root / "back end" / "patches" / "product", product.root / "patches" / "paged")
    text = (product.root / "patchstack.yaml").read_text().replace("patches/product", "patches/paged")
    (product.root / "patchstack.yaml").write_text(text)
    product.commit("As in the example")
    product.fork.repo.commit("One more", {"src/other.cpp": "new\n"})
    tracker = Tracker(product)
    run_git("config", "user.name", "x", cwd=product.root)
    run_git("config", "user.email", "x@example.com", cwd=product.root)
    export = product.runner.job(EXAMPLES / "fork-mirror.yml", "export")
    assert export is not None
    assert export.ok, export.log
    for _ in range(2):
        run_git("checkout", "-q", "--force", "--detach", "main", cwd=product.root)
        propose = product.runner.job(EXAMPLES / "fork-mirror.yml", "propose")
        assert propose is not None
        assert propose.ok, propose.log
    names = run_git("ls-tree", "--name-only", "patchstack/export", "patches/paged/", cwd=origin).stdout.decode()
    assert "0004-One-more.patch" in names
    assert [issue["title"] for issue in tracker.issues] == ["Export the series from its fork"]


def test_ten_lines_of_shell_do_it_elsewhere(product: Product) -> None:
    """Run the script for GitLab and Forgejo. It fetches this checkout as its repository."""
    script = (EXAMPLES / "verify.sh").read_text()
    assert len([line for line in script.splitlines() if line and not line.startswith("#")]) <= 10
    head = run_git("rev-parse", "HEAD", cwd=ROOT).stdout.decode().strip()
    place = product.root.parent / "verify.sh"
    place.write_text(script.replace("0123456789abcdef0123456789abcdef01234567", head))
    write_program(product.runner.programs / "sed", f'echo "{product.runner.programs}/python3"')
    write_program(
        product.runner.programs / "python3", f'case "$*" in *install.py) exit 0;; esac\nexec "{sys.executable}" "$@"'
    )
    environment = {"WORKSPACE": WORKSPACE, "PATCHSTACK_URL": f"file://{ROOT}", "POLICY": product.base}
    for name in ("sitecustomize.py", "patchstack.py", "git", "python3", "sed"):
        (product.root / name).write_text("raise SystemExit('taken from the checkout')\n")
        (product.root / name).chmod(0o755)

    def run() -> subprocess.CompletedProcess[str]:

        shutil.rmtree(product.root / ".patchstack", ignore_errors=True)
        return subprocess.run(
            ["sh", str(place)],
            cwd=product.root,
            env={**os.environ, "PATH": f"{product.runner.programs}:{os.environ['PATH']}", **environment},
            capture_output=True,
            text=True,
            check=False,
        )

    done = run()
    assert done.returncode == 0, done.stderr
    assert "product: holds" in done.stdout and "product: clean" in done.stdout
    patch = product.patch(2)
    patch.write_text(patch.read_text().replace("+changed by commit 2", "+changed by hand"))
    assert run().returncode == 1
