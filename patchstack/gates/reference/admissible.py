"""Decide whether a changed transcript may become the reference.

Evidence must show that the model is still the same.

The evidence is a measurement of the judged build, with the same model, compute path and switches, and with the verdict
PASS. It is either the KL divergence from the build of the reference, which the gate itself measures (`kl`, see
`model_unchanged`), or the result of another gate of the suite, which is run now.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from patchstack.causes import ModelChanged
from patchstack.errors import MissingError, NotHeldError
from patchstack.gates.judgement import Judgement
from patchstack.gates.kinds import completion, drift, kl, tokens
from patchstack.gates.reference.model_unchanged import as_environment
from patchstack.gates.reference.record import RecordedReference, state_of
from patchstack.gates.suite import Gate
from patchstack.llama.compute_path import path_args, same_environment, same_path
from patchstack.observe.from_build import shown
from patchstack.observe.observer import Observer
from patchstack.observe.settings import Environment
from patchstack.verdict import Verdict

EVIDENCE = ("kl", "drift", "tokens")
"""The kinds of gates that can show that a model is the same."""

_HINT = "add kl: to the gate, so that it measures the model; or name a kl, drift or tokens gate with --because GATE"

Judged = tuple[Gate, Judgement]


def allowed(gate: Judged, replaced: Sequence[RecordedReference], because: Sequence[Judged], runner: Observer) -> str:
    """Return the evidence, as text, that the model is still the same for every replaced reference.

    Raises `NotHeldError` with the reasons if evidence is missing for a reference.
    """
    runner = runner.within(replace(runner.context, gpu=gate[0].gpu))
    shows: list[str] = []
    problems: list[str] = []
    for one in replaced:
        found, complaints = _shown(gate, state_of(one), because, runner)
        if found is None:
            problems += [f"{'.'.join(one.keys)}: {one.old} to {one.new}", *(f"  {text}" for text in complaints)]
        else:
            shows.append(found)
    if problems:
        raise ModelChanged(
            "the transcript changed, and nothing shows that the model is the same", problems=problems, hint=_HINT
        )
    return "; ".join(dict.fromkeys(shows))


def _shown(gate: Judged, state: str, because: Sequence[Judged], runner: Observer) -> tuple[str | None, list[str]]:
    """Return the evidence for a state. If no evidence is found, return None and the reasons."""
    complaints = []
    for own in _own(gate[1], state):
        told = f"KL against {own['against']}: {own['verdict']}, {own['reason']}"
        if own["evidence"] and own["verdict"] == Verdict.PASS:
            return told, []
        complaints.append(told)
    for other in because:
        problem = _problem(gate[0], state, other, runner)
        if problem is None:
            return f"{other[0].name}: PASS, {other[1].reason}", []
        complaints.append(f"{other[0].name}: {problem}")
    return None, complaints


def _own(judgement: Judgement, state: str) -> list[Any]:
    found = judgement.details.get("kl")
    return [one for one in found if isinstance(one, dict) and one["state"] == state] if isinstance(found, list) else []


def _problem(gate: Gate, state: str, because: Judged, runner: Observer) -> str | None:
    """Return why a gate does not show that the model of a state is the same. Return None if it does."""
    other, judgement = because
    if other.name == gate.name:
        return "a gate cannot be evidence for itself"
    if judgement.verdict is not Verdict.PASS:
        return f"it is {judgement.verdict}: {judgement.reason}"
    assert isinstance(gate.settings, completion.CompletionSettings | tokens.TokensSettings)
    env = as_environment(gate.settings.prompting.env, _env(gate.settings, state))
    match other.settings:
        case kl.KlSettings():
            return _of_kl(gate, state, env, other.settings, runner)
        case drift.DriftSettings():
            return _of_kl(gate, state, env, other.settings.kl, runner)
        case tokens.TokensSettings():
            return _of_tokens(gate.settings, env, other.settings)
    return f"a gate of kind {other.kind} proves nothing about the model; one of kind {', '.join(EVIDENCE)} does"


def _of_kl(gate: Gate, state: str, env: Environment, settings: kl.KlSettings, runner: Observer) -> str | None:
    assert isinstance(gate.settings, completion.CompletionSettings | tokens.TokensSettings)
    test = settings.comparison.test
    if problem := same_path(gate.settings.prompting, test):
        return problem
    if not same_environment(env, test.env):
        return f"it runs with {_words(test.env)}, but the gate with {_words(env)}"
    if settings.base_build is None:
        return "its base is of this build too, so an error of both sides would not show (base_build: the other build)"
    try:
        with runner.beside(settings.base_build) as base:
            if base.build_digest() == runner.build_digest():
                return "its base_build is this build, so an error of both sides would not show"
            if problem := _gives(gate, state, base):
                return f"build {shown(settings.base_build)} is not the build of the reference: {problem}"
    except (MissingError, NotHeldError) as error:
        return error.message
    return None


def _of_tokens(
    own: completion.CompletionSettings | tokens.TokensSettings, env: Environment, settings: tokens.TokensSettings
) -> str | None:
    mine, theirs = own.prompting, settings.prompting
    if theirs.model != mine.model:
        return f"its model is {theirs.model.name}, not {mine.model.name}"
    if path_args(theirs) != path_args(mine):
        return f"it runs with {' '.join(path_args(theirs))}, but the gate with {' '.join(path_args(mine))}"
    if theirs.prompt != mine.prompt or theirs.tokens < mine.tokens:
        return "it has a different prompt, or fewer tokens"
    held = [one for one in settings.states if one.reference is not None]
    if not any(same_environment(env, as_environment(theirs.env, one.env)) for one in held):
        return f"none of its states with a reference runs with {_words(env)}"
    return None


def _gives(gate: Gate, state: str, base: Observer) -> str | None:
    kind = completion.KIND if gate.kind == completion.KIND.name else tokens.KIND
    base = base.within(replace(base.context, kind=kind.key))
    match gate.settings:
        case completion.CompletionSettings():
            return completion.gives(gate.settings, next(one for one in gate.settings.states if one.name == state), base)
        case tokens.TokensSettings():
            return tokens.gives(gate.settings, next(one for one in gate.settings.states if one.name == state), base)
    return None


def _env(settings: completion.CompletionSettings | tokens.TokensSettings, state: str) -> Environment:
    return next(one.env for one in settings.states if one.name == state)


def _words(env: Environment) -> str:
    return " ".join(f"{name}={value}" for name, value in env) or "no variables"
