"""An engine that starts no process: its programs print what real ones of llama.cpp printed.

A program's file says which build it belongs to. The build and the job's variables choose the answer. So every kind of
gate asks for all its observations, in milliseconds, and the same ones on every machine.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
import tarfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from patchstack.engine.archive import Entry, Stream, pack
from patchstack.engine.protocol import About, Ending, Image, Job, Outcome, Output, Running, Volume
from patchstack.llama.kl import base_size
from tests.support.checkout import DATA

CAPTURED = DATA / "llama" / "captured"
NAMES = (
    *("llama-completion", "llama-server", "llama-perplexity", "test-backend-ops"),
    *("test-recurrent-state-rollback", "test-own-rollback", "test-own", "hello"),
)
ROWS = ("rows", "test-rows")
"""Programs of a toy's fork: the first has an option from some commit on, the second exists from that commit on."""
_MARK = b"trace: step=1\n"
_CHUNKS, _VOCABULARY = 3, 288  # of the captured runs


def write_programs(directory: Path, build: str) -> Path:
    """Write the programs of a build. Their bytes depend on the build's name alone."""
    directory.mkdir(parents=True)
    for name in NAMES:
        (directory / name).write_bytes(f"{name} of the {build} build\n".encode())
    return directory


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """The result of a run. `replies` are the bodies of a server's answers; `kept` is the size in bytes of the base that
    the run makes."""

    stdout: bytes = b""
    stderr: bytes = b""
    code: int = 0
    replies: tuple[bytes, ...] = ()
    kept: int | None = None


