"""The GitHub Action, run step by step as a runner would, on a product whose paths have blanks."""

from __future__ import annotations

import json
import os
import re
import shutil
from pathlib import Path

import pytest

from tests.runner.commands import Command
from tests.runner.jobs import Ran
from tests.support.builders import numbered, run_git
from tests.support.checkout import ROOT
from tests.support.ci_world import WORKSPACE, Product, a_product, write_program


@pytest.fixture
def product(tmp_path: Path) -> Product:
    place = tmp_path / "with a blank"
    place.mkdir()
    return a_product(place)


def errors(ran: Ran) -> list[Command]:
    return [command for command in ran.commands if command.name == "error"]


def line_of(path: Path, number: str) -> str:
    return path.read_text().split("\n")[int(number) - 1]


def test_a_series_that_holds_says_so_in_outputs_and_summary(product: Product) -> None:
    ran = product.act(command="verify", expect="fork")
    assert ran.ok, ran.log
    assert ran.outputs["holds"] == "true"
    assert ran.outputs["applied-tree"] == product.fork.trees[-1]
    assert ran.commands == []
    assert "### verify <code>product</code>: holds" in ran.summary
    assert "verify product: holds, 3 of 3 patches" in ran.log
    assert json.loads((Path(ran.outputs["report"]) / "verify.jsonl").read_text())["holds"] is True


def test_a_fork_that_moved_on_is_an_error_without_a_file(product: Product) -> None:
    product.fork.repo.commit("One more", {"src/other.cpp": "new\n"})
    ran = product.act(command="verify", expect="fork")
    assert not ran.ok
    assert ran.outputs["holds"] == "false"
    (error,) = errors(ran)
    assert "file" not in error.properties
    assert error.data == f"fork commits without a patch:\n{product.fork.repo.head()[:12]}: One more"


def test_a_patch_edited_by_hand_is_annotated_on_the_very_line(product: Product) -> None:
    patch = product.patch(2)
    patch.write_text(patch.read_text().replace("+changed by commit 2", "+changed by hand"))
    product.pull_request()
    ran = product.act(command="verify", expect="fork")
    assert not ran.ok
    (error,) = errors(ran)
    assert error.properties["file"] == f"back end/patches/product/{patch.name}"
    assert line_of(patch, error.properties["line"]) == "+changed by hand"
    assert error.properties["title"] == "product: diverges"
    assert "-changed by hand\n+changed by commit 2" in error.data


def test_patch_and_lock_edited_together_pass_against_the_lock_and_are_caught_against_the_fork(product: Product) -> None:
    fork = product.fork
    fork.repo.branch("evil", fork.commits[0])
    lines = {10: "changed by commit 1", 20: "changed for evil"}
    commits = [fork.repo.commit("Change 2 of a kernel", {"src/kernel.cu": numbered(300, lines)})]
    commits.append(fork.repo.commit("Change 3 of a kernel", {"src/kernel.cu": numbered(300, {**lines, 30: "x"})}))
    fork.repo.git("format-patch", "-q", "-o", product.root / "new", f"{fork.pin}..evil")
    for path in product.patches.glob("*.patch"):
        path.unlink()
    for path in (product.root / "new").iterdir():
        shutil.move(path, product.patches)
    (product.root / "new").rmdir()
    true_commits, true_patches = fork.commits, fork.patches
    fork.commits, fork.patches = [fork.commits[0], *commits], sorted(product.patches.glob("*.patch"))
    product.lock()
    fork.commits, fork.patches = true_commits, true_patches
    product.pull_request()
    fooled = product.act(command="verify", expect="lock")
    assert fooled.ok, fooled.log
    notices = [command.data for command in fooled.commands if command.name == "notice"]
    assert any("can change both patches and lock" in notice for notice in notices)
    caught = product.act(command="verify", expect="fork")
    assert not caught.ok
    assert caught.outputs["holds"] == "false"
    assert any("0002" in error.properties.get("file", "") for error in errors(caught))


