"""`patchstack ci prepare` and `ci action`: run the steps of the GitHub Action.

`prepare` outputs the cached directory and whether this job may write it. `action` runs the requested command as a
separate program, and converts its documents to annotations, a summary, outputs and files.
"""

from __future__ import annotations

import contextlib
import os
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from patchstack.causes import NoRunner
from patchstack.errors import Exit, PatchstackError
from patchstack.files.places import CachePlaces

if TYPE_CHECKING:
    from patchstack.cli.ci.inputs import Event, Inputs
    from patchstack.process import Finished
    from patchstack.report.annotations import Checkout
    from patchstack.report.documents.read import Report
    from patchstack.report.github import Annotation
    from patchstack.workspace import SeriesConfig

_MOST_TOLD = 10
_HOURS = 6 * 3600.0  # the time limit of a job on GitHub's runners


def prepare_command() -> None:
    """Set the outputs for the cache and for the report directory.

    The outputs `read`, `write`, `path`, `key`, `prefix` and `cache` describe the cache of earlier runs. `report` is an
    empty directory for the files of the action.
    """
    with _told_on_the_runner():
        _prepare()


def _prepare() -> None:
    from patchstack.cli.ci.cached import cache_inputs, cache_plan
    from patchstack.cli.ci.inputs import read_event, read_inputs
    from patchstack.report.github import write_values

    inputs = read_inputs(os.environ)
    workspace = _root() / inputs.workspace
    plan = cache_plan(
        inputs.command,
        read_event(os.environ),
        wanted=os.environ.get("PATCHSTACK_CI_CACHE", "true") == "true",
        content=cache_inputs(workspace, _directories(workspace)),
        platform=f"{os.environ.get('RUNNER_OS', 'Linux')}-{os.environ.get('RUNNER_ARCH', 'any')}",
    )
    cache = _temporary() / "patchstack-cache"
    report = Path(tempfile.mkdtemp(prefix=f"patchstack-{inputs.command}-", dir=_temporary()))
    values = {
        "read": "true" if plan.read else "false",
        "write": "true" if plan.write else "false",
        "key": plan.key,
        "prefix": plan.prefix,
        "path": str(CachePlaces(cache).repositories),
        "cache": str(cache),
        "report": str(report),
    }
    write_values(_file("GITHUB_OUTPUT"), values)


def action_command() -> None:
    """Run the command that the inputs of the action name, and report the result on the runner.

    Exits with the command's exit code.
    """
    with _told_on_the_runner():
        code = _act()
    raise typer.Exit(code)


@contextlib.contextmanager
def _told_on_the_runner() -> Iterator[None]:
    """Report errors in the block as escaped annotations, because error messages may contain untrusted text."""
    from patchstack.report.github import Annotation, Level

    try:
        yield
    except PatchstackError as error:
        _say(Annotation(level=Level.ERROR, title="patchstack", message=error.render()).command)
        raise typer.Exit(int(error.exit_code)) from error


def _act() -> int:
    from patchstack.cli.ci.inputs import read_event, read_inputs
    from patchstack.cli.ci.policy import policy_source

    inputs = read_inputs(os.environ)
    event = read_event(os.environ)
    report = Path(os.environ.get("PATCHSTACK_CI_REPORT") or tempfile.mkdtemp(dir=_temporary()))
    try:
        policy = policy_source(inputs, event, _root())
        told = _not_used(inputs, policy)
    except PatchstackError as error:
        return _refused(inputs, report, error)
    return _run(inputs, event, report, told, policy)


def _not_used(inputs: Inputs, policy: str) -> list[Annotation]:
    """Return annotations about untrusted changes to the workspace file, which are ignored."""
    from patchstack.report.github import Annotation, Level
    from patchstack.series.policy import policy_from

    if not policy:
        return []
    with policy_from(_root() / inputs.workspace, policy) as found:
        said = found.not_used
    title = "changed here, not used"
    hint = "a maintainer must make this change on the base branch"
    return [
        Annotation(level=Level.WARNING, title=title, message=f"{one}. {hint}", file=inputs.workspace)
        for one in said[:_MOST_TOLD]
    ]


