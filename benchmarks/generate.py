"""Generate a repository of llama.cpp's shape with a series of patches on it; the same seed gives the same ids.

`python benchmarks/generate.py DIR [--files N] [--patches N] [--largest BYTES] [--seed N]` writes `DIR/repo` (bare; the
branches `pin` and `fork`) and `DIR/patches`. Standard library and git only.
"""

from __future__ import annotations

import argparse
import os
import random
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO

# Sizes in bytes at every tenth of llama.cpp's files; the last one holds for the whole shape only (`Shape.largest`).
_SIZES = (200, 250, 500, 1_000, 1_800, 2_800, 4_400, 6_500, 11_000, 26_000, 600_000)
_LINE_BYTES = 36
_FILES_PER_DIRECTORY = 30
_HOT_FILES = 12
_HOT_LINES = (5_000, 15_000)
_FILES_IN_A_PATCH = (35, 13, 24, 8, 4, 4, 4, 2, 2, 2, 1, 1)
_SWEEP_EVERY = 18
_WORDS = ("ctx", "cache", "block", "tensor", "graph", "row", "head", "mask", "kv", "scale", "stream", "token", "view")
_COMMON = (b"", b"", b"    }", b"        }", b"}", b"    return true;", b"        break;", b"#endif")


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """The size of the tree and of the series. `largest` is the size in bytes of the largest ordinary file."""

    files: int = 3_000
    patches: int = 54
    largest: int = _SIZES[-1]
    seed: int = 1


