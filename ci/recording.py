"""Record the demo in a pseudo-terminal, and draw docs/demo.svg from the recording: `make recording`.

The recording is an asciinema cast (build/demo.cast). The picture is SVG with a CSS animation and no script, and does
not move if the reader prefers reduced motion. Waiting times are shortened: the picture takes about half a minute.
Formats: https://docs.asciinema.org/manual/asciicast/v2/
"""

from __future__ import annotations

import json
import os
import pty
import re
import select
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from html import escape
from pathlib import Path

ROOT = Path(__file__).parent.parent
CAST, PICTURE = ROOT / "build" / "demo.cast", ROOT / "docs" / "demo.svg"
COLUMNS, ROWS = 100, 26
LONGEST = 300_000
"""The largest picture in bytes."""
STEP, READING = 0.35, 2.2
"""The longest silence in seconds, and how long a finished command stays."""
COMMANDS = [
    "patchstack verify",
    "patchstack verify edited --workspace broken/patchstack.yaml",
    "patchstack build --engine host",
    "patchstack gate record greedy --engine host --why 'the fork as it was exported'",
    "patchstack gate run --engine host",
    "patchstack accept paged-next --engine host --why 'half as many look-ups'",
    "patchstack accept coarse-keys --engine host",
    "patchstack ledger",
]
COLOURS = {"31": "#f47067", "32": "#8ddb8c", "33": "#daaa3f", "36": "#76e3ea"}
SEQUENCE = re.compile(r"\x1b\[([0-9;]*)([A-Za-z])|\x1b[^\[]")


def recorded() -> list[tuple[float, str]]:
    """Run the commands in a terminal, and return their output with the seconds since the start."""
    events: list[tuple[float, str]] = []
    with tempfile.TemporaryDirectory() as scratch:
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        given = {"PATH": path, "HOME": scratch, "TERM": "dumb", "FORCE_COLOR": "1", "LC_ALL": "C.UTF-8"}
        given |= {"COLUMNS": str(COLUMNS), "LINES": str(ROWS)}
        quiet = {"env": given, "cwd": scratch, "capture_output": True, "check": True}
        subprocess.run(["patchstack", "demo", "--no-build", "tour"], **quiet)  # type: ignore[call-overload]
        begun = time.monotonic()
        for command in COMMANDS:
            events.append((time.monotonic() - begun, f"$ {command}\r\n"))
            here, there = pty.openpty()
            with subprocess.Popen(
                ["bash", "-c", command], cwd=f"{scratch}/tour", env=given, stdin=there, stdout=there, stderr=there
            ) as program:
                os.close(there)
                while True:
                    ready, _, _ = select.select([here], [], [], 0.2)
                    try:
                        data = os.read(here, 65536) if ready else b""
                    except OSError:  # the other end is closed
                        break
                    if data:
                        text = data.decode("utf-8", "replace").replace(scratch, "/home/me")
                        events.append((time.monotonic() - begun, text))
                    elif program.poll() is not None:
                        break
            os.close(here)
            events.append((time.monotonic() - begun, "\r\n"))
    return events


def write_cast(events: list[tuple[float, str]]) -> None:
    """Write the recording as an asciinema cast."""
    CAST.parent.mkdir(exist_ok=True)
    head = {"version": 2, "width": COLUMNS, "height": ROWS, "title": "patchstack demo"}
    lines = [json.dumps(head), *(json.dumps([round(at, 3), "o", text]) for at, text in events)]
    CAST.write_text("\n".join(lines) + "\n", "utf-8")


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """A line of the screen: when it is complete, in seconds of the picture, and its coloured parts."""

    at: float
    parts: tuple[tuple[str, str], ...]


