"""Run the steps of an action or a job: shell steps with bash, this repository's actions for real, and small
replacements of GitHub's own actions."""

from __future__ import annotations

import glob
import json
import os
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML

from tests.runner.commands import Command, Listener, heard
from tests.runner.expressions import FUNCTIONS, condition, filled, text_of


@dataclass(frozen=True, slots=True, kw_only=True)
class StepResult:
    """The result of a step. `outcome` is success, failure, forgiven (`continue-on-error`) or skipped."""

    name: str
    outcome: str
    outputs: dict[str, str]
    listener: Listener


@dataclass(slots=True)
class Ran:
    """The result of an action or a job."""

    steps: list[StepResult] = field(default_factory=list)
    outputs: dict[str, str] = field(default_factory=dict)
    summary: str = ""

    @property
    def ok(self) -> bool:
        return all(step.outcome != "failure" for step in self.steps)

    @property
    def commands(self) -> list[Command]:
        return [command for step in self.steps for command in step.listener.commands]

    @property
    def log(self) -> str:
        return "\n".join(line for step in self.steps for line in step.listener.log)


def load(path: Path) -> Any:
    """Return a YAML file as plain values."""
    return YAML(typ="safe", pure=True).load(path.read_text("utf-8"))


@dataclass(slots=True)
class Runner:
    """A machine that runs jobs. `directory` is its own (temporary files, artifacts, caches); `workspace` the checkout;
    `checkout` is what `actions/checkout` puts at a `path`: as a link, or as an empty directory, because a policy takes
    no link that leads out; `programs` go before all others."""

    directory: Path
    workspace: Path
    checkout: Path
    programs: Path
    links_checkout: bool = True
    event_name: str = "push"
    ref: str = "refs/heads/main"
    event: dict[str, Any] = field(default_factory=dict)
    other: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    _count: int = 0

    def __post_init__(self) -> None:
        for name in ("temp", "artifacts", "caches", "files"):
            (self.directory / name).mkdir(parents=True, exist_ok=True)
        self.event.setdefault("repository", {"default_branch": "main"})

    def act(self, action: Path, inputs: Mapping[str, Any]) -> Ran:
        """Run a composite action."""
        document = load(action / "action.yml")
        given = {name: text_of(inputs.get(name, one.get("default", ""))) for name, one in document["inputs"].items()}
        unknown = set(inputs) - set(document["inputs"])
        assert not unknown, f"{action} has no inputs {unknown}"
        contexts = {**self._contexts(), "inputs": given}
        ran = self._steps(document["runs"]["steps"], contexts, {"GITHUB_ACTION_PATH": str(action)})
        ran.outputs = {
            name: text_of(filled(one["value"], contexts)) for name, one in document.get("outputs", {}).items()
        }
        return ran

    def job(
        self,
        workflow: Path,
        name: str,
        *,
        inputs: Mapping[str, Any] | None = None,
        needs: Mapping[str, Any] | None = None,
        matrix: Mapping[str, Any] | None = None,
        index: int = 0,
    ) -> Ran | None:
        """Run a job of a workflow, the one of its matrix with that index; None if its `if` keeps it from running."""
        document = load(workflow)
        job = document["jobs"][name]
        called = (document["on"].get("workflow_call") or {}).get("inputs", {}) if inputs is not None else {}
        given = {key: (inputs or {}).get(key, one.get("default")) for key, one in called.items()}
        contexts = {**self._contexts(), "inputs": given, "needs": dict(needs or {}), "matrix": dict(matrix or {})}
        contexts["strategy"] = {"job-index": index}
        environment = {key: text_of(filled(value, contexts)) for key, value in document.get("env", {}).items()}
        contexts["env"] = environment
        if "if" in job and not condition(job["if"], contexts, self._functions(failed=False)):
            return None
        ran = self._steps(job["steps"], contexts, environment)
        ran.outputs = {key: text_of(filled(value, contexts)) for key, value in job.get("outputs", {}).items()}
        return ran

    def _contexts(self) -> dict[str, Any]:
        github = {
            "event_name": self.event_name,
            "ref": self.ref,
            "ref_type": "tag" if self.ref.startswith("refs/tags/") else "branch",
            "event": self.event,
            "repository": "me/product",
            "server_url": "https://github.example",
            "run_id": "42",
            "token": "the-token",
            "workflow": "Series",
        }
        job = {"workflow_repository": "OWNER/patchstack", "workflow_sha": "0" * 40}
        return {"github": github, "job": job, "env": {}, "vars": {}, "steps": {}, "runner": {"os": "Linux"}}

    def _functions(self, *, failed: bool) -> dict[str, Any]:
        status = {"success": lambda: not failed, "failure": lambda: failed}
        return {**FUNCTIONS, **status, "always": lambda: True, "cancelled": lambda: False}

    def _steps(self, steps: list[dict[str, Any]], contexts: dict[str, Any], environment: Mapping[str, str]) -> Ran:
        ran = Ran()
        known: dict[str, Any] = {}
        contexts["steps"] = known
        failed = False
        for step in steps:
            name = step.get("name") or step.get("id") or step.get("uses") or step["run"]
            functions = self._functions(failed=failed)
            asks = any(word in step.get("if", "") for word in ("always()", "cancelled()", "failure()"))
            wanted = condition(step["if"], contexts, functions) if "if" in step else True
            if not wanted or (failed and not asks):
                result = StepResult(name=name, outcome="skipped", outputs={}, listener=Listener())
            elif "run" in step:
                result = self._shell(name, step, contexts, environment, ran)
            else:
                result = self._used(name, step, contexts, ran)
            bad = result.outcome == "failure" and not step.get("continue-on-error")
            failed = failed or bad
            ran.steps.append(result if bad or result.outcome != "failure" else replace(result, outcome="forgiven"))
            if "id" in step:
                known[step["id"]] = {
                    "outputs": result.outputs,
                    "outcome": result.outcome,
                    "conclusion": "failure" if bad else "success" if result.outcome == "failure" else result.outcome,
                }
        return ran

    def _shell(
        self, name: str, step: dict[str, Any], contexts: dict[str, Any], environment: Mapping[str, str], ran: Ran
    ) -> StepResult:
        """Run a shell step. Its script is the text in the YAML: expressions in it are not evaluated."""
        assert "${{" not in step["run"], step["run"]
        self._count += 1
        place = self.directory / "files" / f"step {self._count}"
        place.mkdir()
        (place / "script.sh").write_text(step["run"], encoding="utf-8")
        (place / "event.json").write_text(json.dumps(self.event), encoding="utf-8")
        for file in ("output", "env", "path", "summary", "state"):
            (place / file).touch()
        own = {key: text_of(filled(value, contexts)) for key, value in step.get("env", {}).items()}
        done = subprocess.run(
            ["bash", "--noprofile", "--norc", "-eo", "pipefail", str(place / "script.sh")],
            cwd=self.workspace,
            env={
                **{key: value for key, value in os.environ.items() if not key.startswith("PYTHON")},
                "PATH": f"{self.programs}{os.pathsep}{os.environ['PATH']}",
                "CI": "true",
                "GITHUB_ACTIONS": "true",
                "GITHUB_WORKSPACE": str(self.workspace),
                "GITHUB_REPOSITORY": "me/product",
                "GITHUB_EVENT_NAME": self.event_name,
                "GITHUB_EVENT_PATH": str(place / "event.json"),
                "GITHUB_REF": self.ref,
                "GITHUB_OUTPUT": str(place / "output"),
                "GITHUB_ENV": str(place / "env"),
                "GITHUB_PATH": str(place / "path"),
                "GITHUB_STATE": str(place / "state"),
                "GITHUB_STEP_SUMMARY": str(place / "summary"),
                "RUNNER_TEMP": str(self.directory / "temp"),
                "RUNNER_OS": "Linux",
                "RUNNER_ARCH": "X64",
                **environment,
                **own,
            },
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=300,
            check=False,
        )
        ran.summary += (place / "summary").read_text("utf-8")
        assert (place / "env").read_text() == (place / "path").read_text() == "", "variables of later steps were set"
        return StepResult(
            name=name,
            outcome="failure" if done.returncode else "success",
            outputs=values_of((place / "output").read_text("utf-8")),
            listener=heard(done.stdout.decode("utf-8", "replace")),
        )

    def _used(self, name: str, step: dict[str, Any], contexts: dict[str, Any], ran: Ran) -> StepResult:
        given = {key: filled(value, contexts) for key, value in step.get("with", {}).items()}
        action = step["uses"].partition("@")[0]
        outputs: dict[str, str] = {}
        ok = True
        listener = Listener()
        if action.startswith("./"):
            place = self.workspace / action
            inner = self.act(place if (place / "action.yml").exists() else self.checkout, given)
            ran.summary += inner.summary
            outputs, ok = inner.outputs, inner.ok
            listener = Listener(commands=inner.commands, log=inner.log.splitlines())
        elif action == "actions/checkout":
            if "path" in given and not (self.workspace / given["path"]).exists():
                place = self.workspace / given["path"]
                place.symlink_to(self.checkout) if self.links_checkout else place.mkdir()
        elif action == "actions/cache/restore":
            outputs["cache-hit"] = "true" if self._restore(given) else ""
        elif action == "actions/cache/save":
            shutil.copytree(given["path"], self.directory / "caches" / given["key"], symlinks=True)
        elif action == "actions/upload-artifact":
            self._upload(given)
        elif action == "actions/download-artifact":
            self._download(given)
        else:
            self.other.append((action, given))
        return StepResult(name=name, outcome="success" if ok else "failure", outputs=outputs, listener=listener)

    def _restore(self, given: Mapping[str, Any]) -> bool:
        found = sorted((self.directory / "caches").glob(f"{given['restore-keys']}*"))
        exact = self.directory / "caches" / given["key"]
        chosen = exact if exact.exists() else found[-1] if found else None
        if chosen is not None:
            shutil.copytree(chosen, given["path"], symlinks=True, dirs_exist_ok=True, copy_function=_replace)
        return bool(exact.exists())

    def _upload(self, given: Mapping[str, Any]) -> None:
        target = self.directory / "artifacts" / given["name"]
        target.mkdir(exist_ok=True)
        for path in map(Path, glob.glob(str(self.workspace / given["path"]))):
            if path.is_dir():
                shutil.copytree(path, target, dirs_exist_ok=True)
            else:
                shutil.copy(path, target)

    def _download(self, given: Mapping[str, Any]) -> None:
        """Download an artifact, whose number is its name here."""
        wanted = given.get("name") or given.get("artifact-ids") or given["pattern"]
        names = sorted(self.directory.joinpath("artifacts").glob(wanted))
        assert names, f"there is no artifact {given}"
        for path in names:
            shutil.copytree(path, self.workspace / given["path"], dirs_exist_ok=True)


def _replace(source: str, target: str) -> None:
    """Copy a file as tar extracts it: an existing file, which may be read-only, is removed first."""
    Path(target).unlink(missing_ok=True)
    shutil.copy2(source, target)


def values_of(text: str) -> dict[str, str]:
    """Return the values in a file of outputs: `name=value`, or `name<<delimiter` and lines up to it."""
    values: dict[str, str] = {}
    lines = iter(text.split("\n"))
    for line in lines:
        if not line:
            continue
        name, _, delimiter = line.partition("<<")
        if "=" in name or not delimiter:
            name, _, values_ = line.partition("=")
            values[name] = values_
            continue
        found = []
        for one in lines:
            if one == delimiter:
                break
            found.append(one)
        else:
            raise AssertionError(f"the value of {name} has no end")
        values[name] = "\n".join(found)
    return values
