"""Process several series, one after the other. An error in one series does not stop the others."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from patchstack.cli.failures import complain_of
from patchstack.errors import Exit, PatchstackError

if TYPE_CHECKING:
    from patchstack.workspace import SeriesConfig


def each_series(
    configs: Sequence[SeriesConfig],
    look: Callable[[SeriesConfig], Exit],
    failed: Callable[[str, PatchstackError], None] | None = None,
) -> Exit:
    """Process every series, and return the worst exit code.

    The error of a series is printed with the name of the series, and passed to `failed`. If there is only one series,
    its error is raised.
    """
    code = Exit.HOLDS
    for config in configs:
        try:
            code = max(code, look(config))
        except PatchstackError as error:
            if len(configs) == 1:
                raise
            complain_of(error, config.name)
            if failed is not None:
                failed(config.name, error)
            code = max(code, error.exit_code)
    return code
