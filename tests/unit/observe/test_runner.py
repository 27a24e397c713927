"""The runner: programs get only the given inputs, and known observations are not run again."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from patchstack.engine.host.engine import HostEngine
from patchstack.engine.protocol import Ending
from patchstack.errors import MissingError, UsageError
from patchstack.evidence.store import Observations
from patchstack.observe.layout import Programs
from patchstack.observe.observer import RunContext
from patchstack.observe.protocol import Invocation, Model, Observation
from patchstack.observe.runner import Runner
from tests.support.programs import a_bench, program


def anything(seen: Observation) -> str | None:
    return None


def test_stdout_and_stderr_are_kept_apart_and_the_exit_code_is_the_programs(tmp_path: Path) -> None:
    program(tmp_path / "bin", "both", "echo out; echo err >&2; exit 3")
    with a_bench(tmp_path / "bin", tmp_path) as bench:
        seen = bench.observe(Invocation(what="both", program="both"), complete=anything).observation
    assert seen is not None
    assert (seen.stdout, seen.stderr, seen.code, seen.ending) == (b"out\n", b"err\n", 3, Ending.EXITED)


def test_what_is_known_is_not_run_again(tmp_path: Path) -> None:
    program(tmp_path / "bin", "count", f"echo run >>{tmp_path}/count; echo same")
    invocation = Invocation(what="count", program="count")
    for recalled in (False, True, True):
        with a_bench(tmp_path / "bin", tmp_path) as bench:
            observed = bench.observe(invocation, complete=anything)
            seen = observed.observation
            assert seen is not None
            assert (seen.recalled, seen.stdout) == (recalled, b"same\n")
            assert [one.recalled for one in observed.attempts] == [recalled], "the attempt says the same"
    with a_bench(tmp_path / "bin", tmp_path, again=True) as bench:
        bench.observe(invocation, complete=anything)
    with a_bench(tmp_path / "bin", tmp_path) as bench:
        bench.observe(invocation, complete=anything, salt="run 2")
    program(tmp_path / "bin", "other", "true")
    with a_bench(tmp_path / "bin", tmp_path) as bench:
        bench.observe(invocation, complete=anything)
    assert (tmp_path / "count").read_text().count("run") == 4, "once, again, salted, and with other programs beside it"


def test_what_cannot_be_judged_is_tried_again_counted_and_never_kept(tmp_path: Path) -> None:
    program(tmp_path / "bin", "shy", f'echo x >>{tmp_path}/tries; [ "$(wc -l <{tmp_path}/tries)" -ge 3 ] && echo done')

    def sentinel(seen: Observation) -> str | None:
        return None if b"done" in seen.stdout else "no sentinel"

    with a_bench(tmp_path / "bin", tmp_path) as bench:
        first = bench.observe(Invocation(what="shy", program="shy"), complete=sentinel, tries=2)
        assert first.observation is None
        assert first.complaint == "no sentinel"
        assert [one.complaint for one in first.attempts] == ["no sentinel", "no sentinel"]
        second = bench.observe(Invocation(what="shy", program="shy"), complete=sentinel, tries=2)
    assert second.observation is not None
    assert not second.observation.recalled


def test_the_environment_is_what_is_given_and_stdin_is_closed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LLAMA_LEAK", "1")
    program(tmp_path / "bin", "look", "env | sort; cat")
    with a_bench(tmp_path / "bin", tmp_path) as bench:
        seen = bench.observe(
            Invocation(what="look", program="look", env={"GIVEN": "yes"}), complete=anything
        ).observation
    assert seen is not None
    names = {line.partition("=")[0] for line in seen.stdout.decode().splitlines()}
    assert "GIVEN" in names
    assert names <= {"GIVEN", "PATH", "HOME", "LC_ALL", "PWD", "OLDPWD", "SHLVL", "_", "TMPDIR"}


def test_paths_stand_for_models_inputs_kept_files_and_the_work_directory(tmp_path: Path) -> None:
    (tmp_path / "m.gguf").write_bytes(b"GGUF")
    program(tmp_path / "bin", "paths", 'cat "$1" "$2"; echo kept >"$3"; echo brought >"$4/b.txt"; ls')
    invocation = Invocation(
        what="paths",
        program="paths",
        args=("{model:tiny}", "{input:text.txt}", "{kept:base}", "{work}"),
        models=(Model(name="tiny", path=str(tmp_path / "m.gguf")),),
        inputs={"text.txt": b"words\n"},
        keeps=("base",),
        brings=("b.txt", "absent.txt"),
    )
    with a_bench(tmp_path / "bin", tmp_path) as bench:
        assert not bench.has("base")
        assert bench.size_of("base") is None
        seen = bench.observe(invocation, complete=anything).observation
        assert bench.has("base")
        assert bench.size_of("base") == len("kept\n")
        again = bench.observe(invocation, complete=anything).observation
    assert seen is not None
    assert again is not None
    assert seen.stdout == b"GGUFwords\nb.txt\n"
    assert seen.files == {"b.txt": b"brought\n", "absent.txt": b""}
    assert again.recalled


@pytest.mark.parametrize("argument", ["{model:other}", "{input:none}", "{kept:../x}"])
def test_a_placeholder_that_stands_for_nothing_is_refused(tmp_path: Path, argument: str) -> None:
    program(tmp_path / "bin", "run", "true")
    with a_bench(tmp_path / "bin", tmp_path) as bench, pytest.raises(UsageError, match="is an unknown placeholder"):
        bench.observe(Invocation(what="run", program="run", args=(argument,)), complete=anything)


def test_a_model_that_is_not_the_one_of_its_digest_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "m.gguf"
    path.write_bytes(b"GGUF")
    program(tmp_path / "bin", "run", "true")
    model = Model(name="tiny", path=str(path), sha256="0" * 64)
    with a_bench(tmp_path / "bin", tmp_path) as bench:
        with pytest.raises(MissingError, match="model tiny does not match its digest"):
            bench.observe(Invocation(what="run", program="run", models=(model,)), complete=anything)
        gone = Model(name="tiny", path=str(tmp_path / "gone"))
        with pytest.raises(MissingError, match="model tiny is not at"):
            bench.observe(Invocation(what="run", program="run", models=(gone,)), complete=anything)


def test_a_program_that_is_not_there_is_missed(tmp_path: Path) -> None:
    program(tmp_path / "bin", "run", "true")
    with a_bench(tmp_path / "bin", tmp_path) as bench, pytest.raises(MissingError, match="llama-cli is not in"):
        bench.observe(Invocation(what="run", program="llama-cli"), complete=anything)


@pytest.mark.parametrize(
    ("script", "words"),
    [
        ("sleep 30", "it took over 1 s and was ended"),
        ("while :; do echo 0123456789012345678901234567890123456789; done", "it printed over 1 MiB and was ended"),
        ("kill -9 $$", "it was killed"),
    ],
)
def test_a_run_that_was_ended_is_never_complete(tmp_path: Path, script: str, words: str) -> None:
    program(tmp_path / "bin", "run", script)
    invocation = Invocation(what="run", program="run", seconds=1 if "sleep" in script else 30, output=1 << 20)
    with a_bench(tmp_path / "bin", tmp_path) as bench:
        tried = bench.observe(invocation, complete=anything, tries=1)
    assert tried.observation is None
    assert tried.complaint == words
    assert not (tmp_path / "evidence").exists()


def test_nothing_stays_on_the_engine_but_what_is_kept(tmp_path: Path) -> None:
    program(tmp_path / "bin", "run", "echo x >left")
    with a_bench(tmp_path / "bin", tmp_path) as bench:
        bench.observe(Invocation(what="run", program="run"), complete=anything)
        engine = bench.engine
    assert engine.volumes() == ("patchstack-kept",)


def test_on_a_full_disk_nothing_is_judged_and_nothing_kept(tmp_path: Path) -> None:
    small = tmp_path / "small"
    small.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=256k", "none", small], capture_output=True)
    if mounted.returncode:
        pytest.skip("root may mount a small file system; we may not")
    try:
        program(tmp_path / "bin", "talk", "head -c 400000 /dev/zero | tr '\\0' x; echo sentinel >&2; exit 0")
        engine = HostEngine(small / "engine")
        programs = Programs(directory=tmp_path / "bin", platform=engine.about().platform)
        observations, context = Observations(tmp_path / "evidence", tmp_path / "outputs"), RunContext(kind="test/1")
        with Runner(engine, programs, observations=observations, memory=tmp_path / "m", context=context) as bench:
            tried = bench.observe(Invocation(what="talk", program="talk"), complete=anything, tries=1)
        assert tried.observation is None
        assert tried.complaint == "its output could not be written: is the engine's disk full?"
        assert not (tmp_path / "evidence").exists()
    finally:
        subprocess.run(["umount", small], check=True)
