"""Define the base classes of errors, and the exit codes.

Every failure that a user can see is a `PatchstackError` with a message, a hint, a code and an exit status. Each class
that is raised has its own `code`. The class is defined in `patchstack.causes`, or next to the code that raises it.
`ci/error_codes.py` checks that each code has an entry in docs/troubleshooting.md.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import IntEnum


class Exit(IntEnum):
    """The exit codes of all commands."""

    HOLDS = 0
    DOES_NOT_HOLD = 1
    USAGE = 2
    MISSING = 3
    INVALID = 4
    BUG = 70
    INTERRUPTED = 130


class PatchstackError(Exception):
    """A failure with a message for the user.

    The message states what failed and where. The hint states what to do next.

    `problems` contains further problems of the same kind, so that all problems are reported together.
    """

    exit_code: Exit = Exit.USAGE
    code: str = ""
    """The stable code of the cause, such as `PS0407`."""

    def __init__(self, message: str, *, hint: str | None = None, problems: Iterable[str] = ()) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.problems = tuple(problems)

    def render(self, about: str = "", *, coded: bool = False) -> str:
        """Return the text for stderr: `error:`, one line for each problem, and `hint:` after a blank line.

        `about` names the series of the error if the command handles several series. It is empty otherwise. With
        `coded`, the first word includes the code, as in `error[PS0407]:`.
        """
        word = f"error[{self.code}]" if coded and self.code else "error"
        lines = [f"{word}: {about}: {self.message}" if about else f"{word}: {self.message}"]
        lines += [f"  - {problem}" for problem in self.problems]
        if self.hint:
            lines += ["", f"hint: {self.hint}"]
        return "\n".join(lines)


class UsageError(PatchstackError):
    """Wrong usage, for example options that exclude each other, a path that does not exist, or a bad value."""

    exit_code = Exit.USAGE


class ConfigError(PatchstackError):
    """A file or directory cannot be used, for example `patchstack.yaml`, a lock or a patch directory."""

    exit_code = Exit.USAGE


class MissingError(PatchstackError):
    """Something is missing, for example git, a repository, an object, the network, or a side of a comparison."""

    exit_code = Exit.MISSING


class NotHeldError(PatchstackError):
    """A check ran and failed."""

    exit_code = Exit.DOES_NOT_HOLD
