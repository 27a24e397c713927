"""Write docs/examples/ci/step-summary.md, what the action writes about the demo's edited series; or --check it."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from screens import printed

TARGET = Path(__file__).parent.parent / "docs" / "examples" / "ci" / "step-summary.md"
COMMAND = "patchstack verify edited --json | patchstack ci summary"


def generated() -> str:
    """The summary of the demo's series in which a patch was edited by hand."""
    with tempfile.TemporaryDirectory() as scratch:
        printed("patchstack demo --no-build tour", Path(scratch))
        return printed(COMMAND, Path(scratch) / "tour" / "broken") + "\n"


def main() -> int:
    """Exit status: 0 written or up to date, 1 out of date."""
    text = generated()
    if "--check" not in sys.argv:
        TARGET.write_text(text, encoding="utf-8")
        return 0
    if TARGET.read_text(encoding="utf-8") != text:
        print(f"{TARGET} is out of date: make docs", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
