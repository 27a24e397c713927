"""Run programs without a shell.

`run` has a time limit. On a timeout or an exception, it kills the program and the program's process group. No other
module starts processes.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from patchstack.causes import JobCannotStart, JobRefused, ProgramMissing
from patchstack.errors import MissingError

_KEPT = ("PATH", "HOME", "TMPDIR", "TEMP", "TMP", "SYSTEMROOT", "XDG_CACHE_HOME", "XDG_CONFIG_HOME", "USER", "LOGNAME")
_KEPT_FOR_NETWORK = (
    *("SSH_AUTH_SOCK", "SSH_AGENT_PID", "SSH_ASKPASS", "DISPLAY"),
    *("http_proxy", "https_proxy", "no_proxy", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "ALL_PROXY"),
    *("SSL_CERT_FILE", "SSL_CERT_DIR", "CURL_CA_BUNDLE"),
)

PIPE = subprocess.PIPE
"""An argument for `start` that makes a stream of the program available, for example as `Child.stderr`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finished:
    """The result of a program. `code` is its exit status, or the negated number of the signal that killed it."""

    args: tuple[str, ...]
    code: int
    stdout: bytes
    stderr: bytes

    @property
    def ok(self) -> bool:
        return self.code == 0

    @property
    def complaint(self) -> str:
        """The program's stderr as text, without trailing whitespace."""
        return self.stderr.decode("utf-8", "replace").strip()


_listeners: list[Callable[[Sequence[str]], None]] = []


def tell_programs(listener: Callable[[Sequence[str]], None]) -> Callable[[], None]:
    """Register a listener, which is called with the arguments of every program before the program starts.

    Return a function that removes the listener.
    """
    _listeners.append(listener)
    return lambda: _listeners.remove(listener)


def _tell(args: Sequence[str]) -> None:
    for listener in _listeners:
        listener(args)


_LARGE = 4 << 20


class ProgramTimeout(MissingError):
    """A program exceeded its time limit and was killed, together with its children."""

    code = "PS0517"


def clean_environment(extra: Mapping[str, str] | None = None, *, network: bool = False) -> dict[str, str]:
    """Return the environment for a program.

    The environment contains the allowed variables of this process, the C locale, and `extra`. With `network`, the
    variables for ssh, proxies and certificates are also allowed. Variables that git sets for hooks (`GIT_*`) are not
    allowed.
    """
    kept = _KEPT + (_KEPT_FOR_NETWORK if network else ())
    environment = {name: os.environ[name] for name in kept if name in os.environ}
    environment["LC_ALL"] = "C"
    environment.update(extra or {})
    return environment


def run(
    args: Sequence[str],
    *,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    stdin: bytes = b"",
    timeout: float = 600.0,
    on_stderr: Callable[[str], None] | None = None,
    hold: Sequence[int] = (),
) -> Finished:
    """Run a program to its end, and return its exit status and output.

    `env` is the whole environment (default: `clean_environment()`). `stdin` is the input. `timeout` is in seconds. On a
    timeout or any exception, including Ctrl-C, the program's whole process group is killed. `on_stderr` receives each
    line of stderr as it arrives. `hold` lists descriptors that the program inherits, so that locks on these descriptors
    are held until the program ends.

    Raises `MissingError` if the program is not installed or `cwd` is not a directory, `UsageError` if an argument is
    not valid, `OSError` if the program cannot be started for another reason, and `ProgramTimeout` on a timeout.
    """
    _tell(args)
    try:
        with _standard_input(stdin) as given:
            child = subprocess.Popen(
                list(args),
                cwd=cwd,
                env=dict(env) if env is not None else clean_environment(),
                stdin=given,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                start_new_session=True,
                pass_fds=tuple(hold),
            )
    except ValueError as error:
        raise JobRefused(f"{args[0]} cannot be run: {error}") from error
    except FileNotFoundError as error:
        if cwd is not None and not cwd.is_dir():
            raise JobCannotStart(f"cannot run {args[0]}: {cwd} is not a directory") from error
        raise ProgramMissing(
            f"{args[0]} is not installed here", hint=f"install {args[0]} and put it on PATH"
        ) from error
    try:
        if on_stderr is None:
            out, err = child.communicate(stdin if child.stdin is not None else None, timeout=timeout)
        else:
            out, err = _communicate_streaming(child, stdin, timeout, on_stderr)
    except subprocess.TimeoutExpired as error:
        what = " ".join(list(args)[:2])
        raise ProgramTimeout(f"{what} took longer than {timeout:g} s and was stopped") from error
    finally:
        if child.returncode is None:
            _kill_group(child)
    return Finished(args=tuple(args), code=child.returncode, stdout=out, stderr=err)


@contextlib.contextmanager
def _standard_input(content: bytes) -> Iterator[IO[bytes] | int]:
    """Yield the standard input of a program: /dev/null, a pipe, or a file.

    Large input uses a file, because a pipe is written only one page at a time.
    """
    if len(content) <= _LARGE:
        yield subprocess.PIPE if content else subprocess.DEVNULL
        return
    import tempfile

    with tempfile.TemporaryFile() as file:
        file.write(content)
        file.seek(0)
        yield file