@dataclass(slots=True)
class FixedEngine:
    """Implements `Engine`. `isolated` means that jobs run in a sandbox on a different machine, where a job hashes the
    models."""

    isolated: bool = False
    files: dict[str, dict[str, bytes]] = field(default_factory=dict)
    kept: dict[str, int] = field(default_factory=dict)

    def about(self) -> About:
        return About(
            spec="fixed",
            kind="docker" if self.isolated else "host",
            endpoint="here",
            version="1",
            platform="linux/arm64",
            cpus=4,
            memory=1 << 34,
            local=not self.isolated,
            isolated=self.isolated,
        )

    def image(self, reference: str, *, platform: str) -> Image | None:
        return Image(reference=reference, digest=reference, platform=platform) if self.isolated else None

    def place(self, volume: Volume) -> str:
        return volume.target

    def put(self, volume: str, archive: Iterable[bytes], *, image: str | None = None) -> None:
        files = self.files.setdefault(volume, {})
        with tarfile.open(fileobj=Stream(archive), mode="r|") as tar:
            for info in tar:
                if (content := tar.extractfile(info)) is not None:
                    files[info.name] = content.read()

    def get(self, volume: str, path: str, *, image: str | None = None) -> Iterator[bytes]:
        outside = f"{path.rpartition('/')[0]}/"
        found = {name: data for name, data in self.files[volume].items() if f"{name}/".startswith(f"{path}/")}
        return pack(Entry(path=name.removeprefix(outside), data=data) for name, data in found.items())

    @contextmanager
    def start(self, job: Job, output: Output, *, beside: Running | None = None) -> Iterator[FixedServer]:
        """Yield a server that listens until it is stopped, or the client of one, which has ended."""
        if isinstance(beside, FixedServer):
            self._ask(job, beside)
            yield FixedServer(job=job, ended=Outcome(ending=Ending.EXITED, code=0, seconds=0.0))
            return
        yield FixedServer(job=job)
        files = self.files[job.volumes[0].name]
        files["run/out/stdout"], files["run/out/stderr"] = b"", _MARK if job.env.get("MARK") == "1" else b""

    def _ask(self, client: Job, server: FixedServer) -> None:
        """Answer the questions of a client, and leave the answers as it does."""
        files = self.files[client.volumes[0].name]
        requests = json.loads(files["questions.json"])["requests"]
        bodies = [body for _, body in requests if body is not None]
        program, args = self._program(server.job)
        older = _is_older(self._content(program, server.job))
        given = answer(Path(program).name, args, server.job.env, bodies, older=older)
        replies = iter(given.replies)
        answers = [b"{}" if body is None else next(replies) for _, body in requests]
        found = [[200, base64.b64encode(one).decode()] for one in answers]
        files["answers.json"] = json.dumps({"state": "answered", "overflowed": False, "answers": found}).encode()

    def _program(self, job: Job) -> tuple[str, Sequence[str]]:
        """Return the program of a job, with its arguments."""
        place = next(at for at, word in enumerate(job.argv) if Path(word).name in (*NAMES, *ROWS) and "/" in word)
        return job.argv[place], job.argv[place + 1 :]

    def _content(self, program: str, job: Job) -> bytes:
        files = self.files[job.volumes[0].name]
        return files[f"bin/{Path(program).name}"] if self.isolated else Path(program).read_bytes()

    def run(self, job: Job, output: Output) -> Outcome:
        if job.argv[0] == "rm":
            files = self.files[job.volumes[0].name]
            for name in [name for name in files if name.startswith("run/")]:
                del files[name]
        elif job.argv[0] == "stat":
            size = self.kept.get(job.argv[-1])
            if size is None:
                return Outcome(ending=Ending.EXITED, code=1, seconds=0.0)
            output(f"regular file {size}\n".encode())
        elif job.what == "look for Python":
            pass
        elif any("sha256sum" in word for word in job.argv):
            content = Path(next(path.source for path in job.paths if path.target == job.argv[-1])).read_bytes()
            output(f"{len(content)} 0\n{hashlib.sha256(content).hexdigest()}  {job.argv[-1]}\n".encode())
        else:
            self._run_program(job)
        return Outcome(ending=Ending.EXITED, code=0, seconds=0.0)

    def shell(self, job: Job) -> tuple[str, ...]:
        raise NotImplementedError

    def volumes(self) -> tuple[str, ...]:
        return tuple(self.files)

    def remove(self, volume: str) -> None:
        self.files.pop(volume, None)

    def close(self) -> None:
        pass

    def _run_program(self, job: Job) -> None:
        """Write the program's result where a real job writes it."""
        files = self.files[job.volumes[0].name]
        program, args = self._program(job)
        content = self._content(program, job)
        if Path(program).name in ROWS:
            given = _rows(args, known=b" with rows " in content)
        else:
            given = answer(Path(program).name, args, job.env, (), older=_is_older(content))
        if given.kept is not None:
            self.kept[_after(args, "--kl-divergence-base")] = given.kept
        files["run/out/stdout"], files["run/out/stderr"] = given.stdout, given.stderr
        files["run/out/code"] = files["run/out/ended"] = f"{given.code}\n".encode()
        files["run/out/files/trace.txt"] = _MARK if job.env.get("MARK") == "1" else b""


@dataclass(slots=True)
class FixedServer:
    """Implements `Running`: a job that runs until it is stopped, or that has ended."""

    job: Job
    ended: Outcome | None = None
    address: tuple[str, int] | None = ("127.0.0.1", 8080)

    def wait(self, seconds: float) -> Outcome | None:
        return self.ended

    def terminate(self) -> None:
        self.stop(0.0)

    def stop(self, grace: float) -> Outcome:
        self.ended = self.ended or Outcome(ending=Ending.EXITED, code=0, seconds=0.0)
        return self.ended


def _is_older(content: bytes) -> bool:
    return b" of the older build" in content