@pytest.mark.parametrize("keeps_event", [True, False], ids=["by the event", "by the merge's first parent"])
def test_a_pull_request_may_not_choose_what_it_is_compared_with(product: Product, keeps_event: bool) -> None:
    decoy = product.root.parent / "decoy"
    shutil.copytree(product.fork.repo.path, decoy)
    product.configure(fork=str(decoy), form="anchored")
    product.pull_request(keeps_event=keeps_event)
    ran = product.act(command="verify", expect="fork")
    assert ran.ok, ran.log
    (document,) = (product.runner.directory / "temp").rglob("verify.jsonl")
    assert f"fork {product.fork.repo.path} " in document.read_text(), "the base's fork is the one that counts"
    told = [one for one in ran.commands if one.name == "warning"]
    assert {one.properties["title"] for one in told} == {"changed here, not used"}
    assert {one.properties["file"] for one in told} == {WORKSPACE}
    assert any(f"series.product.fork: '{decoy}', not '{product.fork.repo.path}'" in one.data for one in told)
    assert any("series.product.form: added ('anchored')" in one.data for one in told)


def test_the_policy_may_be_named_and_must_be_there(product: Product) -> None:
    product.configure(fork_ref="nowhere")
    product.commit("A workspace that cannot be verified")
    assert not product.act(command="verify", expect="fork").ok
    ran = product.act(command="verify", expect="fork", policy_from=product.base)
    assert ran.ok, ran.log
    gone = product.act(command="verify", expect="fork", policy_from="origin/gone")
    assert gone.steps[-2].outcome == "failure"
    assert "the commit origin/gone, which contains the policy, is missing" in errors(gone)[0].data
    assert gone.outputs["holds"] == "unknown"


def test_a_base_that_is_not_there_is_no_pass(product: Product) -> None:
    product.pull_request(keeps_event=False)
    run_git("checkout", "-q", "proposal", cwd=product.root)
    ran = product.act(command="verify", expect="fork")
    assert not ran.ok
    assert ran.outputs["holds"] == "unknown"
    assert "fetch-depth: 2" in errors(ran)[0].data


def test_a_patch_that_no_longer_applies_is_annotated_on_the_line_of_its_hunk(product: Product) -> None:
    patch = product.patch(2)
    patch.write_text(patch.read_text().replace(" line 18\n", " line 18 as nobody wrote it\n"))
    ran = product.act(command="verify", expect="fork")
    (error,) = [one for one in errors(ran) if "0002" in one.properties.get("file", "")]
    assert line_of(patch, error.properties["line"]) == " line 18 as nobody wrote it"
    assert ran.outputs["holds"] == "false"


def test_a_series_that_is_compared_with_nothing_is_not_said_to_hold(product: Product) -> None:
    ran = product.act(command="verify", args="--apply-only")
    assert ran.ok
    assert ran.outputs["holds"] == "unknown"


@pytest.mark.parametrize("args", ["--help", "--rules"])
def test_an_exit_without_an_answer_is_no_pass(product: Product, args: str) -> None:
    ran = product.act(command="lint", args=args)
    assert not ran.ok
    assert ran.outputs["holds"] == ""


def test_lint_annotates_lines_and_writes_sarif(product: Product) -> None:
    patch = product.patch(2)
    patch.write_text(patch.read_text().replace("+changed by commit 2", "+see /home/jane/notes"))
    ran = product.act(command="lint")
    assert not ran.ok
    (remark,) = [one for one in ran.commands if one.properties["title"] == "product: home-path"]
    assert remark.name == "warning"
    assert line_of(patch, remark.properties["line"]) == "+see /home/jane/notes"
    (run,) = json.loads(Path(ran.outputs["sarif"]).read_text())["runs"]
    place = run["results"][0]["locations"][0]["physicalLocation"]
    assert place["artifactLocation"]["uri"] == f"back%20end/patches/product/{patch.name}"
    assert place["region"]["startLine"] == int(remark.properties["line"])


