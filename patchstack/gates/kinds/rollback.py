"""Gate kind `rollback`: check that a rollback restores a state completely.

The check matters most for recurrent memory. It has three parts, and each of them is optional:

- `program`: a test program of the build, by default llama.cpp's `test-recurrent-state-rollback`, reports that the
restored state gives the same logits. The program also exits with 0 if it skips the test (for a model that is not
recurrent), so the gate reads its output.
- `speculative`: a greedy continuation with speculative decoding has the same ids as a continuation without it. Some
tokens must have been drafted and some rejected, because otherwise nothing was rolled back. (A server with a draft model
but without `--spec-type` may draft nothing, and prints no message.)
- `reuse`: a server that receives the same prompt again reuses the cached prompt and gives the same ids. Some tokens
must have come from the cache.

    - name: rollback
      kind: rollback
      checks: [program, speculative, reuse]
      model: q36-35b
      prompt: The capital of France is
      tokens: 48
      speculative: [--spec-type, draft-mtp, --spec-draft-n-max, "3"]
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from patchstack.gates.judgement import Judgement, near_or_not, verdict_of, worst
from patchstack.gates.kind import Kind
from patchstack.llama.ask_server import ServerAnswers, arguments_taken, ask_servers
from patchstack.llama.completions import Divergence, Generated, Question, first_difference
from patchstack.llama.program import Program
from patchstack.llama.prompt import SERVER, Prompting
from patchstack.llama.settings import (
    CONTEXT,
    ENV,
    FLASH_ATTENTION,
    GPU_LAYERS,
    LOADING,
    MARGIN,
    MODEL,
    PROGRAM,
    PROMPT,
    SECONDS,
    SEED,
    SENTINEL,
    TOKENS,
    TRIES,
    prompting_of,
)
from patchstack.observe.declared import (
    NO_ARGS,
    NO_MODEL,
    Args,
    Arguments,
    ModelName,
    Pattern,
    Setting,
    Texts,
    Values,
)
from patchstack.observe.exit_status import fault_of
from patchstack.observe.observer import Observer
from patchstack.observe.protocol import Attempt, Json, Model, Observation
from patchstack.verdict import Verdict

CHECKS = ("program", "speculative", "reuse")
TEST_PROGRAM = "test-recurrent-state-rollback"
SAYS = r"rollback checkpoint restored successfully"
_SKIPS = re.compile(r"\bskip(ping|ped)\b", re.IGNORECASE)
_DENIES = re.compile(r"mismatch|rollback failed|replay failed|missing (dirty )?logits")
_AGAIN = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class RollbackSettings:
    """The settings of the gate.

    `program` is the test program, and `says` is the pattern of its success message. `speculative` contains the
    arguments that enable speculative decoding. `draft` is the draft model, if it is a separate file. `margin` has the
    same meaning as in `tokens`. `prompting` is the prompt for the checks `speculative` and `reuse`. A check is skipped
    if its settings are None, empty or false.
    """

    program: Program | None = None
    says: str = SAYS
    prompting: Prompting | None = None
    speculative: tuple[str, ...] = ()
    draft: Model | None = None
    reuse: bool = False
    margin: float = 0.0

    @property
    def speculates(self) -> bool:
        return bool(self.speculative) or self.draft is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckFinding:
    """The result of one check."""

    check: str
    verdict: Verdict
    reason: str
    attempts: tuple[Attempt, ...] = ()
    facts: Mapping[str, Json] | None = None

    def document(self) -> dict[str, Json]:
        return {"check": self.check, "verdict": str(self.verdict), "reason": self.reason, **(self.facts or {})}


# Settings


CHECKS_SETTING = Setting[tuple[str, ...] | None](
    name="checks",
    form=Texts(written="a list of " + ", ".join(f"`{name}`" for name in CHECKS)),
    default=None,
    flag="--check",
    metavar="NAME",
    help="A check: program, speculative or reuse (repeat) [default: program, and speculative if it has settings].",
)
TESTED = replace(PROGRAM, required=False, help="The test program [default: test-recurrent-state-rollback].")
SAYS_SETTING = Setting[str | None](
    name="says",
    form=Pattern(),
    default=None,
    metavar="REGEX",
    help="A pattern of the line that reports success.",
)
QUESTION = replace(PROMPT, required=False, option_default="The capital of France is")
SPECULATIVE = Setting[Args](
    name="speculative",
    form=Arguments(),
    default=NO_ARGS,
    metavar="TEXT",
    help="An argument that enables speculative decoding in the server (repeat).",
)
DRAFT = Setting[Model](
    name="draft",
    form=ModelName(),
    default=NO_MODEL,
    metavar="FILE",
    help="The draft model, on the engine's machine.",
)


def settings_of(values: Values) -> RollbackSettings:
    """Return the settings from values.

    By default, the only check is `program`. `speculative` is added if its settings are given.
    """
    speculates = values.chosen(SPECULATIVE) or values.chosen(DRAFT)
    said = values[CHECKS_SETTING]
    checks = said if said is not None else ("program", "speculative") if speculates else ("program",)
    for name in checks:
        if name not in CHECKS:
            values.complain("checks", f"{name!r} is not one of {', '.join(CHECKS)}")
    if not checks:
        values.complain("checks", "the list is empty, so nothing would be checked")
    asks = "speculative" in checks or "reuse" in checks
    if asks and not values.chosen(QUESTION) and values.node is not None:
        values.missing(QUESTION, "prompt is missing")
    if not asks:
        values.unused((QUESTION, TOKENS, SEED, LOADING[-1]), "neither speculative nor reuse is among the checks")
    speculative = values[SPECULATIVE]
    prompting = prompting_of(values) if asks else None
    if prompting is not None:
        prompting = replace(prompting, models=(*prompting.models, *speculative.models))
    settings = RollbackSettings(
        program=_program(values) if "program" in checks else None,
        says=values[SAYS_SETTING] or SAYS,
        prompting=prompting,
        speculative=speculative.args if "speculative" in checks else (),
        draft=values[DRAFT] if "speculative" in checks and values.chosen(DRAFT) else None,
        reuse="reuse" in checks,
        margin=values[MARGIN],
    )
    values.complain_all(settings_problems(settings, checks))
    return settings


def _program(values: Values) -> Program:
    program = rollback_program(
        values[TESTED] or TEST_PROGRAM,
        values[MODEL],
        layers=values[GPU_LAYERS],
        attention=values[FLASH_ATTENTION],
        context=values[CONTEXT],
    )
    return replace(program, env=values[ENV], seconds=values[SECONDS], tries=values[TRIES])


def settings_problems(settings: RollbackSettings, checks: Sequence[str]) -> list[tuple[str, str]]:
    """Return the problems in the settings, each with the key of its setting."""
    found = []
    if "speculative" in checks and not settings.speculates:
        found.append(("speculative", "the check needs speculative (arguments of the server) or draft (a model)"))
    found += [("speculative", f"{text} is set by the gate") for text in arguments_taken(settings.speculative)]
    if settings.prompting is not None:
        found += [("args", f"{text} is set by the gate") for text in arguments_taken(settings.prompting.args)]
    return found


def rollback_program(
    name: str, model: Model, *, layers: int = 99, attention: str = "on", context: int = 4096
) -> Program:
    """Return the test program with a model.

    `-fit off` is needed, because the sizes would otherwise depend on the free memory.
    """
    args = ("-m", f"{{model:{model.name}}}", "-ngl", str(layers), "-fa", attention, "-c", str(context))
    return Program(name=name, args=(*args, "-fit", "off"), models=(model,))


# Running


def run(settings: RollbackSettings, runner: Observer) -> Judgement:
    """Run every configured check. The verdict is the worst one."""
    findings = []
    if settings.program is not None:
        findings.append(_run_program(settings.program, settings.says, runner))
    if settings.prompting is not None and settings.speculates:
        findings.append(_run_speculative(settings, settings.prompting, runner))
    if settings.prompting is not None and settings.reuse:
        findings.append(_run_reuse(settings, settings.prompting, runner))
    verdict = worst([one.verdict for one in findings])
    return Judgement(
        verdict=verdict,
        reason="; ".join(f"{one.check}: {one.reason}" for one in findings if one.verdict is verdict)
        or "there is nothing to check",
        actual=", ".join(f"{one.check} {one.verdict}" for one in findings),
        expected=", ".join(f"{one.check} {Verdict.PASS}" for one in findings),
        details={"checks": [one.document() for one in findings]},
        attempts=tuple(attempt for one in findings for attempt in one.attempts),
    )


def _run_program(program: Program, says: str, runner: Observer) -> CheckFinding:
    def complaint(seen: Observation) -> str | None:
        verdict, reason = verdict_of_program(seen, says, pinned=program.pinned)
        return reason if verdict is Verdict.INVALID and not _skipped(seen) else None

    observed = runner.observe(program.invocation(program.name), complete=complaint, tries=program.tries)
    if observed.observation is None:
        return CheckFinding(
            check="program", verdict=Verdict.INVALID, reason=observed.complaint, attempts=observed.attempts
        )
    verdict, reason = verdict_of_program(observed.observation, says, pinned=program.pinned)
    return CheckFinding(check="program", verdict=verdict, reason=reason, attempts=observed.attempts)


def _run_speculative(settings: RollbackSettings, prompting: Prompting, runner: Observer) -> CheckFinding:
    plain, drafting = prompting.server(1), speculating(settings, prompting)
    questions = (_question(prompting, cache=False),)

    def both(runs: int) -> tuple[ServerAnswers, ServerAnswers]:
        return (
            ask_servers(plain, questions, runner, runs=runs, what="plain server"),
            ask_servers(drafting, questions, runner, runs=runs, what="speculating server"),
        )

    asked = both(1)
    if finding_of_speculation(*asked, settings.margin).verdict is Verdict.FAIL and all(one.answers for one in asked):
        asked = both(2)
    return finding_of_speculation(*asked, settings.margin)


def _run_reuse(settings: RollbackSettings, prompting: Prompting, runner: Observer) -> CheckFinding:
    questions = (_question(prompting, cache=True),) * _AGAIN
    asked = ask_servers(prompting.server(1), questions, runner)
    if asked.answers and finding_of_reuse(asked, settings.margin).verdict is Verdict.FAIL:
        asked = ask_servers(prompting.server(1), questions, runner, runs=2)
    return finding_of_reuse(asked, settings.margin)


def speculating(settings: RollbackSettings, prompting: Prompting) -> Program:
    """Return the server with speculative decoding.

    For a draft model, `--spec-type` is added if the settings lack it, because llama.cpp of June 2026 (common/arg.cpp)
    does not draft without it.
    """
    program = prompting.server(1)
    args: tuple[str, ...] = settings.speculative
    if settings.draft is not None:
        args = ("-md", f"{{model:{settings.draft.name}}}", *args)
        if "--spec-type" not in args:
            args = (*args, "--spec-type", "draft-simple")
    models = program.models
    if settings.draft is not None and settings.draft.name not in [one.name for one in models]:
        models = (*models, settings.draft)
    return replace(program, args=(*program.args, *args), models=models)


def _question(prompting: Prompting, *, cache: bool) -> Question:
    return Question(prompt=prompting.prompt, tokens=prompting.tokens, seed=prompting.seed, cache=cache)


# Judging


def verdict_of_program(seen: Observation, says: str, *, pinned: bool) -> tuple[Verdict, str]:
    """Judge the exit code and the output of a test program.

    A reported mismatch is FAIL. A different failure is FAIL if the build caused it, otherwise INVALID. If the program
    exits with 0, a line that matches `says` is PASS. Without such a line, the verdict is INVALID, for example for a
    skipped test.
    """
    lines = [line.strip() for line in (seen.stderr + b"\n" + seen.stdout).decode("utf-8", "replace").splitlines()]
    if denied := next((line for line in lines if _DENIES.search(line)), None):
        return Verdict.FAIL, denied[:300]
    if fault := fault_of(seen, pinned=pinned):
        return verdict_of(fault), fault.reason
    if said := next((line for line in lines if re.search(says, line)), None):
        return Verdict.PASS, said[:300]
    if skipped := next((line for line in lines if _SKIPS.search(line)), None):
        return Verdict.INVALID, f"nothing was tested: {skipped[:300]}"
    return Verdict.INVALID, f"it exited with 0, but no line matches {says!r}"


def finding_of_speculation(plain: ServerAnswers, drafting: ServerAnswers, margin: float) -> CheckFinding:
    """Judge speculative decoding.

    The ids must be the same with and without speculation. Some tokens must have been drafted, and some of them
    rejected.
    """
    attempts = plain.attempts + drafting.attempts
    for asked, name in ((plain, "without speculation"), (drafting, "with speculation")):
        if not asked.answers:
            return _speculative(verdict_of(asked), f"{name}: {asked.reason}", attempts)
        if (where := asked.unsteady()) is not None:
            reason = f"{name}, new servers do not agree: {where.words}"
            return _speculative(Verdict.INVALID, reason, attempts, where=where)
    one, two = plain.answers[0][0], drafting.answers[0][0]
    if (where := first_difference(two, one.ids, one)) is not None:
        verdict, reason = near_or_not(where, margin, f"speculation changes the tokens: {where.words}")
        return _speculative(verdict, reason, attempts, two, where)
    rejected = two.drafted - two.accepted
    drafts = f"{two.drafted} drafted, {two.accepted} accepted"
    if one.drafted:
        reason = f"the server without speculation drafts too ({one.drafted} tokens): both ways are the same"
    elif not two.drafted:
        reason = "nothing was drafted: both ways are the same; does the server need --spec-type?"
    elif rejected <= 0:
        reason = f"nothing was rolled back: {drafts}"
    else:
        return _speculative(Verdict.PASS, f"{len(two.ids)} equal tokens; {drafts}", attempts, two)
    return _speculative(Verdict.INVALID, reason, attempts, two)


def finding_of_reuse(asked: ServerAnswers, margin: float) -> CheckFinding:
    """Judge the reuse of a cached prompt.

    The ids must be the same as after computing the prompt. Some tokens must have come from the cache.
    """
    if not asked.answers:
        return _reuse(verdict_of(asked), asked.reason, asked)
    if (where := asked.unsteady()) is not None:
        return _reuse(Verdict.INVALID, f"new servers do not agree: {where.words}", asked, where)
    first, *again = asked.answers[0]
    for one in again:
        if (where := first_difference(one, first.ids, first)) is not None:
            reason = f"reusing the prompt changes the tokens: {where.words}"
            return _reuse(*near_or_not(where, margin, reason), asked, where)
    if first.cached:
        return _reuse(Verdict.INVALID, f"{first.cached} tokens came from the cache of a new server", asked)
    if not all(one.cached for one in again):
        return _reuse(Verdict.INVALID, "nothing came from the cache: no prompt was reused", asked)
    cached = again[-1].cached
    reason = f"{len(first.ids)} equal tokens; {cached} of {cached + again[-1].prompt} of the prompt from the cache"
    return _reuse(Verdict.PASS, reason, asked)


def _speculative(
    verdict: Verdict,
    reason: str,
    attempts: tuple[Attempt, ...],
    answer: Generated | None = None,
    where: Divergence | None = None,
) -> CheckFinding:
    facts: dict[str, Json] = {"divergence": where.document() if where is not None else None}
    if answer is not None:
        facts |= {"drafted": answer.drafted, "accepted": answer.accepted, "ids": list(answer.ids)}
    return CheckFinding(check="speculative", verdict=verdict, reason=reason, attempts=attempts, facts=facts)


def _reuse(verdict: Verdict, reason: str, asked: ServerAnswers, where: Divergence | None = None) -> CheckFinding:
    facts: dict[str, Json] = {"divergence": where.document() if where is not None else None}
    facts["cached"] = [one.cached for answers in asked.answers[:1] for one in answers]
    return CheckFinding(check="reuse", verdict=verdict, reason=reason, attempts=asked.attempts, facts=facts)


def _skipped(seen: Observation) -> bool:
    """Return whether a program reports that it skipped the test, so that another run would give the same result."""
    return seen.code == 0 and bool(_SKIPS.search(seen.stderr.decode("utf-8", "replace")))


KIND = Kind(
    name="rollback",
    version=1,
    about="Check rollback with the test program, with speculative decoding, and by reusing a prompt.",
    settings=(
        *(MODEL, CHECKS_SETTING, TESTED, SAYS_SETTING, QUESTION, TOKENS, DRAFT, SPECULATIVE, MARGIN, ENV),
        *(*LOADING, replace(SENTINEL, on_command_line=False), SECONDS, TRIES),
    ),
    make=settings_of,
    run=run,
    programs=lambda settings: (
        *((settings.program.name,) if settings.program is not None else ()),
        *((SERVER,) if settings.prompting is not None else ()),
    ),
)
