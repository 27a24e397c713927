"""`patchstack cost prefix`: show what an agent's steps reuse, and the cost of alternatives."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from patchstack.cli.cost.options import HtmlOption, JsonOption, show


def prefix_command(
    logs: Annotated[list[Path], typer.Argument(metavar="LOG...", help="The logs, in the order of their requests.")],
    model: Annotated[Path, typer.Option("--model", "-m", metavar="MODEL", help="The model that served the requests.")],
    options: Annotated[
        str, typer.Option("--options", metavar="TEXT", help="The options of the server: '-c 32768 -np 1 -cms 0'.")
    ] = "",
    server: Annotated[
        str | None,
        typer.Option(
            "--server", metavar="URL", help="A llama-server with the model, which renders and tokenizes the prompts."
        ),
    ] = None,
    image_tokens: Annotated[
        int | None, typer.Option("--image-tokens", min=1, metavar="N", help="The number of tokens of an image.")
    ] = None,
    last_images: Annotated[
        int,
        typer.Option(
            "--last-images",
            min=1,
            metavar="K",
            help="The number of images at the end, for the alternative with images at the end.",
        ),
    ] = 3,
    html: HtmlOption = None,
    json: JsonOption = False,
) -> None:
    """Show what an agent's steps reuse of earlier steps, and which message broke the reuse.

    Also shows how many tokens the server would process in other cases, such as without a cache, or with prompts that
    only grow. LOG is the log of a llama-server, or a file of JSON lines. The lines are request bodies, answers with
    timings, or objects with request and response. Without --server, a token of a prompt is estimated as 4 bytes.
    """
    import shlex

    from patchstack.report.cost.answers import prefix_answer

    answer = prefix_answer(
        model, shlex.split(options), logs, server=server, image_tokens=image_tokens, last_images=last_images
    )
    show(answer, json=json, html=html)
