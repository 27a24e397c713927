"""Handle all failures without a traceback: print `error:` and `hint:` on stderr, and set the exit code."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from patchstack.causes import NotWritable
from patchstack.errors import Exit, MissingError, PatchstackError
from patchstack.files.places import cache_directory
from patchstack.report.streams import coded, manners, paint_words, printing, quiet
from patchstack.report.text import printable
from patchstack.tasks import longest


def guarded(command: Callable[[], object]) -> int:
    """Run the command line, handle every kind of failure, and return the exit code."""
    with manners():
        return _guarded(command)


def _guarded(command: Callable[[], object]) -> int:
    try:
        command()
    except PatchstackError as error:
        complain_of(error)
        return int(error.exit_code)
    except KeyboardInterrupt:
        complain("interrupted")
        return int(Exit.INTERRUPTED)
    except BrokenPipeError:
        # The program that reads our output closed the pipe, so print nothing.
        with contextlib.suppress(OSError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 128 + signal.SIGPIPE
    except OSError as error:
        # Not a bug, but a problem of the machine: a full disk, a name that is too long, or a directory without access.
        if _in_cache(error):
            complain_of(_cache_unusable(error))
            return int(Exit.MISSING)
        where = f"{os.fsdecode(error.filename)[:200]}: " if isinstance(error.filename, str | bytes) else ""
        hint = "check that the disk has free space and that you may read and write there"
        from patchstack.causes import MachineRefused  # a top-level import would slow down every command

        complain_of(MachineRefused(f"{where}{error.strerror or error}", hint=hint))
        return int(Exit.MISSING)
    except SystemExit as leaving:
        code = leaving.code
        if code == Exit.INTERRUPTED:
            complain("interrupted")
        return code if isinstance(code, int) else int(code is not None)
    except Exception:
        import traceback

        complain(_bug(traceback.format_exc()))
        return int(Exit.BUG)
    return int(Exit.HOLDS)


def _in_cache(error: OSError) -> bool:
    """Return whether an error names a path in the cache, or a parent of the cache that is not a directory."""
    if not isinstance(error.filename, str | bytes):
        return False
    failed, cache = Path(os.fsdecode(error.filename)).absolute(), cache_directory().absolute()
    return failed.is_relative_to(cache) or (cache.is_relative_to(failed) and not failed.is_dir())


def _cache_unusable(error: OSError) -> MissingError:

    failed = os.fsdecode(error.filename)
    return NotWritable(
        f"the cache directory {cache_directory()} cannot be used: {error.strerror or error}: {failed[:200]}",
        hint="set PATCHSTACK_CACHE to a writable directory on a disk with free space",
    )


def talk(text: str) -> None:
    """Print a message on stderr, unless `--quiet` was given. stdout is reserved for data."""
    if not quiet():
        complain(text)


def tell_longest(durations: Sequence[tuple[str, float]]) -> None:
    """Print which task took the most time. Nothing is printed if all tasks were quick. `durations` are in seconds."""
    if line := longest(durations):
        talk(line)


def complain_of(error: PatchstackError, about: str = "") -> None:
    """Print an error on stderr, with its code if `-v` or `--json` was given. `about` is the series with the error."""
    complain(error.render(about, coded=coded()))


def complain(text: str) -> None:
    """Print a message on stderr. Flush stdout first, so that both appear in the right order."""
    with contextlib.suppress(BrokenPipeError), printing():
        sys.stdout.flush()
        print(paint_words(printable(text), sys.stderr), file=sys.stderr)


def without_credentials(text: str) -> str:
    """Return the text with user names and passwords removed from URLs."""
    return re.sub(r"(?<=://)[^/@\s]*@", "", text)


def log_directory() -> Path:
    """Return the directory for the tracebacks of bugs."""
    import platformdirs

    return Path(platformdirs.user_log_dir("patchstack", appauthor=False))


def _bug(trace: str) -> str:
    from datetime import UTC, datetime

    last = trace.strip().splitlines()[-1]
    stamp = datetime.now(UTC).strftime("%Y%m%dT%H%M%S")
    try:
        log = log_directory() / f"bug-{stamp}-{os.getpid()}.log"
        log.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        command = without_credentials(" ".join(sys.argv))
        log.write_text(f"{command}\n\n{trace}")
    except (OSError, ImportError):
        return f"error: a bug in patchstack: {last}\n\n{trace}"
    return f"error: a bug in patchstack: {last}\n\nhint: the traceback is in {log}; please report it with that file"
