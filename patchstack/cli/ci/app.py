"""`patchstack ci`: the group and its commands."""

from __future__ import annotations

import typer

from patchstack.cli.ci.action import action_command, prepare_command
from patchstack.cli.ci.matrix import matrix_command
from patchstack.cli.ci.render import annotate_command, comment_body_command, sarif_command, summary_command
from patchstack.cli.lazy import STYLE

ci_app = typer.Typer(name="ci", no_args_is_help=True, help="What continuous integration asks of patchstack.", **STYLE)
ci_app.command("matrix", short_help="Variants and suites as a matrix of jobs.")(matrix_command)
ci_app.command("summary", short_help="Documents as Markdown.")(summary_command)
ci_app.command("annotate", short_help="Documents as annotations on patch files.")(annotate_command)
ci_app.command("comment-body", short_help="What canary found, as the body of an issue.")(comment_body_command)
ci_app.command("sarif", short_help="What lint found, as SARIF.")(sarif_command)
ci_app.command("prepare", short_help="What the GitHub Action does before: its cache.")(prepare_command)
ci_app.command("action", short_help="What the GitHub Action does: run, annotate, summarise.")(action_command)
