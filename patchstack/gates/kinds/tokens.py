"""Gate kind `tokens`: compare the token ids of a greedy continuation by `llama-server`.

A digest of the text shows only that the text differs. Ids show the positions and the number of the differences. The
server has one slot, receives one request at a time and uses no cache, because concurrent greedy requests may give
different tokens than single requests. A reference is a list of ids, or only the digest of such a list. The list is in
the gate's entry, or in a file next to the workspace file. `states` and `kl` have the same meaning as in `completion`.

    - name: moe-tokens
      kind: tokens
      model: q36-35b
      prompt: The capital of France is
      tokens: 48
      states:
        paged: {env: {LLAMA_KV_PAGED: 1}, expect_file: references/moe-paged.json}
        graphs: {env: {LLAMA_KV_PAGED: 1, LLAMA_MOE_FORCE_GRAPHS: 1}, same_as: paged}
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from patchstack.gates.judgement import Judgement, near_or_not, verdict_of, worst
from patchstack.gates.kind import Kind
from patchstack.gates.reference.model_unchanged import (
    MEASURED,
    Changed,
    Measure,
    as_environment,
    gathered,
    measure_of,
    with_evidence,
)
from patchstack.gates.reference.tokens import EXPECT, EXPECT_FILE, TokenReference, reference_of_values
from patchstack.llama.ask_server import ServerAnswers, arguments_taken, ask_servers
from patchstack.llama.completions import Divergence, Generated, Question, first_difference
from patchstack.llama.prompt import SERVER, Prompting
from patchstack.llama.settings import (
    ENV,
    LOADING,
    MARGIN,
    MODEL,
    PROMPT,
    SECONDS,
    SENTINEL,
    SWITCH,
    TOKENS,
    TRIES,
    prompting_of,
)
from patchstack.observe.declared import Named, Setting, Text, Values, Whole
from patchstack.observe.observer import Observer
from patchstack.observe.protocol import Json
from patchstack.observe.settings import Environment, merged
from patchstack.verdict import Verdict


@dataclass(frozen=True, slots=True, kw_only=True)
class TokensState:
    """One environment of the gate.

    The state must give the ids of a reference, of another state (`same_as`), or both. `file` is the name of the
    reference's file as it is written in the workspace file. If the gate has no named states, its only state has an
    empty name.
    """

    name: str = ""
    env: Environment = ()
    reference: TokenReference | None = None
    file: str | None = None
    same_as: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TokensSettings:
    """The settings of the gate.

    `repeats` is the number of times that each server receives the same request. `runs` is the number of servers.
    `probabilities` is the number of candidates that the server returns for each token. If two different tokens have
    probabilities that differ by no more than `margin`, the verdict is INVALID instead of FAIL. Different tokens never
    PASS. `measure` defines how the model is measured if ids changed.
    """

    prompting: Prompting
    states: tuple[TokensState, ...] = (TokensState(),)
    repeats: int = 2
    runs: int = 1
    probabilities: int = 8
    margin: float = 0.0
    measure: Measure | None = None

    @property
    def questions(self) -> tuple[Question, ...]:
        asked = self.prompting
        one = Question(prompt=asked.prompt, tokens=asked.tokens, seed=asked.seed, probabilities=self.probabilities)
        return (one,) * self.repeats


@dataclass(frozen=True, slots=True, kw_only=True)
class StateFinding:
    """The result of one state.

    `steady` is true if all answers of the state were the same. Only then can the answer become a reference.
    """

    state: TokensState
    verdict: Verdict
    reason: str
    steady: bool = False
    answer: Generated | None = None
    expected: str = ""
    divergence: Divergence | None = None

    @property
    def actual(self) -> str:
        return told(self.answer.digest, len(self.answer.ids)) if self.answer is not None else ""

    def document(self) -> dict[str, Json]:
        """Return the finding as JSON.

        Ids are omitted if the answers are not steady, because such ids cannot become a reference.
        """
        answer = self.answer if self.steady else None
        reference = self.state.reference
        return {
            "name": self.state.name,
            "verdict": str(self.verdict),
            "reason": self.reason,
            "ids": list(answer.ids) if answer is not None else None,
            "sha256": answer.digest if answer is not None else None,
            "text": answer.content if answer is not None else None,
            "expected": reference.sha256 if reference is not None else None,
            "expect_file": self.state.file,
            "same_as": self.state.same_as,
            "divergence": self.divergence.document() if self.divergence is not None else None,
        }


# Settings


SAME_AS = Setting[str | None](
    name="same_as",
    form=Text(written="a state's name"),
    default=None,
    on_command_line=False,
    help="The state that must give the same ids.",
)


def state_of(name: str, values: Values, env: Environment = (), same_as: str | None = None) -> TokensState:
    """Return one named state, or the only state of a gate without named states."""
    filed = values[EXPECT_FILE]
    return TokensState(
        name=name,
        env=env,
        reference=reference_of_values(values),
        file=filed.name if filed is not None and values.node is not None else None,
        same_as=same_as,
    )


STATES = Setting[tuple[TokensState, ...] | None](
    name="states",
    form=Named(
        settings=(ENV, EXPECT, EXPECT_FILE, SAME_AS),
        make=lambda name, own: state_of(name, own, own[ENV], own[SAME_AS]),
    ),
    default=None,
    on_command_line=False,
    help="Environments in addition to `env`, each with its own reference.",
)
REPEATS = Setting[int](
    name="repeats",
    form=Whole(1, 16),
    default=2,
    metavar="N",
    help="Send the request N times to each server. All answers must agree.",
)
RUNS = Setting[int](
    name="runs",
    form=Whole(1, 100),
    default=1,
    metavar="N",
    help="Use N servers, one after the other. All answers must agree.",
)
PROBABILITIES = Setting[int](
    name="probabilities",
    form=Whole(2, 100),
    default=8,
    on_command_line=False,
    help="The number of candidates that the server returns for each token.",
)


def settings_of(values: Values) -> TokensSettings:
    """Return the settings from values."""
    prompting = prompting_of(values)
    alone, states = state_of("", values), values[STATES]
    if states is not None and alone.reference is not None:
        values.complain("states", "each state has its own expect and expect_file, so the gate must not have them")
    if switch := values[SWITCH]:
        states = (replace(alone, name="off"), TokensState(name="on", env=switch, same_as="off"))
    settings = TokensSettings(
        prompting=prompting,
        states=(alone,) if states is None else states,
        repeats=values[REPEATS],
        runs=values[RUNS],
        probabilities=values[PROBABILITIES],
        margin=values[MARGIN],
        measure=measure_of(values, prompting),
    )
    values.complain_all(settings_problems(settings))
    return settings


def settings_problems(settings: TokensSettings) -> list[tuple[str, str]]:
    """Return the problems in the settings, each with the key of its setting."""
    found = [("args", f"{text} is set by the gate") for text in arguments_taken(settings.prompting.args)]
    if not settings.states:
        found.append(("states", "the list is empty, so nothing would be checked"))
    by_name = {state.name: state for state in settings.states}
    for state in settings.states:
        count = len(state.reference.ids or ()) if state.reference is not None else 0
        if count > settings.prompting.tokens:
            found.append(("tokens", f"{settings.prompting.tokens} tokens are requested, but the reference has {count}"))
        if state.same_as is None:
            continue
        if state.same_as == state.name or state.same_as not in by_name:
            found.append(("states", f"{state.name}: there is no other state {state.same_as!r}"))
        elif merged(settings.prompting.env, by_name[state.same_as].env) == merged(settings.prompting.env, state.env):
            problem = (
                f"{state.name} and {state.same_as} have the same environment, so a run would be compared with itself"
            )
            found.append(("states", problem))
    return found


# Running


def run(settings: TokensSettings, runner: Observer) -> Judgement:
    """Send the requests in every state, and compare the answers.

    If ids differ, new servers are started to check whether they agree.
    """
    asked = _ask_all(settings, runner, settings.runs)
    findings = findings_of_states(settings, asked)
    if settings.runs == 1 and any(one.verdict is Verdict.FAIL and one.answer is not None for one in findings):
        asked = _ask_all(settings, runner, 2)
        findings = findings_of_states(settings, asked)
    judgement = _judgement(findings, asked)
    if settings.measure is None:
        return judgement
    return with_evidence(judgement, gathered(settings.measure, _changed(settings, findings, asked), runner))


def _changed(
    settings: TokensSettings, findings: Sequence[StateFinding], asked: Mapping[str, ServerAnswers]
) -> list[Changed]:
    """Return the states whose ids differ from the expected ids."""
    own = settings.prompting.env
    envs = {state.name: as_environment(own, state.env) for state in settings.states}
    found = []
    for one in findings:
        state, digest = one.state, one.answer.digest if one.answer is not None and one.steady else None
        if digest is None:
            continue
        if state.reference is not None and state.reference.sha256 != digest:
            found.append(Changed(state=state.name, env=envs[state.name], gives=partial(gives, settings, state)))
        elif state.same_as is not None and (theirs := asked[state.same_as].answers) and theirs[0][0].digest != digest:
            other = envs[state.same_as]
            found.append(Changed(state=state.name, env=envs[state.name], other=state.same_as, other_env=other))
    return found


def gives(settings: TokensSettings, state: TokensState, runner: Observer) -> str | None:
    """Return why a build does not produce the token ids of a state's reference.

    Return None if the build produces these ids, or if the state has no reference.
    """
    if state.reference is None:
        return None
    asked = ask_servers(
        settings.prompting.server(1), settings.questions, runner, env=state.env, what=f"{state.name} server".strip()
    )
    if not asked.answers:
        return asked.reason
    actual = asked.answers[0][0].digest
    return None if actual == state.reference.sha256 else f"it does not give the reference's ids either, but {actual}"


def _ask_all(settings: TokensSettings, runner: Observer, runs: int) -> dict[str, ServerAnswers]:
    program = settings.prompting.server(1)
    found: dict[str, ServerAnswers] = {}
    for state in settings.states:
        what = f"{state.name}, server" if state.name else "server"
        found[state.name] = ask_servers(program, settings.questions, runner, runs=runs, env=state.env, what=what)
    return found


# Judging


def findings_of_states(settings: TokensSettings, asked: Mapping[str, ServerAnswers]) -> tuple[StateFinding, ...]:
    """Return the result of each state, from its own answers and the answers of the state that it must equal."""
    followed = {state.same_as for state in settings.states}
    return tuple(finding_of_state(state, asked, settings.margin, state.name in followed) for state in settings.states)


def finding_of_state(
    state: TokensState, asked: Mapping[str, ServerAnswers], margin: float, followed: bool = False
) -> StateFinding:
    """Return the result of a state.

    A state passes if all its answers have the same ids, and these ids are the ids of the reference and of the state
    that it must equal. `followed` is true if another state must equal this state. Such a state also passes without a
    reference, because the comparison is judged in the other state.
    """
    own = asked[state.name]
    if not own.answers:
        return StateFinding(state=state, verdict=verdict_of(own), reason=own.reason)
    answer = own.answers[0][0]

    if (where := own.unsteady()) is not None:
        return StateFinding(
            state=state,
            verdict=Verdict.INVALID,
            reason=f"new servers do not agree: {where.words}",
            answer=answer,
            divergence=where,
        )
    for again in own.answers[0][1:]:
        if (where := first_difference(again, answer.ids, answer)) is not None:
            reason = f"the same server gave a different answer when asked again: {where.words}"
            verdict, reason = near_or_not(where, margin, reason)
            return StateFinding(state=state, verdict=verdict, reason=reason, answer=answer, divergence=where)

    def finding(verdict: Verdict, reason: str, expected: str = "", where: Divergence | None = None) -> StateFinding:
        return StateFinding(
            state=state,
            verdict=verdict,
            reason=reason,
            steady=True,
            answer=answer,
            expected=expected,
            divergence=where,
        )

    expectations = _expectations(state, asked)
    if isinstance(expectations, str):
        if followed and state.same_as is None:
            return finding(Verdict.PASS, f"{len(answer.ids)} tokens, for others to compare with")
        return finding(Verdict.INVALID, expectations)
    for reference, other, name in expectations:
        expected = told(reference.sha256, len(reference.ids) if reference.ids is not None else None)
        if reference.sha256 == answer.digest:
            continue
        if reference.ids is None:
            hint = "a reference with ids (expect_file) would show the first difference"
            return finding(Verdict.FAIL, f"the ids are not those of {name}; {hint}", expected)
        where = first_difference(answer, reference.ids, other)
        assert where is not None
        return finding(*near_or_not(where, margin, f"differs from {name}: {where.words}"), expected, where)
    names = " and ".join(name for _, _, name in expectations)
    end = "to the end of text" if answer.ended else "to the last"
    first = expectations[0][0]
    return finding(
        Verdict.PASS, f"{len(answer.ids)} tokens, equal {end} with {names}", told(first.sha256, len(answer.ids))
    )


def _expectations(
    state: TokensState, asked: Mapping[str, ServerAnswers]
) -> Sequence[tuple[TokenReference, Generated | None, str]] | str:
    """Return the expected ids of a state.

    Each entry contains the ids, the answer that the ids come from (if any), and a name. If the ids are unknown, return
    the reason as a string.
    """
    found: list[tuple[TokenReference, Generated | None, str]] = []
    if state.reference is not None:
        found.append((state.reference, None, "the reference"))
    if state.same_as is not None:
        other = asked[state.same_as]
        if not other.answers:
            return f"{state.same_as} gives nothing to compare with: {other.reason}"
        if (where := other.unsteady()) is not None:
            return f"in {state.same_as}, new servers do not agree: {where.words}"
        source = other.answers[0][0]
        found.append((TokenReference(sha256=source.digest, ids=source.ids), source, state.same_as))
    return found or "no reference yet: the received ids are in the details"


def _judgement(findings: Sequence[StateFinding], asked: Mapping[str, ServerAnswers]) -> Judgement:
    def joined(texts: Sequence[str]) -> str:
        named = zip(findings, texts, strict=True)
        return "; ".join(f"{one.state.name}: {text}" if one.state.name else text for one, text in named if text)

    verdict = worst([one.verdict for one in findings])
    return Judgement(
        verdict=verdict,
        reason=joined([one.reason if one.verdict is verdict else "" for one in findings]),
        actual=joined([one.actual for one in findings]),
        expected=joined([one.expected for one in findings]),
        details={"states": [one.document() for one in findings]},
        attempts=tuple(attempt for one in asked.values() for attempt in one.attempts),
    )


def told(digest: str, count: int | None) -> str:
    """Return the count and the digest of ids as a short text."""
    return f"{count} tokens {digest}" if count is not None else f"tokens {digest}"


KIND = Kind(
    name="tokens",
    version=1,
    about="Compare the tokens that llama-server chooses greedily with a reference, id by id.",
    settings=(
        *(MODEL, PROMPT, TOKENS, ENV),
        *(
            EXPECT,
            EXPECT_FILE,
            STATES,
            replace(SWITCH, help="Also run with this variable: the tokens must be the same (repeat)."),
        ),
        *(RUNS, REPEATS, PROBABILITIES, MARGIN),
        *(*LOADING, replace(SENTINEL, on_command_line=False), SECONDS, TRIES, MEASURED),
    ),
    make=settings_of,
    run=run,
    programs=lambda settings: (SERVER,),
)