class Child:
    """A program that runs in the background.

    The program leads its own session and process group, so Ctrl-C at the terminal does not reach it. The caller must
    end the program with `end_group`, or with `terminate` or `kill` followed by `wait`.
    """

    def __init__(self, child: subprocess.Popen[bytes]) -> None:
        self._child = child

    @property
    def pid(self) -> int:
        """The process id, which is also the id of the session and of the process group.

        The id is valid until `poll` or a wait reports the end of the program.
        """
        return self._child.pid

    @property
    def stderr(self) -> IO[bytes]:
        """The program's stderr, if it was started with `PIPE`."""
        assert self._child.stderr is not None
        return self._child.stderr

    @property
    def stdin(self) -> IO[bytes]:
        """The program's stdin, if it was started with `PIPE`."""
        assert self._child.stdin is not None
        return self._child.stdin

    @property
    def stdout(self) -> IO[bytes]:
        """The program's stdout, if it was started with `PIPE`."""
        assert self._child.stdout is not None
        return self._child.stdout

    def poll(self) -> int | None:
        """Return the exit code, or the negated number of the signal that killed the program.

        Return None if the program is still running.
        """
        return self._child.poll()

    def wait(self) -> int:
        """Wait for the program to end, and return its exit code."""
        return self._child.wait()

    def wait_at_most(self, seconds: float) -> int | None:
        """Wait for the program to end, and return its exit code.

        Return None if the program is still running after `seconds` seconds.
        """
        try:
            return self._child.wait(timeout=seconds)
        except subprocess.TimeoutExpired:
            return None

    def terminate(self) -> None:
        """Send SIGTERM to the program, but not to its children. Do nothing if the program has ended."""
        self._child.terminate()

    def kill(self) -> None:
        """Send SIGKILL to the program, but not to its children. Do nothing if the program has ended."""
        self._child.kill()

    def end_group(self) -> None:
        """Kill the program's process group, unless the program has ended. Then reap the program, and close `stderr`."""
        if self.poll() is None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self.pid, signal.SIGKILL)
        self.wait()
        if self._child.stderr is not None:
            self._child.stderr.close()


def start(
    args: Sequence[str],
    *,
    cwd: str | Path | None = None,
    env: Mapping[str, str] | None = None,
    stdin: int | None = None,
    stdout: int | None = None,
    stderr: int | IO[bytes] | None = None,
) -> Child:
    """Start a program and return at once.

    `env` is the whole environment (default: `clean_environment()`). Each of `stdin`, `stdout` and `stderr` is a
    descriptor, `PIPE`, or None for /dev/null. The program receives a copy of a descriptor. `stderr` may also be a file.

    Raises `OSError` or `ValueError` if the program cannot be started. The caller reports the error, because only the
    caller knows the purpose of the program.
    """
    _tell(args)
    return Child(
        subprocess.Popen(
            list(args),
            cwd=cwd,
            env=dict(env) if env is not None else clean_environment(),
            stdin=subprocess.DEVNULL if stdin is None else stdin,
            stdout=subprocess.DEVNULL if stdout is None else stdout,
            stderr=subprocess.DEVNULL if stderr is None else stderr,
            start_new_session=True,
        )
    )


def attached(args: Sequence[str]) -> int:
    """Run a program on this process's terminal, as a shell would, and return its exit status.

    Raises `MissingError` if the program is not installed.
    """
    _tell(args)
    try:
        return subprocess.run(list(args), check=False).returncode
    except FileNotFoundError as error:
        raise ProgramMissing(
            f"{args[0]} is not installed here", hint=f"install {args[0]} and put it on PATH"
        ) from error


def _communicate_streaming(
    child: subprocess.Popen[bytes], stdin: bytes, timeout: float, on_stderr: Callable[[str], None]
) -> tuple[bytes, bytes]:
    """Run `communicate`, and call `on_stderr` with each line of stderr as it arrives.

    A carriage return also ends a line.
    """
    source = child.stderr
    assert source is not None
    seen = bytearray()

    def pump() -> None:
        line = bytearray()
        while chunk := os.read(source.fileno(), 4096):
            seen.extend(chunk)
            for byte in chunk:
                if byte in b"\r\n":
                    on_stderr(line.decode("utf-8", "replace"))
                    line.clear()
                else:
                    line.append(byte)

    pumper = threading.Thread(target=pump, daemon=True)
    pumper.start()
    child.stderr = None
    try:
        out, _ = child.communicate(stdin or None, timeout=timeout)
        pumper.join(timeout=5)
    finally:
        if child.returncode is None:
            _kill_group(child)
        source.close()
    return out, bytes(seen)


def _kill_group(child: subprocess.Popen[bytes]) -> None:
    """Kill a program's process group with SIGKILL, then reap the program."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(child.pid, signal.SIGKILL)
    with contextlib.suppress(subprocess.TimeoutExpired):
        child.wait(timeout=5)
    for pipe in (child.stdin, child.stdout, child.stderr):
        if pipe is not None:
            with contextlib.suppress(OSError):
                pipe.close()
