"""Read, validate and change `patchstack.yaml`.

All problems in the settings are reported together, each with its line number.
"""

from patchstack.workspace.model import (
    FILE_NAME,
    SCRATCH,
    LintPolicy,
    SeriesConfig,
    VariantConfig,
    Waiver,
    Workspace,
    is_url,
    located,
)
from patchstack.workspace.node import read_yaml
from patchstack.workspace.read import (
    PLATFORMS,
    find_workspace,
    parse_size,
    parse_time,
    read_variants_file,
    read_workspace,
)

__all__ = [
    "FILE_NAME",
    "PLATFORMS",
    "SCRATCH",
    "LintPolicy",
    "SeriesConfig",
    "VariantConfig",
    "Waiver",
    "Workspace",
    "find_workspace",
    "is_url",
    "located",
    "parse_size",
    "parse_time",
    "read_variants_file",
    "read_workspace",
    "read_yaml",
]
