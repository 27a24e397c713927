"""Define the group `patchstack ci` and its commands."""

from __future__ import annotations

import typer

from patchstack.cli.ci.action import action_command, prepare_command
from patchstack.cli.ci.matrix import matrix_command
from patchstack.cli.ci.render import annotate_command, comment_body_command, sarif_command, summary_command
from patchstack.cli.lazy import STYLE

ci_app = typer.Typer(name="ci", no_args_is_help=True, help="Commands for continuous integration.", **STYLE)
ci_app.command("matrix", short_help="Print variants and suites as a matrix of jobs.")(matrix_command)
ci_app.command("summary", short_help="Convert documents to Markdown.")(summary_command)
ci_app.command("annotate", short_help="Convert documents to annotations on patch files.")(annotate_command)
ci_app.command("comment-body", short_help="Convert canary's findings to the body of an issue.")(comment_body_command)
ci_app.command("sarif", short_help="Convert lint's findings to SARIF.")(sarif_command)
ci_app.command("prepare", short_help="Run the first step of the GitHub Action: set up its cache.")(prepare_command)
ci_app.command("action", short_help="Run the main step of the GitHub Action: run, annotate, summarise.")(action_command)