def _refused(inputs: Inputs, report: Path, error: PatchstackError) -> int:
    """Report why the command was not run, and return the exit code."""
    from patchstack.report.github import Annotation, Level, commands, write_values
    from patchstack.report.summary import summary
    from patchstack.report.text import block

    told = Annotation(level=Level.ERROR, title="patchstack", message=error.render(), file=inputs.workspace)
    with _file("GITHUB_STEP_SUMMARY").open("a", encoding="utf-8") as out:
        out.write(summary([["### refused", "", *block(error.render().splitlines(), "text")]]))
    for line in commands([told]):
        _say(line)
    code = int(error.exit_code)
    write_values(_file("GITHUB_OUTPUT"), {**_outputs(inputs, [], code), "report": str(report)})
    return code


def _run(inputs: Inputs, event: Event, report: Path, told: list[Annotation], policy: str) -> int:
    """Run the command and report its result."""
    from patchstack.report.github import commands, write_values
    from patchstack.report.summary import failure, part, summary

    workspace = _root() / inputs.workspace
    done, documents = _carried_out(inputs, report, workspace, policy)
    ground = _ground(_root(), workspace)
    told = told + _remarks(documents, ground, by_lock=event.pull_request)
    parts = [part(document) for document in documents]
    code = done.code if done.code >= 0 else 128 - done.code
    if not documents:
        parts = [failure(inputs.command.value, code, done.complaint)]
        told = [*told, _unspoken(inputs, code, done.complaint)]
        code = code or int(Exit.INVALID)  # without a document, nothing was proved
    with _file("GITHUB_STEP_SUMMARY").open("a", encoding="utf-8") as out:
        out.write(summary(parts))
    for line in commands(told):
        _say(line)
    outputs = _outputs(inputs, documents, code) | _files(inputs, documents, ground, report)
    write_values(_file("GITHUB_OUTPUT"), {**outputs, "report": str(report)})
    return code


def _carried_out(inputs: Inputs, report: Path, workspace: Path, policy: str) -> tuple[Finished, list[Report]]:
    """Run the command in the root directory of the repository, and return its result and its documents.

    The documents are also written to the report directory.
    """
    from patchstack.cli.ci.inputs import Command, arguments, handed_on
    from patchstack.process import run
    from patchstack.report.documents.read import read_documents
    from patchstack.report.github import stopped
    from patchstack.report.summary import in_a_line

    elsewhere = inputs.command is Command.BUILD and inputs.upstream_commit
    by_hand = _by_hand(inputs, workspace, policy) if elsewhere else ()
    words = arguments(inputs, report, policy=policy, by_hand=by_hand)
    report.mkdir(parents=True, exist_ok=True)
    with stopped(_say):
        _say(f"patchstack {' '.join(words)}")
        done = run(
            [sys.executable, "-I", "-m", "patchstack", *words],
            cwd=_root(),
            env=handed_on(os.environ),
            timeout=_HOURS,
            on_stderr=_say,
        )
        (report / f"{inputs.command}.jsonl").write_bytes(done.stdout)
        documents = read_documents(done.stdout.decode("utf-8", "replace"), f"patchstack {inputs.command}")
        for document in documents:
            _say(in_a_line(document))
    return done, documents


def _remarks(documents: list[Report], ground: Checkout, *, by_lock: bool) -> list[Annotation]:
    """Return the annotations for the documents. If `by_lock` is true, add notices about comparisons with a lock."""
    from patchstack.report.annotations import all_remarks

    return all_remarks(documents, ground) + (_against_locks(documents) if by_lock else [])


def _against_locks(documents: list[Report]) -> list[Annotation]:
    """Return notices about comparisons with a lock, which the same pull request can change."""
    from patchstack.report.documents.verify import VerifyDocument
    from patchstack.report.github import Annotation, Level

    return [
        Annotation(
            level=Level.NOTICE,
            title=f"{document.series}: compared with its lock",
            message="this pull request can change both patches and lock, so the comparison proves little. "
            "Compare with the fork",
        )
        for document in documents
        if isinstance(document, VerifyDocument) and (document.expected_from or "").startswith("lock ")
    ]