def lines_of(events: list[tuple[float, str]]) -> list[Line]:
    """Return the lines that scroll by, wrapped at the terminal's width, with shortened silences."""
    lines: list[Line] = []
    at = before = 0.0
    style, parts, wide = "", [], 0

    def end() -> None:
        nonlocal parts, wide
        lines.append(Line(at=at, parts=tuple(parts)))
        parts, wide = [], 0

    for moment, text in events:
        at += min(moment - before, STEP)
        before = moment
        if text.startswith("$ patchstack") and lines:
            at += READING
        place = 0
        for match in [*SEQUENCE.finditer(text), None]:
            plain = text[place : match.start() if match else len(text)]
            for piece in re.split(r"(\r?\n)", plain):
                if re.fullmatch(r"\r?\n", piece):
                    end()
                    continue
                while piece:
                    room = COLUMNS - wide
                    parts.append((piece[:room], style))
                    wide += len(piece[:room])
                    piece = piece[room:]
                    if piece:
                        end()
            if match:
                place = match.end()
                if match[2] == "m":
                    style = next((COLOURS[code] for code in (match[1] or "").split(";") if code in COLOURS), "")
    return lines


def picture(lines: list[Line]) -> str:
    """Return the animated SVG: lines appear, and the screen scrolls when it is full."""
    whole = lines[-1].at + 4
    high, wide, line_high = ROWS * 18 + 24, COLUMNS * 8 + 24, 18
    moments = sorted({line.at for line in lines})
    steps, body = [], []
    for moment in moments:
        shown = sum(line.at <= moment for line in lines)
        steps.append(f"{100 * moment / whole:.2f}%{{transform:translateY({-line_high * max(0, shown - ROWS)}px)}}")
    last = -line_high * max(0, len(lines) - ROWS)
    appear = {moment: f"a{place}" for place, moment in enumerate(moments)}
    frames = "".join(
        f"@keyframes {name}{{0%{{opacity:0}}{100 * moment / whole:.2f}%{{opacity:1}}}}.{name}{{animation-name:{name}}}"
        for moment, name in appear.items()
    )
    for number, line in enumerate(lines):
        spans = "".join(
            f'<tspan fill="{colour}">{escape(text)}</tspan>' if colour else escape(text) for text, colour in line.parts
        )
        command = ' font-weight="bold"' if line.parts and line.parts[0][0].startswith("$ ") else ""
        if spans:
            body.append(f'<text class="l {appear[line.at]}" y="{number * line_high}"{command}>{spans}</text>')
    title = "patchstack: verify, a broken copy, a build, the gates, a commit accepted and one rejected"
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {wide} {high}" role="img" aria-label="{title}">\n'
        f"<title>{title}</title>\n<style>\n"
        f"text{{font:13px ui-monospace,monospace;fill:#d5dde7;white-space:pre}}\n"
        f".l,.s{{animation-duration:{whole:.1f}s;animation-iteration-count:infinite;animation-timing-function:step-end}}\n"
        f".s{{animation-name:s;transform:translateY({last}px)}}\n"
        f"@keyframes s{{0%{{transform:none}}{''.join(steps)}}}\n{frames}\n"
        "@media (prefers-reduced-motion:reduce){.l,.s{animation:none}}\n</style>\n"
        f'<rect width="{wide}" height="{high}" rx="8" fill="#161c24" stroke="#46556a"/>\n'
        f'<svg x="12" y="12" width="{wide - 24}" height="{high - 24}" overflow="hidden"><g class="s">'
        f'<g transform="translate(0 13)">\n' + "\n".join(body) + "\n</g></g></svg>\n</svg>\n"
    )


def main() -> int:
    """Exit status: 0 drawn, 1 the picture is too large, 3 a program is missing."""
    if missing := [one for one in ("bash", "c++", "cmake", "ninja") if shutil.which(one) is None]:
        print(f"not installed: {', '.join(missing)}", file=sys.stderr)
        return 3
    os.environ["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    events = recorded()
    write_cast(events)
    lines = lines_of(events)
    drawn = picture(lines)
    if len(drawn.encode()) > LONGEST:
        print(f"the picture has {len(drawn.encode())} bytes, more than {LONGEST}", file=sys.stderr)
        return 1
    PICTURE.write_text(drawn, "utf-8")
    print(f"{PICTURE.relative_to(ROOT)}: {len(lines)} lines, {lines[-1].at:.0f} s, {len(drawn.encode())} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main())