def git_environment() -> dict[str, str]:
    """Return this environment without `GIT_*`, without any git configuration, and without network."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    kept |= {"GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_SYSTEM": "/dev/null", "LC_ALL": "C"}
    return kept | {"GIT_NO_LAZY_FETCH": "1", "GIT_ALLOW_PROTOCOL": "file"}


def generate(directory: Path, shape: Shape) -> None:
    """Write the repository and its series below a directory."""
    repo, patches = directory / "repo", directory / "patches"
    environment = git_environment()
    subprocess.run(["git", "init", "--quiet", "--bare", str(repo)], env=environment, check=True)
    command = ["git", "-C", str(repo), "-c", "core.compression=1", "fast-import", "--quiet"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, env=environment) as importer:
        assert importer.stdin is not None
        _write_history(importer.stdin, shape)
    if importer.returncode:
        raise SystemExit("git fast-import failed")
    command = ["git", "-C", str(repo), "format-patch", "--quiet", "--output-directory", str(patches), "pin..fork"]
    subprocess.run(command, env=environment, check=True)


def _pick(rng: random.Random, low: int, high: int) -> int:
    """Return a number from low to high, both included. Uses `random()`, which gives the same numbers in every version
    of Python."""
    return low + int(rng.random() * (high - low + 1))


def _directories(count: int) -> list[str]:
    """Return directories in a tree, three on each level, from the top down."""
    paths: list[str] = []
    for number in range(count):
        name = f"{_WORDS[number % len(_WORDS)]}-{number:03d}"
        paths.append(name if number < 8 else f"{paths[(number - 8) // 3]}/{name}")
    return paths


def layout(shape: Shape) -> dict[str, int]:
    """Return every file of the pin with its number of lines; the hot files, which many patches touch, come first."""
    rng = random.Random(shape.seed)
    directories = _directories(max(12, shape.files // _FILES_PER_DIRECTORY))
    weights = [1 / (number + len(directories) / 10) for number in range(len(directories))]
    files = {f"{directories[number]}/hot-{number:02d}.cpp": _pick(rng, *_HOT_LINES) for number in range(_HOT_FILES)}
    where = rng.choices(directories, weights, k=shape.files - len(files))
    for number, directory in enumerate(where):
        suffix = ("cpp", "h", "py", "md")[number % 4]
        files[f"{directory}/file-{number:05d}.{suffix}"] = 1 + _size(rng, shape) // _LINE_BYTES
    return files


def _size(rng: random.Random, shape: Shape) -> int:
    tenth, rest = divmod(rng.random() * (len(_SIZES) - 1), 1)
    low, high = _SIZES[int(tenth)], _SIZES[int(tenth) + 1]
    return min(shape.largest, int(low * (high / low) ** rest))


def _pool(shape: Shape) -> list[bytes]:
    """Return the lines that files are made of: many that occur in a few places, and a few that occur everywhere."""
    rng = random.Random(shape.seed)
    lines = [_statement(rng, f"v{number}") for number in range(6_000)]
    return lines + list(_COMMON) * (len(lines) // 4 // len(_COMMON))


def _statement(rng: random.Random, name: str) -> bytes:
    first, second = rng.choices(_WORDS, k=2)
    return b"%*s" % (_pick(rng, 30, 52), f"const auto {name} = {first}_{second}({_pick(rng, 0, 99)});".encode())


def _lines(shape: Shape, pool: list[bytes], path: str, count: int) -> list[bytes]:
    return random.Random(f"{shape.seed}/{path}").choices(pool, k=count)


def _write_history(out: IO[bytes], shape: Shape) -> None:
    """Return the pin and the commits of the series, as a stream for `git fast-import`."""
    files, pool = layout(shape), _pool(shape)
    _write_commit(out, "pin", 0)
    for path, count in files.items():
        _write_file(out, path, _lines(shape, pool, path, count))
    out.write(b"reset refs/heads/fork\nfrom refs/heads/pin\n\n")
    for number, changed in enumerate(_series(shape, files, pool), 1):
        _write_commit(out, "fork", number)
        for path, lines in changed.items():
            _write_file(out, path, lines)


def _write_commit(out: IO[bytes], branch: str, number: int) -> None:
    message = f"Change number {number}\n\nGenerated.\n".encode() if number else b"The pin\n"
    who = b"Generated <generated@example.com> %d +0000" % (1_700_000_000 + number)
    out.write(b"commit refs/heads/%s\nauthor %s\ncommitter %s\ndata %d\n" % (branch.encode(), who, who, len(message)))
    out.write(message + b"\n")


def _write_file(out: IO[bytes], path: str, lines: list[bytes]) -> None:
    text = b"\n".join(lines) + b"\n"
    out.write(b"M 100644 inline %s\ndata %d\n%s\n" % (path.encode(), len(text), text))


def _series(shape: Shape, files: dict[str, int], pool: list[bytes]) -> Iterator[dict[str, list[bytes]]]:
    """Yield for every patch the files it changes, with their new lines. Most touch one to three files; a few touch
    many."""
    rng = random.Random(shape.seed + 1)
    paths = list(files)
    hot, at_top = paths[:_HOT_FILES], [path.rpartition("/")[0] for path in paths[:_HOT_FILES]]
    now: dict[str, list[bytes]] = {}
    for number in range(1, shape.patches + 1):
        sweep = number % _SWEEP_EVERY == _SWEEP_EVERY // 2
        count = len(hot) if sweep else rng.choices(range(1, len(_FILES_IN_A_PATCH) + 1), _FILES_IN_A_PATCH)[0]
        changed: dict[str, list[bytes]] = {}
        for path in hot if sweep else [rng.choices(hot if rng.random() < 0.6 else paths)[0] for _ in range(count)]:
            lines = now.get(path) or _lines(shape, pool, path, files[path])
            changed[path] = _edited(rng, lines, _pick(rng, 5, 20) if sweep else _pick(rng, 1, 4), number)
        if rng.random() < 0.2 and len(changed) < len(hot):
            path = f"{rng.choices(at_top)[0]}/new-{number:04d}.cpp"
            changed[path] = _lines(shape, pool, path, _pick(rng, 40, 300))
        now |= changed
        yield changed


def _edited(rng: random.Random, lines: list[bytes], hunks: int, number: int) -> list[bytes]:
    """Return the lines with that many places changed. About as many lines are removed as added, so that files keep
    their size."""
    result = list(lines)
    hunks = min(hunks, 1 + len(lines) // 40)
    step = len(lines) // hunks
    for hunk in range(hunks - 1, -1, -1):
        at = hunk * step + _pick(rng, 0, step // 2)
        cut = _pick(rng, 0, 10)
        result[at : at + cut] = [_statement(rng, f"p{number}_{hunk}_{line}") for line in range(_pick(rng, 1, 10))]
    return result


def _main() -> None:
    parser = argparse.ArgumentParser(description="Generate a repository of llama.cpp's shape with a series of patches.")
    parser.add_argument("directory", type=Path)
    parser.add_argument("--files", type=int, default=Shape().files)
    parser.add_argument("--patches", type=int, default=Shape().patches)
    parser.add_argument("--largest", type=int, default=Shape().largest, metavar="BYTES")
    parser.add_argument("--seed", type=int, default=Shape().seed)
    given = parser.parse_args()
    given.directory.mkdir(parents=True, exist_ok=True)
    shape = Shape(files=given.files, patches=given.patches, largest=given.largest, seed=given.seed)
    generate(given.directory.resolve(), shape)


if __name__ == "__main__":
    _main()
