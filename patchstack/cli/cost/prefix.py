"""`patchstack cost prefix`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from patchstack.cli.cost.options import HtmlOption, JsonOption, show


def prefix_command(
    logs: Annotated[list[Path], typer.Argument(metavar="LOG...", help="Logs, in order.")],
    model: Annotated[Path, typer.Option("--model", "-m", metavar="MODEL", help="The model that served them.")],
    options: Annotated[
        str, typer.Option("--options", metavar="TEXT", help="Options of the server: '-c 32768 -np 1 -cms 0'.")
    ] = "",
    server: Annotated[
        str | None,
        typer.Option("--server", metavar="URL", help="A llama-server with the model, to render and tokenize."),
    ] = None,
    image_tokens: Annotated[
        int | None, typer.Option("--image-tokens", min=1, metavar="N", help="Tokens of an image.")
    ] = None,
    last_images: Annotated[
        int, typer.Option("--last-images", min=1, metavar="K", help="Images at the end, for that alternative.")
    ] = 3,
    html: HtmlOption = None,
    json: JsonOption = False,
) -> None:
    """Show what an agent's steps reuse of earlier steps, which message broke the reuse, and what alternatives would
    process.

    LOG is JSON lines (request bodies, answers with timings, or objects with request and response) or the log of a
    llama-server. Without --server, tokens of prompts are estimated as 4 bytes each.
    """
    import shlex

    from patchstack.report.cost.answers import prefix_answer

    answer = prefix_answer(
        model, shlex.split(options), logs, server=server, image_tokens=image_tokens, last_images=last_images
    )
    show(answer, json=json, html=html)
