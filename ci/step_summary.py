"""Write docs/examples/ci/step-summary.md, the action's summary of the demo's edited series; or --check it."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

from document import kept
from screens import demo, environment

TARGET = Path(__file__).parent.parent / "docs" / "examples" / "ci" / "step-summary.md"
COMMAND = "patchstack verify edited --json | patchstack ci summary"


def generated() -> str:
    """Return the summary of the demo's series in which a patch was edited by hand."""
    made, _ = demo()
    done = subprocess.run(
        ["bash", "-c", COMMAND],
        cwd=made / "broken",
        env=environment(made.parent),
        capture_output=True,
        text=True,
        check=True,
    )
    shutil.rmtree(made.parent.parent)
    return done.stdout.rstrip("\n") + "\n"


if __name__ == "__main__":
    sys.exit(kept(TARGET, generated()))