def test_canary_gives_the_commit_it_looked_at_and_the_parts_of_an_issue(product: Product) -> None:
    tip = product.fork.upstream.commit("Turn it upside down", {"src/kernel.cu": "nothing left\n"})
    ran = product.act(command="canary", args="--blame")
    assert not ran.ok
    assert ran.outputs["upstream-commit"] == tip
    issue = Path(ran.outputs["issue"])
    assert (issue / "state").read_text() == "open\n"
    assert (issue / "title").read_text() == "canary: 3 patches of product no longer apply to upstream\n"
    assert (issue / "body.md").read_text().startswith("<!-- patchstack-canary: canary -->\n")
    pinned = product.act(command="canary", upstream_commit=product.fork.pin)
    assert pinned.ok and pinned.outputs["upstream-commit"] == product.fork.pin
    assert (Path(pinned.outputs["issue"]) / "state").read_text() == "closed\n"


HOSTILE_SUBJECT = "::error::x%0A::add-mask::e ##[add-mask]e <img src=x onerror=alert(1)> @everyone | `x` [a](http://e)"
HOSTILE_NAME = "0002-%0A::set-env name=PATH::x,line=1 ##[add-path]evil.patch"


def hostile(product: Product) -> Path:
    """Return a patch that does not apply, and whose subject, file name and contents look like commands."""
    patch = product.patch(2)
    text = patch.read_text()
    text = re.sub(r"Subject: .*\n", f"Subject: [PATCH] {HOSTILE_SUBJECT}\n", text)
    text = text.replace(" line 18\n", " ::warning::line 18\n").replace(
        "src/kernel.cu", "src/::stop-commands::x/kernel.cu"
    )
    evil = patch.with_name(HOSTILE_NAME)
    evil.write_text(text + "\n::add-mask::behind the end\n##[add-mask]x\r::add-mask::y\n")
    patch.unlink()
    newline = product.patches / "0004-two\n::add-mask::lines.patch"
    newline.write_text("::add-mask::no patch at all\n")
    return evil


@pytest.mark.parametrize("command", ["verify", "lint", "canary"])
def test_hostile_names_and_subjects_are_never_commands(product: Product, command: str) -> None:
    evil = hostile(product)
    ran = product.act(command=command, **({"expect": "fork"} if command == "verify" else {}))
    assert not ran.ok
    assert {one.name for one in ran.commands} <= {"error", "warning", "notice"}
    assert ran.commands, ran.log
    named = [one for one in ran.commands if "file" in one.properties]
    assert all(set(one.properties) <= {"file", "line", "title"} for one in ran.commands)
    if command != "canary":
        assert any(one.properties["file"] == f"back end/patches/product/{evil.name}" for one in named)
    bare = re.sub(
        r"(?m)^(`{3,}).*?^\1$|<code>[^<>]*</code>|</?(?:details(?: open)?|summary)>", "", ran.summary, flags=re.DOTALL
    )
    assert not re.search(r"<(?!!-- )|@|\]\(|&lt;img", bare.replace("<!-- ", "")), bare


def test_a_workspace_that_cannot_be_used_is_an_error_and_no_pass(product: Product) -> None:
    (product.root / WORKSPACE).write_text("series: {product: {patches: '::add-mask::x\n  ##[add-mask]y'}}\n")
    ran = product.act(command="verify")
    assert not ran.ok
    assert ran.outputs["holds"] == "unknown"
    assert {one.name for one in ran.commands} == {"error"}
    assert "cannot be used" in ran.summary


