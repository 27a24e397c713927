"""The commands of one gate alone, gathered only when one of them is asked for: their imports take time."""

from __future__ import annotations

import typer

from patchstack.cli.gates.backend_ops import backend_ops_command
from patchstack.cli.gates.command import command_command
from patchstack.cli.gates.completion import completion_command
from patchstack.cli.gates.drift import drift_command
from patchstack.cli.gates.engaged import engaged_command
from patchstack.cli.gates.kl import kl_command
from patchstack.cli.gates.red_green import red_green_command
from patchstack.cli.gates.rollback import rollback_command
from patchstack.cli.gates.tokens import tokens_command

kinds_app = typer.Typer(rich_markup_mode=None, context_settings={"help_option_names": ["-h", "--help"]})
kinds_app.command("completion", short_help="The same greedy transcript, byte for byte.")(completion_command)
kinds_app.command("tokens", short_help="The same token ids, through llama-server.")(tokens_command)
kinds_app.command("backend-ops", short_help="Operators against the CPU, all of them, none lost.")(backend_ops_command)
kinds_app.command("kl", short_help="KL divergence against a base.")(kl_command)
kinds_app.command("drift", short_help="KL divergence over growing contexts.")(drift_command)
kinds_app.command("rollback", short_help="Going back gives what going straight gives.")(rollback_command)
kinds_app.command("engaged", short_help="A switch leaves its mark, and without it there is none.")(engaged_command)
kinds_app.command("red-green", short_help="A test fails without its code, and passes with it.")(red_green_command)
kinds_app.command("command", short_help="Any program, with what it must print.")(command_command)
