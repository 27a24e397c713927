"""Read and check `patchstack.yaml` once. Every complaint names its line, and all complaints are reported together."""

from patchstack.workspace.alone import alone_in
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
from patchstack.workspace.write import add_series, move_pin

__all__ = [
    "FILE_NAME",
    "PLATFORMS",
    "SCRATCH",
    "LintPolicy",
    "SeriesConfig",
    "VariantConfig",
    "Waiver",
    "Workspace",
    "add_series",
    "alone_in",
    "find_workspace",
    "is_url",
    "located",
    "move_pin",
    "parse_size",
    "parse_time",
    "read_variants_file",
    "read_workspace",
    "read_yaml",
]