def _outputs(inputs: Inputs, documents: list[Report], code: int) -> dict[str, str]:
    """Return the outputs for later steps.

    The tree, the build and the commit are set only if there is a single document. A series that was compared with
    nothing does not count as holding, even if the comparison was disabled on request.
    """
    from patchstack.builds.record.record import BuildDocument
    from patchstack.cli.ci.inputs import Command
    from patchstack.report.documents.canary import CanaryDocument
    from patchstack.report.documents.verify import VerifyDocument

    compared = inputs.command is not Command.VERIFY or all(
        isinstance(one, VerifyDocument) and one.holds is not None for one in documents
    )
    fetched = CachePlaces(Path(os.environ.get("PATCHSTACK_CACHE") or os.devnull)).repositories.is_dir()
    values = {
        "holds": {0: "true" if compared else "unknown", 1: "false"}.get(code, "unknown"),
        "fetched": "true" if fetched else "",
        "applied-tree": "",
        "build-key": "",
        "build-directory": "",
        "upstream-commit": "",
    }
    match documents:
        case [VerifyDocument() as verified]:
            values["applied-tree"] = verified.applied_tree
        case [BuildDocument() as built]:
            values["applied-tree"] = built.source.tree
            values["build-key"] = built.key
            values["build-directory"] = built.out_dir or ""
        case [CanaryDocument() as looked]:
            values["upstream-commit"] = looked.upstream.commit
    return values


def _files(inputs: Inputs, documents: list[Report], ground: Checkout, report: Path) -> dict[str, str]:
    """Write the files for other jobs, and return their paths as outputs.

    The files are the SARIF file of lint, the issue of canary, and the test result of gate.
    """
    from json import dumps

    from patchstack.cli.ci.inputs import Command
    from patchstack.cli.ci.render import write_issue
    from patchstack.report.canary_issue import canary_issue
    from patchstack.report.documents.gates import GatesDocument, gate_predicate
    from patchstack.report.sarif import sarif

    if inputs.command is Command.LINT and documents:
        path = report / "lint.sarif"
        path.write_text(dumps(sarif(documents, ground), indent=1), encoding="utf-8")
        return {"sarif": str(path)}
    if inputs.command is Command.CANARY and documents:
        write_issue(report / "issue", canary_issue(documents, "canary"))
        return {"issue": str(report / "issue")}
    if documents and isinstance(documents[0], GatesDocument):
        path = report / "test-result.json"
        path.write_text(dumps(gate_predicate(documents[0]), indent=1), encoding="utf-8")
        return {"predicate": str(path)}
    return {}


def _unspoken(inputs: Inputs, code: int, complaint: str) -> Annotation:
    from patchstack.report.github import Annotation, Level

    lines = [line for line in complaint.splitlines() if line.strip()]
    errors = [line for line in lines if line.startswith("error:")]
    message = "\n".join(errors[:1] + [line for line in lines if line.startswith("hint:")][:1]) or f"exit {code}"
    return Annotation(level=Level.ERROR, title=f"patchstack {inputs.command}: exit {code}", message=message)


def _by_hand(inputs: Inputs, workspace: Path, policy: str) -> tuple[str, ...]:
    """Return the options that describe the series, with the upstream commit of the inputs in place of the pin."""
    config = _series(inputs, workspace, policy)
    return (
        *("--patches", str(config.patches), "--upstream", config.upstream, "--pin", inputs.upstream_commit),
        *(
            ("--variant", config.variant)
            if config.variant and not inputs.arch and "--variant" not in inputs.args
            else ()
        ),
    )


def _series(inputs: Inputs, workspace: Path, policy: str) -> SeriesConfig:
    from patchstack.cli.options import one_series, the_workspace
    from patchstack.series.policy import policy_from

    named = [inputs.series] if inputs.series else []
    if not policy:
        return one_series(the_workspace(workspace), named)
    with policy_from(workspace, policy) as found:
        return one_series(found, named)


def _ground(root: Path, workspace: Path) -> Checkout:
    from patchstack.report.annotations import Checkout

    return Checkout(root=root, directories=_directories(workspace))


def _directories(workspace: Path) -> Mapping[str, Path]:
    """Return the patch directory of each series.

    Return an empty mapping if the workspace is unusable, because the command itself reports the reason.
    """
    from patchstack.workspace import read_workspace

    try:
        return {one.name: one.patches for one in read_workspace(workspace).series}
    except (PatchstackError, OSError):
        return {}


def _root() -> Path:
    return Path(os.environ.get("GITHUB_WORKSPACE") or ".")


def _temporary() -> Path:
    return Path(os.environ.get("RUNNER_TEMP") or tempfile.gettempdir())


def _file(name: str) -> Path:
    """Return the path of a file that the runner reads. Raises `MissingError` if the runner has not set this path."""
    path = os.environ.get(name)
    if not path:
        raise NoRunner(
            f"{name} is not set: this is not a GitHub runner",
            hint="elsewhere, run for example: patchstack verify --json | patchstack ci summary",
        )
    return Path(path)


def _say(line: str) -> None:
    from patchstack.report.text import printable

    print(printable(line).replace("\n", " "), flush=True)
