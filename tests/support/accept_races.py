"""Races of `patchstack accept`: several processes decide on siblings and on parent and child at once.

Run as a program: `python -m tests.support.accept_races ROOT RACES SEED REF...`. It prints one JSON line a race.

Each process is forked from this one, which has accepted every ref once: imports are done and builds are made. What no
race changes is read once: the layout of the repositories, whether the fork is pushed, the compilers, the variants, and
what the workspace file says. Everything else is the command's own work: it takes the lock of the workspace, reads
series, lock and ledger, opens the fork, verifies, lints, formats, and writes decision, evidence and series.
"""

from __future__ import annotations

import functools
import gc
import json
import os
import random
import shutil
import sys
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

from patchstack.series.lock import read_lock

PARTS = ("patches", "ledger", "evidence")
NOT_DECIDED = 99
PROCESSES, WEIGHTS = (2, 3, 4), (5, 2, 1)
"""How many processes a race has, and how often."""


def main(root: Path, races: int, seed: int, refs: list[str]) -> None:
    """Run the races, each from the same state of the workspace."""
    _read_once()
    before = root / "before-the-races"
    shutil.copytree(root / "patches", before)
    for ref in refs:
        _reset(root, before)
        code = _accept(root, ref, root / "told")
        # A child whose parent is not in the series is refused, after its builds were looked for.
        assert code == 0 or ref == "child", (root / "told").read_text(encoding="utf-8")
    gc.collect()
    gc.freeze()  # unread files are not copied
    chance = random.Random(seed)
    for number in range(races):
        _reset(root, before)
        (count,) = chance.choices(PROCESSES, WEIGHTS)
        print(json.dumps(_race(root, number, [chance.choice(refs) for _ in range(count)])), flush=True)


def _reset(root: Path, before: Path) -> None:
    """Give the workspace the state that it had before the first race."""
    for part in PARTS:
        shutil.rmtree(root / part, ignore_errors=True)
    shutil.copytree(before, root / "patches", copy_function=os.link)


def _read_once() -> None:
    """Remember what no race changes, and let no process wait for the disk, because power failures do not matter
    here."""
    from patchstack.builds.inputs import prepare, variant
    from patchstack.git.objects import Repository
    from patchstack.observe import loaded
    from patchstack.workflow.candidate import acceptance
    from patchstack.workspace import read

    _replace(prepare, "host_toolchain", _first_answer)
    _replace(variant, "read_variants_file", functools.cache)
    _replace(read, "read_yaml", _by_content)
    _replace(Repository, "open", lambda own: staticmethod(functools.cache(own)))
    _replace(loaded, "read_elf", functools.cache)
    _replace(acceptance, "check_pushed", functools.cache)
    _replace(os, "fsync", lambda own: lambda _: None)


def _replace(place: Any, name: str, made: Callable[[Callable[..., Any]], Any]) -> None:
    """Replace a function by what `made` returns for it."""
    setattr(place, name, made(getattr(place, name)))


def _first_answer(own: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that always gives its first answer."""
    known = list[Any]()

    def asked(*given: Any) -> Any:
        if not known:
            known.append(own(*given))
        return known[0]

    return asked


def _by_content(read_yaml: Callable[..., Any]) -> Callable[..., Any]:
    """Return a reader of YAML files that parses equal bytes only once."""
    known: dict[tuple[Path, bytes, bool], Any] = {}

    def read(path: Path, *, comments: bool = True) -> Any:
        key = (path, path.read_bytes(), comments)
        if key not in known:
            known[key] = read_yaml(path, comments=comments)
        return known[key]

    return read


def _race(root: Path, number: int, refs: list[str]) -> dict[str, object]:
    """Start an accept of every ref at once and wait for all. Return their outputs, and the resulting workspace."""
    gate, opened = os.pipe()
    children = {}
    for place, ref in enumerate(refs):
        told = root / f"told-{place}"
        pid = os.fork()
        if pid == 0:
            os.close(opened)
            os.read(gate, 1)
            os._exit(_accept(root, ref, told))
        children[pid] = place
    os.close(gate)
    os.close(opened)
    codes = [NOT_DECIDED] * len(refs)
    for pid, place in children.items():
        codes[place] = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    decisions = [json.loads(path.read_bytes()) for path in sorted((root / "ledger").glob("*.json"))]
    lock = read_lock(root / "patches")
    assert lock is not None
    in_series = {patch.commit for patch in lock.patches}
    accepted = sorted({one["commit"] for decision in decisions for one in decision["candidates"]})
    return {
        "race": number,
        "refs": refs,
        "codes": codes,
        "told": [(root / f"told-{place}").read_text(encoding="utf-8") for place in range(len(refs))],
        "accepted": accepted,
        "in_series": [commit for commit in accepted if commit in in_series],
        "left": sorted(path.name for path in root.iterdir() if path.name.startswith(".patchstack")),
    }


def _accept(root: Path, ref: str, told: Path, *more: str) -> int:
    from patchstack.cli.main import main as patchstack

    os.chdir(root)
    sys.argv = ["patchstack", "accept", ref, "--engine", "host", "--without-gates", *more]
    with told.open("w", encoding="utf-8") as file, redirect_stdout(file), redirect_stderr(file):
        try:
            patchstack()
        except SystemExit as ended:
            return int(ended.code or 0) if not isinstance(ended.code, str) else NOT_DECIDED
    return 0


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), sys.argv[4:])
