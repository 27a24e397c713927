"""Run the commands shown in the documentation and write down what they print, or with --check compare it.

A screen is a console block after a line `<!-- screen: DIR -->`: its `$` lines are run in DIR of a directory in which
`patchstack demo --no-build tour` was called, one after the other, and everything else in it is their output.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parent.parent
SCREEN = re.compile(r"(<!-- screen: (\S+) -->\n```console\n)(.*?)(\n```\n)", re.DOTALL)


def printed(command: str, directory: Path) -> str:
    """What a shell command prints on both streams, with this interpreter's `patchstack` on PATH."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, "NO_COLOR": "1", "LC_ALL": "C.UTF-8"}
    environment = {name: value for name, value in environment.items() if not name.startswith(("GIT_", "PYTHON"))}
    done = subprocess.run(
        ["bash", "-c", f"exec 2>&1; {command}"],
        cwd=directory,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stdout.rstrip("\n")


def rendered(text: str, tour: Path) -> str:
    """A document with the output of its screens as it is today."""

    def screen(match: re.Match[str]) -> str:
        lines = []
        for command in re.findall(r"^\$ (.*)$", match.group(3), re.MULTILINE):
            output = printed(command, tour / match.group(2))
            lines += [f"$ {command}", *([output] if output else [])]
        return match.group(1) + "\n".join(lines) + match.group(4)

    return SCREEN.sub(screen, text)


def main() -> int:
    """Exit status: 0 written or up to date, 1 out of date."""
    stale = []
    for document in (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))):
        text = document.read_text(encoding="utf-8")
        if "<!-- screen:" not in text:
            continue
        with tempfile.TemporaryDirectory() as scratch:
            printed("patchstack demo --no-build tour", Path(scratch))
            new = rendered(text, Path(scratch))
        if new != text:
            stale.append(document.relative_to(ROOT))
            if "--check" not in sys.argv:
                document.write_text(new, encoding="utf-8")
    if "--check" in sys.argv and stale:
        print(f"screens out of date in {', '.join(map(str, stale))}: make docs", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
