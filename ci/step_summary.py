"""Write docs/examples/ci/step-summary.md, what the action writes about the demo's edited series; or --check it."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from document import kept
from screens import printed

TARGET = Path(__file__).parent.parent / "docs" / "examples" / "ci" / "step-summary.md"
COMMAND = "patchstack verify edited --json | patchstack ci summary"


def generated() -> str:
    """The summary of the demo's series in which a patch was edited by hand."""
    with tempfile.TemporaryDirectory() as scratch:
        printed("patchstack demo --no-build tour", Path(scratch))
        return printed(COMMAND, Path(scratch) / "tour" / "broken") + "\n"


if __name__ == "__main__":
    sys.exit(kept(TARGET, generated()))
