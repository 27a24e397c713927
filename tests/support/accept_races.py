"""Races of `patchstack accept`: several processes decide on siblings and on parent and child at once.

Run as a program: `python -m tests.support.accept_races ROOT RACES SEED REF...`. It prints one JSON line a race. Each
process is forked from this one, and the compilers are read only once, so a race costs little more than its accepts.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import sys
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

from patchstack.builds.inputs.key import Toolchain
from patchstack.builds.inputs.plan import Plan
from patchstack.series.lock import read_lock

PARTS = ("patches", "ledger", "evidence")
NOT_DECIDED = 99


def main(root: Path, races: int, seed: int, refs: list[str]) -> None:
    """Run the races, each from the same state of the workspace."""
    _imported()
    _toolchain_known(root, refs[0])
    chance = random.Random(seed)
    before = root / "before-the-races"
    shutil.copytree(root / "patches", before)
    for number in range(races):
        for part in PARTS:
            shutil.rmtree(root / part, ignore_errors=True)
        shutil.copytree(before, root / "patches")
        chosen = [chance.choice(refs) for _ in range(chance.randint(2, 4))]
        print(json.dumps(_race(root, number, chosen)), flush=True)


def _imported() -> None:
    """Import what an accept needs, once for every race."""
    from patchstack.builds.record import provenance
    from patchstack.cli import accept, main
    from patchstack.cli.options import the_workspace
    from patchstack.engine.host import engine
    from patchstack.workflow.candidate import acceptance, candidate

    assert all((provenance, accept, main, the_workspace, engine, acceptance, candidate))


def _toolchain_known(root: Path, ref: str) -> None:
    """Compute the digest of the compilers once, for every process."""
    from patchstack.builds.inputs import prepare, toolchain

    digest, known = toolchain.host_toolchain, list[Toolchain]()

    def once(plan: Plan, nvcc: Path | None, memory: Path) -> Toolchain:
        if not known:
            known.append(digest(plan, nvcc, memory))
        return known[0]

    setattr(prepare, "host_toolchain", once)  # noqa: B010 - the name belongs to another module
    assert _accept(root, ref, root / "told", "--dry-run") == 0, (root / "told").read_text(encoding="utf-8")


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
