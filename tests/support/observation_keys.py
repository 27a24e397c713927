"""Record the ingredients of the observation keys of every kind of gate, while fixed suites run on fixed programs.

`python -m tests.support.observation_keys` wrote `observation_keys_2.json` when the second scheme of keys was made. The
file is never regenerated to make a test pass: its keys represent evidence that people have committed. A change that
must change keys gets a new scheme and a new file. The command adds the gates that the file lacks, and leaves the
recorded ones as they are.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any
from unittest import mock

from patchstack.evidence.key import Ingredients, observation_key
from patchstack.evidence.store import Observations
from patchstack.gates.registry import KINDS
from patchstack.gates.suite import read_suites, run_suite
from patchstack.observe.layout import Programs
from patchstack.observe.observer import RunContext
from patchstack.observe.runner import Runner
from patchstack.workspace import read_workspace
from tests.support.checkout import DATA
from tests.support.fixed_engine import FixedEngine, write_programs

__all__ = ["FILE", "KINDS", "RUNS", "Ingredients", "KeysByGate", "Run", "key_of", "observation_key", "recorded"]


FILE = DATA / "observation_keys_2.json"
SUITES = DATA / "observation_keys"
IMAGE = f"sha256:{'1' * 64}"
CPU = "linux/arm64; Neoverse V2; no gpu"
GB10 = "linux/arm64; Neoverse V2; NVIDIA GB10, driver 580.95, sm_121"

KeysByGate = dict[str, list[dict[str, Any]]]
"""By gate, in the order of the suite: the ingredients of each key it asked for, with the key, in the order it asked."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """A suite on one kind of build: with GPU code or without, in containers of an image or on the host."""

    suite: str
    hardware: str
    image: str | None = None
    gpus: bool = False


RUNS = {
    "every on the host": Run(suite="every", hardware=CPU),
    "gpus on the host": Run(suite="gpus", hardware=GB10, gpus=True),
    "gpus in an image": Run(suite="gpus", hardware=GB10, gpus=True, image=IMAGE),
    "gpus in an image, without GPU code": Run(suite="gpus", hardware=CPU, image=IMAGE),
}


def recorded(run: Run, directory: Path) -> KeysByGate:
    """Run the suite of a run in a directory, and record what each gate asked for."""
    for name in ("patchstack.yaml", "text.txt", "ids.json", "cases.txt"):
        (directory / name).write_bytes((SUITES / name).read_bytes())
    for name in ("one", "two", "drafter"):
        (directory / f"{name}.gguf").write_bytes(f"GGUF {name}".encode())
    write_programs(directory / "older", "older")
    programs = write_programs(directory / "newer", "newer")
    suite = next(one for one in read_suites(read_workspace(directory / "patchstack.yaml")) if one.name == run.suite)
    found: KeysByGate = {}
    # Nothing here is kept after the run, and waiting for the disk would take most of the time.
    with mock.patch("os.fsync"), _runner(run, programs, directory) as runner, _listening() as heard:
        for gate, _ in run_suite(suite, runner):
            found[gate.name] = [one for at, one in enumerate(heard) if one not in heard[:at]]
            heard.clear()
    return found


@contextmanager
def _runner(run: Run, programs: Path, directory: Path) -> Iterator[Runner]:
    """Yield the runner of the programs, without any earlier observation."""
    engine = FixedEngine(isolated=run.image is not None)
    with Runner(
        engine,
        Programs(directory=programs, platform=engine.about().platform, image=run.image, gpus=run.gpus),
        observations=Observations(directory / "evidence", directory / "outputs"),
        memory=directory / "digests",
        context=RunContext(kind=""),
        hardware=run.hardware,
    ) as runner:
        yield runner


@contextmanager
def _listening() -> Iterator[list[dict[str, Any]]]:
    """Yield a list of the ingredients of every key that is made in this context, in any module."""
    heard: list[dict[str, Any]] = []

    def listening(ingredients: Ingredients) -> str:
        key = observation_key(ingredients)
        heard.append(json.loads(json.dumps({**asdict(ingredients), "key": key})))
        return key

    name = observation_key.__name__
    users = [module for module in sys.modules.values() if module.__name__.startswith("patchstack.")]
    with ExitStack() as patches:
        for one in users:
            if vars(one).get(name) is observation_key:
                patches.enter_context(mock.patch.object(one, name, listening))
        yield heard


def key_of(ingredients: dict[str, Any]) -> str:
    """Return the key of ingredients as the file has them."""
    values: dict[str, Any] = {name: tuple(one) if isinstance(one, list) else one for name, one in ingredients.items()}
    return observation_key(Ingredients(**values))


def main() -> None:
    """Add the missing gates to the file."""
    document = json.loads(FILE.read_text(encoding="utf-8")) if FILE.exists() else {"runs": {}}
    for name, run in RUNS.items():
        with tempfile.TemporaryDirectory() as directory:
            known = document["runs"].setdefault(name, {})
            document["runs"][name] = {**recorded(run, Path(directory)), **known}
    document["about"] = " ".join((__doc__ or "").split())
    FILE.write_text(written(document), encoding="utf-8")


def written(document: dict[str, Any]) -> str:
    """Return the file's text: one observation a line."""
    lines = ["{", f'"about": {json.dumps(document["about"])},', '"runs": {']
    for last_run, (name, gates) in _with_last(document["runs"]):
        lines.append(f"{json.dumps(name)}: {{")
        for last_gate, (gate, asked) in _with_last(gates):
            lines.append(f"  {json.dumps(gate)}: [")
            lines.append(",\n".join(f"    {json.dumps(one)}" for one in asked))
            lines.append("  ]" if last_gate else "  ],")
        lines.append("}" if last_run else "},")
    return "\n".join([*lines, "}", "}", ""])


def _with_last(mapping: dict[str, Any]) -> Iterator[tuple[bool, tuple[str, Any]]]:
    return ((at == len(mapping), item) for at, item in enumerate(mapping.items(), 1))


if __name__ == "__main__":
    main()