@pytest.mark.parametrize(
    ("inputs", "words"),
    [
        ({"command": "::add-mask::x"}, "is not one of verify, lint, canary, build, gate"),
        ({"series": "--workspace"}, "is not the name of a series"),
        ({"workspace": "../elsewhere/patchstack.yaml"}, "is not below the repository's root"),
        ({"command": "lint", "arch": "121"}, "arch can only be used with the command build"),
        ({"args": "'open"}, "args cannot be parsed"),
        ({"upstream-commit": "main"}, "is not a full commit id"),
    ],
)
def test_inputs_that_cannot_be_are_told_and_nothing_is_run(
    product: Product, inputs: dict[str, str], words: str
) -> None:
    ran = product.runner.act(ROOT, {"workspace": WORKSPACE, **inputs})
    assert not ran.ok
    (error,) = ran.commands
    assert (error.name, words in error.data) == ("error", True), error
    assert ran.summary == ""


def test_code_in_the_workspace_is_not_imported(product: Product) -> None:
    for name in ("patchstack", "typing", "json"):
        (product.root / name).mkdir()
        (product.root / name / "__init__.py").write_text("raise SystemExit('imported from the workspace')\n")
        (product.root / name / "__main__.py").write_text("print('{}')\n")
    ran = product.act(command="verify", expect="fork")
    assert ran.ok, ran.log
    assert ran.outputs["applied-tree"] == product.fork.trees[-1]


@pytest.mark.parametrize("key", ["upstream", "fork"])
def test_an_address_of_a_repository_starts_no_program(product: Product, key: str) -> None:
    evil = product.root.parent / "evil"
    for address in (f"ext::touch {evil}", f"--upload-pack=touch {evil}", f"ssh://-oProxyCommand=touch%20{evil}/x"):
        product.configure(**{key: address})
        ran = product.act(command="verify", expect="fork")
        assert not ran.ok
        assert ran.outputs["holds"] == "unknown"
    assert not evil.exists()


def test_what_was_fetched_is_kept_by_the_default_branch_and_read_by_a_pull_request(product: Product) -> None:
    upstream = product.fork.upstream.path
    run_git("config", "uploadpack.allowFilter", "true", cwd=upstream)
    run_git("config", "uploadpack.allowAnySHA1InWant", "true", cwd=upstream)
    product.configure(upstream=f"file://{upstream}")
    product.base = product.commit("By URL")
    first = product.act(command="verify", expect="fork")
    assert first.ok, first.log
    (kept,) = (product.runner.directory / "caches").iterdir()
    assert any(kept.rglob("*.pack"))
    again = product.act(command="verify", expect="fork")
    assert [step.outcome for step in again.steps][-1] == "skipped", "an exact hit is not written again"
    product.pull_request()
    shutil.rmtree(product.runner.directory / "temp" / "patchstack-cache")
    os.rename(upstream, upstream.with_name("gone"))
    ran = product.act(command="verify", expect="fork", args="--offline")
    assert ran.ok, ran.log
    assert [path.name for path in (product.runner.directory / "caches").iterdir()] == [kept.name]


def test_a_tag_neither_reads_nor_writes_what_was_fetched(product: Product) -> None:
    product.runner.ref = "refs/tags/v1"
    ran = product.act(command="verify", expect="fork")
    assert {step.name: step.outcome for step in ran.steps}["Restore what was fetched"] == "skipped"
    assert list((product.runner.directory / "caches").iterdir()) == []


def test_programs_that_patchstack_runs_cannot_reach_the_runner_s_files(product: Product) -> None:
    seen = product.runner.directory / "seen"
    write_program(product.runner.programs / "git", f'env >>"{seen}"\nPATH="{os.environ["PATH"]}" exec git "$@"')
    assert product.act(command="verify", expect="fork").ok
    names = {line.partition("=")[0] for line in seen.read_text().splitlines()}
    assert "PATH" in names
    assert not names & {"GITHUB_OUTPUT", "GITHUB_ENV", "GITHUB_PATH", "GITHUB_STEP_SUMMARY", "ACTIONS_RUNTIME_TOKEN"}