def answer(
    name: str, args: Sequence[str], env: Mapping[str, str], bodies: Sequence[dict[str, Any]], *, older: bool
) -> Answer:
    """Return the result of a run of a program."""
    mark = _MARK if env.get("MARK") == "1" else b""
    match name:
        case "llama-completion":
            text = _captured("completion.out") + (b"." if older else b"") + (b"," if "OTHER_TEXT" in env else b"")
            return Answer(stdout=text, stderr=mark + _captured("completion.err"))
        case "llama-server":
            return Answer(stderr=mark, replies=_replies(args, env, bodies, older=older))
        case "llama-perplexity":
            return _perplexity(args)
        case "test-backend-ops":
            return _backend_ops(args, env)
        case "test-recurrent-state-rollback":
            return Answer(stdout=b"rollback checkpoint restored successfully\n")
        case "test-own-rollback":
            return Answer(stdout=b"all good\n")
        case "test-own":
            return Answer(stdout=b"0 passed, 1 failed\n", code=1) if older else Answer(stdout=b"1 passed, 0 failed\n")
    return Answer(stdout=b"hello\n")


def _rows(args: Sequence[str], *, known: bool) -> Answer:
    """Say how many rows there are, and what a program says of an option that it does not know."""
    if args and not known:
        return Answer(stderr=f"error: invalid argument: {args[0]}\n".encode(), code=1)
    return Answer(stdout=b"rows: 8\n" if known else b"rows: none\n")


def _replies(
    args: Sequence[str], env: Mapping[str, str], bodies: Sequence[dict[str, Any]], *, older: bool
) -> tuple[bytes, ...]:
    """Return answers to `/completion`: ids that count up from 10. DIFFERS changes the last id if the server speculates,
    or if it is asked again with its cache. The older build always gives a different last id."""
    speculates = "--spec-type" in args
    found = []
    for number, body in enumerate(bodies):
        again = number > 0 and bool(body["cache_prompt"])
        other = older or ("DIFFERS" in env and (speculates or again))
        ids = [*range(10, 10 + int(body["n_predict"]))]
        ids[-1] += 100 if other else 0
        several = body["prompt"] if isinstance(body["prompt"], list) else [body["prompt"]]
        answers = [_generated(ids, slot, drafts=speculates, cached=again) for slot in range(len(several))]
        found.append(json.dumps(answers if isinstance(body["prompt"], list) else answers[0]).encode())
    return tuple(found)


def _generated(ids: Sequence[int], slot: int, *, drafts: bool, cached: bool) -> dict[str, Any]:
    timings = {"predicted_n": len(ids), "cache_n": 2 if cached else 0, "prompt_n": 1}
    return {
        "index": slot,
        "id_slot": slot,
        "tokens": list(ids),
        "tokens_predicted": len(ids),
        "stop_type": "limit",
        "truncated": False,
        "content": "",
        "timings": timings | ({"draft_n": 8, "draft_n_accepted": 5} if drafts else {}),
    }


def _perplexity(args: Sequence[str]) -> Answer:
    """Make a base, or compare with one, in the shape that the arguments ask for."""
    if "--version" in args:
        return Answer(stderr=b"version: 0 (abc)\n")
    context, batch = int(_after(args, "-c")), int(_after(args, "-b"))
    shape = f"n_ctx={context}, batch_size={batch}, n_seq={max(1, batch // context)}".encode()
    compares = "--kl-divergence" in args
    name = "kl" if compares else "perplexity"
    log = re.sub(rb"n_ctx=\d+, batch_size=\d+, n_seq=\d+", shape, _captured(f"{name}.err"))
    size = None if compares else base_size(_CHUNKS, context, _VOCABULARY)
    return Answer(stdout=_captured(f"{name}.out"), stderr=log, kept=size)


def _backend_ops(args: Sequence[str], env: Mapping[str, str]) -> Answer:
    backend = _after(args, "-b").encode()
    if args[0] == "support":
        return Answer(stdout=_captured("backend-ops-support.out").replace(b'"CPU"', b'"%s"' % backend))
    name = "backend-ops-fail" if "FAILING" in env else "backend-ops"
    text = re.sub(rb"(Backend (?:1/1: )?)CPU", rb"\g<1>%s" % backend, _captured(f"{name}.out"))
    return Answer(stdout=text, code=1 if "FAILING" in env else 0)


def _captured(name: str) -> bytes:
    return (CAPTURED / name).read_bytes()


def _after(args: Sequence[str], option: str) -> str:
    return args[args.index(option) + 1]
