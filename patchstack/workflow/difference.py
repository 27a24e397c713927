"""Apply the difference method to real programs.

llama-batched-bench, or a command of another engine, generates two different numbers of tokens. The rate is computed
from the additional tokens and the additional time.
"""

from __future__ import annotations

import os
import secrets
import time
from collections.abc import Sequence
from pathlib import Path

from patchstack.bench.difference import Difference, difference
from patchstack.bench.kinds.batched import PROGRAM, arguments_of
from patchstack.bench.pairs import NotJudged
from patchstack.bench.profiled import PROFILERS, printed_by_profiler, profiler_of
from patchstack.causes import BadValue, SettingsRefused
from patchstack.llama.batched_bench_output import Shape, read_rows, rows_problem
from patchstack.llama.program import Program, sentinel_of
from patchstack.observe.exit_status import complaint_of, fault_of
from patchstack.observe.observer import Observer
from patchstack.observe.protocol import Model, Observation
from patchstack.process import run
from patchstack.tasks import task
from patchstack.workflow.bench import Where, programs_named
from patchstack.workflow.machine import open_runner

_TRIES = 5
_SECONDS = 1800.0
TOKENS = "{tokens}"
"""The placeholder in a command that is replaced by the number of generated tokens."""


def measure_difference(
    what: str,
    where: Where,
    *,
    model: Path,
    env: dict[str, str],
    prompt: int,
    streams: int,
    tokens: tuple[int, int],
    repeats: int,
) -> Difference:
    """Return the decode rate of a side, computed from the difference between two lengths.

    Each length is run `repeats` times, in alternation. Raises `NotJudged` for a run that fails or has unusable output.
    Raises `UsageError` if the second length is not greater than the first. Also raises the errors of `programs_named`
    and `open_runner`.
    """
    if tokens[1] <= tokens[0]:
        raise BadValue("the second length must be greater than the first", hint="for example --tokens 16,64")
    file = Model(name="model", path=str(model.expanduser().absolute()))
    session = secrets.token_hex(8)  # measurements never reuse earlier runs
    seconds: tuple[list[float], list[float]] = ([], [])
    with open_runner(
        where.connection,
        programs_named(what, where),
        observations=where.observations.directory,
        purpose="patchstack bench difference",
        kind="bench difference/1",
        allow=where.allow,
    ) as runner:
        for number in range(1, repeats + 1):
            for which, length in enumerate(tokens):
                with task(f"run {number} of {repeats}, {length} tokens"):
                    salt = f"difference {session} run {number}"
                    seconds[which].append(_decode_seconds(runner, file, (prompt, length, streams), env, salt))
    return difference(streams, tokens, seconds[0], seconds[1])


def measure_command(
    command: Sequence[str], *, env: dict[str, str], streams: int, tokens: tuple[int, int], repeats: int
) -> Difference:
    """Return the rate of another engine's command, computed from the difference between two lengths.

    The times are wall times on this machine. `{tokens}` in the command's arguments is replaced by the number of
    generated tokens. Raises `UsageError` if the command lacks `{tokens}` or starts a profiler, or if the second length
    is not greater than the first. Raises `NotJudged` for a run that fails or prints that a profiler ran. Also raises
    the errors of starting the command.
    """
    if tokens[1] <= tokens[0]:
        raise BadValue("the second length must be greater than the first", hint="for example --tokens 16,64")
    if not any(TOKENS in word for word in command):
        raise BadValue(f"the command lacks {TOKENS}: both runs would have the same length")
    if (variable := profiler_of(env)) is not None or Path(command[0]).name in PROFILERS:
        raise SettingsRefused(f"{variable or command[0]} starts a profiler, so the throughput would not be valid")
    seconds: tuple[list[float], list[float]] = ([], [])
    for number in range(1, repeats + 1):
        for which, length in enumerate(tokens):
            with task(f"run {number} of {repeats}, {length} tokens"):
                seconds[which].append(_wall_seconds([word.replace(TOKENS, str(length)) for word in command], env))
    return difference(streams, tokens, seconds[0], seconds[1])


def _wall_seconds(command: Sequence[str], env: dict[str, str]) -> float:
    began = time.monotonic()
    done = run(command, env={**os.environ, **env}, timeout=_SECONDS)
    seconds = time.monotonic() - began
    if not done.ok:
        last = (done.stderr or done.stdout).decode("utf-8", "replace").strip().rpartition("\n")[2]
        raise NotJudged(f"{command[0]} failed with exit status {done.code}: {last[:200]}")
    if line := printed_by_profiler(done.stdout + b"\n" + done.stderr):
        raise NotJudged(f"{command[0]} ran under a profiler: {line}")
    return seconds


def _decode_seconds(runner: Observer, model: Model, shape: Shape, env: dict[str, str], salt: str) -> float:
    program = Program(
        name=PROGRAM,
        args=("-m", "{model:model}", "-ngl", "99", "-fa", "on", *arguments_of([shape])),
        models=(model,),
        env=tuple(sorted(env.items())),
        sentinel=sentinel_of(PROGRAM),
    )
    judged = program.complete()

    def complete(seen: Observation) -> str | None:
        if (complaint := judged(seen)) is not None or seen.code != 0:
            return complaint
        rows = read_rows(seen.stdout)
        return rows if isinstance(rows, str) else rows_problem(rows, [shape])

    observed = runner.observe(program.invocation(f"{shape[1]} tokens"), complete=complete, tries=_TRIES, salt=salt)
    if observed.observation is None:
        raise NotJudged(f"{PROGRAM} cannot be measured: {complaint_of(observed)}")
    if fault := fault_of(observed.observation, pinned=False):
        raise NotJudged(f"{PROGRAM} failed: {fault.reason}")
    rows = read_rows(observed.observation.stdout)
    assert not isinstance(rows, str)
    return rows[0].decode_seconds
