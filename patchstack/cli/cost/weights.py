"""`patchstack cost weights`."""

from __future__ import annotations

from typing import Annotated

import typer

from patchstack.cli.cost.options import (
    HtmlOption,
    ImatrixOption,
    JsonOption,
    ModelArgument,
    ServerArgument,
    VaryOption,
    show,
)


def weights_command(
    model: ModelArgument,
    server: ServerArgument = None,
    tokens: Annotated[int, typer.Option("--tokens", min=1, metavar="N", help="Tokens of the step.")] = 1,
    imatrix: ImatrixOption = None,
    vary: VaryOption = None,
    html: HtmlOption = None,
    json: JsonOption = False,
) -> None:
    """Put each tensor in one group, and count its bytes in the file and in a step.

    Experts are read as the expected number of distinct ones, embeddings by the row, the draft block only when it
    drafts.
    """
    from patchstack.report.cost.answers import weights_answer
    from patchstack.workflow.cost import open_subject

    show(weights_answer(open_subject(model, server or (), imatrix), tokens, vary), json=json, html=html)
