"""Run the commands shown in the documentation and write down what they print, or with --check compare it.

A screen is a console block after one of two lines. Its `$` lines are commands (`> ` continues one), and everything else
in it is their output.

`<!-- screen: DIR -->`: the commands run in DIR of a directory in which `patchstack demo --no-build tour` was called.

`<!-- run -->` or `<!-- run: 3…4 -->`: the commands run as a reader types them, one page from top to bottom, in a home
directory that is empty at first; `cd` counts for what follows. With 3…4 the first 3 and the last 4 lines of an output
are kept. Such pages may compile, so --check leaves them out unless --pages names them; times and ids are not compared.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from difflib import unified_diff
from pathlib import Path

ROOT = Path(__file__).parent.parent
SCREEN = re.compile(r"(<!-- screen: (\S+) -->\n```console\n)(.*?)(\n```\n)", re.DOTALL)
RUN = re.compile(r"(<!-- run(?:: (?P<head>\d+)…(?P<tail>\d+))? -->\n```console\n)(?P<body>.*?)(\n```\n)", re.DOTALL)
COMMAND = re.compile(r"^\$ (.*(?:\n>(?: .*)?)*)$", re.MULTILINE)

# How far a build is, and what took longest if it was long: different at every run.
PROGRESS = re.compile(r"\[\d+/\d+\] |.+ took [\d.]+ s of [\d.]+ s$")


def environment(**more: str) -> dict[str, str]:
    """The environment of a command, with this interpreter's `patchstack` on PATH."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    given = {**os.environ, "PATH": path, "NO_COLOR": "1", "LC_ALL": "C.UTF-8", **more}
    return {name: value for name, value in given.items() if not name.startswith(("GIT_", "PYTHON"))}


def printed(command: str, directory: Path, **more: str) -> str:
    """What a shell command prints on both streams."""
    done = subprocess.run(
        ["bash", "-c", f"exec 2>&1; {command}"],
        cwd=directory,
        env=environment(**more),
        stdin=subprocess.DEVNULL,
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


def ran(text: str, home: Path) -> str:
    """A document with the output of its runs, typed in a home directory from top to bottom."""
    place = home.parent / "place"
    place.write_text(f"{home}\n", "utf-8")
    more = {"HOME": str(home), "PATCHSTACK_CACHE": str(home / ".cache" / "patchstack"), "COLUMNS": "120"}
    more |= {f"XDG_{name}_HOME": str(home / path) for name, path in (("CONFIG", ".config"), ("CACHE", ".cache"))}

    def screen(match: re.Match[str]) -> str:
        lines = []
        for command in COMMAND.findall(match["body"]):
            typed = re.sub(r"\n> ?", "\n", command)
            here = Path(place.read_text("utf-8").strip())
            output = printed(f"trap 'pwd > {place}' EXIT\n{typed}", here, **more).replace(str(home), "/home/me")
            kept = [line for line in output.split("\n") if not PROGRESS.match(line)]
            lines += [f"$ {command}", *shortened(kept, match["head"], match["tail"])]
        return match.group(1) + "\n".join(line.rstrip() for line in lines) + "\n```\n"

    return RUN.sub(screen, text)


def shortened(lines: list[str], head: str | None, tail: str | None) -> list[str]:
    """The first and last lines of an output, with `…` between them."""
    if lines == [""]:
        return []
    if head is None or tail is None or len(lines) <= int(head) + int(tail) + 1:
        return lines
    return [*lines[: int(head)], "…", *lines[len(lines) - int(tail) :]]


def masked(text: str) -> str:
    """The text without what differs from machine to machine: ids, times, sizes, versions, and the blanks of tables."""
    text = re.sub(r"\b(?=[0-9a-f]*\d)[0-9a-f]{7,64}\b", "#", text)
    return re.sub(r"(?m)[ \t]+", " ", re.sub(r"[\d.]*\d( (?:s|min|h|ms|[kMG]i?B)\b)?", "#", text))


def page(document: Path, text: str) -> str:
    """The text of a page as it is today."""
    with tempfile.TemporaryDirectory() as scratch:
        if RUN.search(text):
            home = Path(scratch) / "home"
            home.mkdir()
            return ran(text, home)
        printed("patchstack demo --no-build tour", Path(scratch))
        return rendered(text, Path(scratch))


def main() -> int:
    """Exit status: 0 written or up to date, 1 out of date."""
    check = "--check" in sys.argv
    chosen = (
        [Path(name).resolve() for name in sys.argv[sys.argv.index("--pages") + 1 :]] if "--pages" in sys.argv else []
    )
    stale = []
    for document in chosen or (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))):
        text = document.read_text(encoding="utf-8")
        runs = RUN.search(text) is not None
        if ("<!-- screen:" not in text and not runs) or (runs and not chosen):
            continue
        new = page(document, text)
        if (masked(new) != masked(text)) if runs else (new != text):
            stale.append(document.relative_to(ROOT))
            if check:
                print(*unified_diff(text.splitlines(), new.splitlines(), lineterm="", n=1), sep="\n", file=sys.stderr)
        if new != text and not check:
            document.write_text(new, encoding="utf-8")
    if check and stale:
        print(f"screens out of date in {', '.join(map(str, stale))}: make docs", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
