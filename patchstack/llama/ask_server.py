"""Start several servers of a build, one after the other, and send the same questions to each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from patchstack.llama.asking import with_requests
from patchstack.llama.completions import (
    Divergence,
    Generated,
    Question,
    first_difference,
    incomplete,
    read_answers,
    server_fault,
)
from patchstack.llama.program import Program
from patchstack.observe.observer import Observer
from patchstack.observe.protocol import Attempt
from patchstack.observe.settings import Environment

_TAKEN = (
    *("-np", "--parallel", "--host", "--port", "--reuse-port", "--api-key", "--api-key-file", "--api-prefix"),
    *("--log-disable", "--models-dir", "-to", "--timeout"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerAnswers:
    """The complete answers of each server.

    If the answers cannot be compared, `answers` is empty and `reason` says why. `by_build` is true if the build is the
    cause.
    """

    answers: tuple[tuple[Generated, ...], ...] = ()
    attempts: tuple[Attempt, ...] = ()
    by_build: bool = False
    reason: str = ""

    def unsteady(self) -> Divergence | None:
        """Return the first difference between the answers of a later server and those of the first server.

        Return None if all servers gave the same answers.
        """
        for answers in self.answers[1:]:
            for one, two in zip(answers, self.answers[0], strict=True):
                if (found := first_difference(one, two.ids, two)) is not None:
                    return found
        return None


def ask_servers(
    program: Program,
    questions: Sequence[Question],
    runner: Observer,
    *,
    runs: int = 1,
    env: Environment = (),
    what: str = "server",
) -> ServerAnswers:
    """Start `runs` servers, one after the other, and send the questions to each.

    Stop at the first server whose answers cannot be compared. Each server has a different observation key, so that the
    later servers do not reuse the answers of the first.
    """
    answers: list[tuple[Generated, ...]] = []
    attempts: list[Attempt] = []
    complete = incomplete(questions, pinned=program.pinned)
    for number in range(1, runs + 1):
        invocation = program.invocation(f"{what} {number}", env)
        invocation = with_requests(invocation, [question.request() for question in questions])
        salt = "" if number == 1 else f"run {number}"
        observed = runner.observe(invocation, complete=complete, tries=program.tries, salt=salt)
        attempts += observed.attempts
        if observed.observation is None:
            return ServerAnswers(attempts=tuple(attempts), reason=observed.complaint)
        fault = server_fault(observed.observation, pinned=program.pinned)
        read = fault.reason if fault is not None else read_answers(observed.observation, questions)
        if isinstance(read, str):
            return ServerAnswers(attempts=tuple(attempts), by_build=True, reason=read)
        answers.append(read)
    return ServerAnswers(answers=tuple(answers), attempts=tuple(attempts))


def arguments_taken(args: Sequence[str]) -> list[str]:
    """Return those of the arguments that only patchstack may set.

    Such an argument changes, for example, the address of the server, or the number of requests that the server handles
    at the same time.
    """
    return [text for text in args if text.partition("=")[0] in _TAKEN]
