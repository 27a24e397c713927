"""`patchstack cost weights`: count the bytes of each tensor group."""

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
    tokens: Annotated[int, typer.Option("--tokens", min=1, metavar="N", help="The number of tokens in the step.")] = 1,
    imatrix: ImatrixOption = None,
    vary: VaryOption = None,
    html: HtmlOption = None,
    json: JsonOption = False,
) -> None:
    """Count the bytes of each tensor group, in the file and in a step.

    Each tensor belongs to one group. A step reads the expected number of distinct experts, single rows of the
    embeddings, and the draft block only if it drafts.
    """
    from patchstack.report.cost.answers import weights_answer
    from patchstack.workflow.cost import open_subject

    show(weights_answer(open_subject(model, server or (), imatrix), tokens, vary), json=json, html=html)
