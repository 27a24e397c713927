"""`patchstack ci summary`, `annotate`, `comment-body` and `sarif`: convert documents to text."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from patchstack.causes import InputUnreadable, NotReadable
from patchstack.cli.failures import talk
from patchstack.cli.options import PatchesOption, WorkspaceOption, nearest_workspace

if TYPE_CHECKING:
    from patchstack.report.annotations import Checkout
    from patchstack.report.canary_issue import Issue
    from patchstack.report.documents.read import Report

FilesArgument = Annotated[
    list[Path] | None,
    typer.Argument(
        metavar="FILE", help="Output of verify, lint, canary, build or gate run with --json [default: stdin]."
    ),
]
RootOption = Annotated[
    Path | None,
    typer.Option(
        metavar="DIR", help="The root of the repository [default: GITHUB_WORKSPACE, otherwise the current directory]."
    ),
]


def summary_command(files: FilesArgument = None) -> None:
    """Print documents as Markdown for a step summary or a comment. Untrusted text is escaped."""
    from patchstack.report.summary import part, summary

    print(summary([part(document) for document in given(files)]), end="")


def annotate_command(
    files: FilesArgument = None,
    patches: PatchesOption = None,
    root: RootOption = None,
    workspace: WorkspaceOption = None,
) -> None:
    """Print documents as workflow commands that annotate lines of the patch files."""
    from patchstack.report.annotations import all_remarks
    from patchstack.report.github import commands

    documents = given(files)
    ground = ground_of(documents, patches, root, workspace)
    for line in commands(all_remarks(documents, ground)):
        print(line)


def sarif_command(
    files: FilesArgument = None,
    patches: PatchesOption = None,
    root: RootOption = None,
    workspace: WorkspaceOption = None,
) -> None:
    """Print lint's findings as SARIF 2.1.0, for code scanning."""
    from json import dumps

    from patchstack.report.documents.lint import LintDocument
    from patchstack.report.sarif import sarif

    documents = given(files)
    if not any(isinstance(document, LintDocument) for document in documents):
        raise InputUnreadable("the input contains no lint document", hint="create it: patchstack lint --json > FILE")
    ground = ground_of(documents, patches, root, workspace)
    print(dumps(sarif(documents, ground), indent=1))


def comment_body_command(
    files: FilesArgument = None,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="DIR", help="Write body.md, title, marker and state to DIR."),
    ] = None,
    name: Annotated[str, typer.Option(metavar="NAME", help="The name that identifies the issue.")] = "canary",
    run: Annotated[str, typer.Option(metavar="URL", help="The run that reports the findings.")] = "",
    compiled: Annotated[
        str, typer.Option(metavar="RESULT", help="The result of the compile job: success, failure, skipped, …")
    ] = "",
) -> None:
    """Print canary's findings as the body of a single issue, with a hidden marker."""
    from patchstack.report.canary_issue import canary_issue

    issue = canary_issue(given(files), name, run=run, compiled=compiled)
    if output is None:
        print(issue.body, end="")
        return
    write_issue(output, issue)
    talk(f"wrote body.md, title, marker and state to {output}")


def write_issue(directory: Path, issue: Issue) -> None:
    """Write the parts of an issue as files for another job."""
    directory.mkdir(parents=True, exist_ok=True)
    state = "open" if issue.open else "closed"
    for name, text in {"body.md": issue.body, "title": issue.title, "marker": issue.marker, "state": state}.items():
        (directory / name).write_text(text if name == "body.md" else f"{text}\n", encoding="utf-8")


def given(files: Sequence[Path] | None) -> list[Report]:
    """Return the documents in the files, or in stdin if no files are given. Raises `UsageError` if there are none."""
    from patchstack.report.documents.read import read_documents

    documents: list[Report] = []
    for path in files or ():
        documents += read_documents(_read(path), str(path))
    if not files:
        documents = read_documents(sys.stdin.buffer.read().decode("utf-8", "replace"), "stdin")
    if not documents:
        raise InputUnreadable("the input contains no document", hint="create one: patchstack verify --json > FILE")
    return documents


def _read(path: Path) -> str:
    try:
        return path.read_bytes().decode("utf-8", "replace")
    except OSError as error:
        raise NotReadable(f"{path} cannot be read: {error.strerror}") from error


def ground_of(documents: Sequence[Report], patches: Path | None, root: Path | None, workspace: Path | None) -> Checkout:
    """Return the checkout with the patch directories of the series."""
    from patchstack.report.annotations import Checkout
    from patchstack.report.documents.read import subject_of

    directories: Mapping[str, Path] = {}
    if patches is not None:
        directories = {subject_of(document): patches for document in documents}
    elif (found := nearest_workspace(workspace)) is not None:
        directories = {one.name: one.patches for one in found.series}
    return Checkout(root=root or Path(os.environ.get("GITHUB_WORKSPACE") or "."), directories=directories)
