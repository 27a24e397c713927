"""`patchstack cost shape`: write a copy of a model without its weights."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from patchstack.cli.cost.options import ModelArgument


def shape_command(
    model: ModelArgument,
    output: Annotated[Path, typer.Option("--output", "-o", metavar="FILE", help="The file to write.")],
) -> None:
    """Write a copy of a model with its header and a hole instead of the weights.

    llama.cpp's tools load the copy in seconds, and report their allocations. Tensors of up to 64 KiB (norms, biases,
    decays) are copied. The output of such a model is meaningless.
    """
    from patchstack.cost.model import read_model, write_shape

    for path in write_shape(read_model(model), output):
        print(f"{path}: {path.stat().st_size:,} bytes, of which {512 * path.stat().st_blocks:,} are on disk")
