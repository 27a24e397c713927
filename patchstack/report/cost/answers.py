"""Build the documents that `patchstack cost` prints."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from msgspec.structs import replace

from patchstack.causes import BadValue, CostUnknown, InputUnreadable
from patchstack.cost.architecture import Layout
from patchstack.cost.compare import compare, compare_part
from patchstack.cost.floors import decode_floor, outweighing, prefill_floors
from patchstack.cost.machine import Machine, mixed_origins
from patchstack.cost.memory import Loaded, allocate, largest_context, most_slots
from patchstack.cost.prefix.records import Log, read_log
from patchstack.cost.sensitivity import (
    Result,
    decode_result,
    elasticities,
    memory_result,
    prefill_result,
    state_result,
    vary,
    weights_result,
)
from patchstack.cost.ssm import memory_lengths, split, sweep, threshold_of_share
from patchstack.cost.weights import StepSize, weigh
from patchstack.errors import Exit, MissingError, UsageError
from patchstack.report.cost import document as parts
from patchstack.report.cost.document import model_part, options_part
from patchstack.report.documents.cost import (
    CostDocument,
    CostFit,
    CostOutweigh,
    CostPrefix,
    CostState,
    CostStep,
    CostWay,
)
from patchstack.verdict import exit_code
from patchstack.workflow.agent_steps import AgentRun, AgentStep, EstimatedTokens, ServerTokens, Tokens, follow
from patchstack.workflow.cost import Fitted, Subject, open_subject


def prefix_answer(
    model: Path,
    options: Sequence[str],
    logs: Sequence[Path],
    *,
    server: str | None,
    image_tokens: int | None,
    last_images: int,
) -> CostDocument:
    """Return the prefix reuse of an agent's steps. Several logs are read in order, as if they were one log."""
    subject = open_subject(model, ["llama-server", *options])
    read = [read_log(path) for path in logs]
    log = Log(
        records=tuple(one for part in read for one in part.records),
        gaps=tuple(one for part in read for one in part.gaps),
    )
    tokens: Tokens = ServerTokens(server, image_tokens) if server is not None else EstimatedTokens(image_tokens)
    work = subject.workload()
    run = follow(log, work.layout, subject.options, tokens, last_images=last_images, image_tokens=image_tokens or 0)
    return CostDocument(
        model=model_part(subject.model, subject.layout, subject.options),
        options=options_part(subject.options),
        prefix=prefix_part(run),
    )


def prefix_part(run: AgentRun) -> CostPrefix:
    """Convert an agent's steps, and the costs of alternatives, to a part of the document."""
    now = sum(one.processed for one in run.steps)
    return CostPrefix(
        unit=run.unit,
        steps=tuple(_step_part(number, one) for number, one in enumerate(run.steps, 1)),
        total_tokens=sum(one.total for one in run.steps),
        cached_tokens=sum(one.cached for one in run.steps),
        processed_tokens=now,
        linear=run.growth.linear,
        quadratic=run.growth.quadratic,
        ways=tuple(
            CostWay(
                way=one.name,
                processed_tokens=one.processed,
                of_now=one.processed / now if now else 0.0,
                seconds=one.processed / run.speed if run.speed else None,
                bytes=one.bytes,
                assumption=one.assumption,
            )
            for one in run.ways
        ),
        gaps=run.gaps,
    )


def _step_part(number: int, step: AgentStep) -> CostStep:
    return CostStep(
        step=number,
        conversation=step.conversation,
        total_tokens=step.total,
        cached_tokens=step.cached,
        processed_tokens=step.processed,
        predicted_cached_tokens=step.predicted,
        prefill_seconds=step.record.prefill,
        decode_seconds=step.record.decode,
        action_seconds=step.action,
        blame_message=step.blame.message if step.blame else None,
        blame_role=step.blame.role if step.blame else "",
        blame_change=step.blame.change if step.blame else "",
        lost_tokens=step.lost,
    )


def _about(
    subject: Subject, machine: Machine | None = None, *, floors: bool = False, steps: bool = False
) -> CostDocument:
    """Return a document with only the model, the machine, the options and the assumptions."""
    told = parts.assumptions(subject, floors=floors, steps=steps)
    if machine is not None and (mixed := mixed_origins(machine.figures)):
        told += (f"The machine has {mixed}.",)
    return CostDocument(
        model=parts.model_part(subject.model, subject.layout, subject.options),
        machine=parts.machine_part(machine) if machine is not None and machine.figures else None,
        options=parts.options_part(subject.options),
        assumptions=told,
    )


def with_sensitivity(document: CostDocument, results: Sequence[Result], varied: str | None) -> CostDocument:
    """Add the elasticities of results to a document, and the results over the range `varied`.

    If `varied` is None, return the document unchanged. Raises `UsageError` if `varied` is not a range of an input.
    """
    if varied is None:
        return document
    return replace(
        document,
        variations=parts.variation_parts(vary(results, varied)),
        elasticities=parts.elasticity_parts(found for one in results for found in elasticities(one)),
    )


def weights_answer(subject: Subject, tokens: int, varied: str | None = None) -> CostDocument:
    """Return the size of each group of weights in the file, and the bytes that a step of `tokens` tokens reads."""
    drafting = subject.options.self_drafting
    step = StepSize(tokens=tokens, routing=subject.routing, drafting=drafting)
    rows = weigh(subject.placed, step)
    found = replace(
        _about(subject, steps=True), weights=parts.weights_part(subject.placed, rows, subject.routing, tokens)
    )
    return with_sensitivity(found, [_weights_result(subject, tokens)], varied)


def _weights_result(subject: Subject, tokens: int) -> Result:
    return weights_result(subject.placed, subject.routing, tokens, drafting=subject.options.self_drafting)


def decode_answer(
    subject: Subject, machine: Machine, streams: Sequence[int], contexts: Sequence[int], varied: str | None = None
) -> CostDocument:
    """Return the lower bound for the decode time, for each number of streams and each context length.

    Raises `UsageError` if a number of streams is below 1, or if the bandwidth is unknown.
    """
    if min(streams) < 1:
        raise BadValue("--streams must be at least 1")
    work, bandwidth = subject.workload(), machine.need_bandwidth()
    found = replace(
        _about(subject, machine, floors=True),
        decode=tuple(
            parts.decode_part(decode_floor(work, many, length, bandwidth)) for length in contexts for many in streams
        ),
        outweigh=tuple(CostOutweigh(context_tokens=one, streams=outweighing(work, one)) for one in contexts),
    )
    return with_sensitivity(found, [decode_result(work, streams[0], contexts[0], bandwidth)], varied)


def prefill_answer(
    subject: Subject, machine: Machine, prompt: int, before: int, varied: str | None = None
) -> CostDocument:
    """Return the lower bound for the time of each ubatch of a prompt.

    Raises `UsageError` if the bandwidth is unknown. Raises `MissingError` if `varied` is given and a peak rate is
    unknown.
    """
    work, bandwidth = subject.workload(), machine.need_bandwidth()
    floors = prefill_floors(work, prompt, bandwidth, machine.peak_values, before=before)
    found = replace(_about(subject, machine, floors=True), prefill=tuple(map(parts.prefill_part, floors)))
    if varied is None:
        return found
    result = prefill_result(work, prompt, before, bandwidth, machine.peak_values)
    if result is None:
        lacking = sorted({name for one in floors for name in one.lacking})
        raise CostUnknown(
            f"the floor is unknown: the machine file has no peak for {', '.join(lacking)}",
            hint="use a machine file that contains these peaks ('patchstack cost machines' lists the known figures)",
        )
    return with_sensitivity(found, [result], varied)


def memory_answer(
    subject: Subject, machine: Machine, fitted: Sequence[Fitted] = (), varied: str | None = None
) -> CostDocument:
    """Return what a server allocates, and what fits into the memory of the machine."""
    layout = subject.workload().layout
    options, weights = subject.options, subject.model.tensor_bytes
    memory = allocate(layout, options, weights)
    draft = subject.draft.memory if subject.draft is not None else None
    loaded = _loaded(subject, layout)
    fit = None
    if machine.memory is not None:
        whole = int(machine.memory.value)
        room = whole - sum(one.compute for one in fitted)
        fit = CostFit(
            room_bytes=room,
            largest_context_tokens=largest_context(loaded, room),
            trained_tokens=layout.trained,
            most_slots=most_slots(loaded, room),
        )
    found = replace(_about(subject, machine), memory=parts.memory_part(memory, options, fitted, fit, draft))
    return with_sensitivity(found, [memory_result(loaded)], varied)


def _loaded(subject: Subject, layout: Layout) -> list[Loaded]:
    """Return the model and, if there is one, the draft model."""
    own = Loaded(layout=layout, options=subject.options, weights=subject.model.tensor_bytes)
    return [own, *([subject.draft.memory] if subject.draft is not None else [])]


def report_answer(
    subject: Subject,
    machine: Machine,
    streams: Sequence[int],
    contexts: Sequence[int],
    fitted: Sequence[Fitted] = (),
    varied: str | None = None,
) -> CostDocument:
    """Return all costs that can be computed from the header, the machine and the command line."""
    tokens = max(1, streams[0])
    found, results = weights_answer(subject, tokens), [_weights_result(subject, tokens)]
    if subject.layout is None:
        return with_sensitivity(found, results, varied)
    memory = memory_answer(subject, machine, fitted)
    found = replace(found, memory=memory.memory, assumptions=_all(found, memory))
    results.append(memory_result(_loaded(subject, subject.layout)))
    if machine.bandwidth is None:
        return with_sensitivity(found, results, varied)
    floors = decode_answer(subject, machine, streams, contexts)
    prefill = prefill_answer(subject, machine, _PROMPT, 0).prefill
    state = _report_state(subject, machine)
    found = replace(
        found,
        machine=floors.machine,
        assumptions=(*_all(floors, memory), *([_AT_REST] if state is not None else [])),
        decode=floors.decode,
        outweigh=floors.outweigh,
        prefill=prefill,
        state=state,
    )
    if varied is not None:
        work, bandwidth = subject.workload(), machine.bandwidth.value
        prompt = prefill_result(work, _PROMPT, 0, bandwidth, machine.peak_values)
        results += [decode_result(work, streams[0], contexts[0], bandwidth), *([prompt] if prompt is not None else [])]
    return with_sensitivity(found, results, varied)


def _all(*documents: CostDocument) -> tuple[str, ...]:
    """Return the assumptions of all documents without repetition."""
    return tuple(dict.fromkeys(one for document in documents for one in document.assumptions))


_PROMPT = 2048
"""The prompt length that a report assumes, in tokens."""


def _report_state(subject: Subject, machine: Machine) -> CostState | None:
    """Return the recurrent state, or None if its memory lengths are unknown.

    The reason is not reported here, because `patchstack cost ssm` reports it.
    """
    try:
        return state_answer(subject, machine, (0.0, None), 1).state
    except (MissingError, UsageError):  # no recurrent layers, or no usable decay values
        return None


_AT_REST = "τ is taken at α = 0. KL divergence, not τ, decides whether a head may lose precision."


def state_answer(
    subject: Subject,
    machine: Machine,
    wanted: tuple[float | None, float | None],
    streams: int,
    varied: str | None = None,
) -> CostDocument:
    """Return the memory lengths, the split at a threshold or share, and a sweep of thresholds.

    `wanted` contains the threshold in tokens and the share. The share is used if the threshold is None.
    """
    layout = subject.workload().layout
    memories = memory_lengths(subject.model, layout)
    threshold, share = wanted
    if threshold is None:
        threshold = threshold_of_share(memories, share if share is not None else 1.0)
    bandwidth = machine.bandwidth.value if machine.bandwidth is not None else None
    chosen = split(memories, layout, threshold, bandwidth=bandwidth, streams=streams)
    grid = sweep(memories, layout, bandwidth=bandwidth, streams=streams)
    mixed = mixed_origins(machine.figures)
    told = (_AT_REST, *([f"The machine has {mixed}."] if mixed else []))
    found = replace(
        _about(subject, machine),
        assumptions=told,
        state=parts.state_part(memories, chosen, grid, streams),
    )
    return with_sensitivity(found, [state_result(memories, layout, threshold, streams, bandwidth)], varied)


def compare_answer(
    subject: Subject, machine: Machine, runs: Sequence[Path], given: Sequence[str], options: Sequence[str] = ()
) -> tuple[CostDocument, Exit]:
    """Return measured times divided by their lower bounds, and the exit status.

    `runs` are files of measured times, and `given` are measured times in the form GROUP=TIME@STREAMS. `options` are
    options of the measured runs that the files do not record.
    """
    from patchstack.report.cost.runs import read_runs

    if not runs and not given:
        raise InputUnreadable(
            "no measured times are given", hint="name files of measured times, or use --part GROUP=TIME@STREAMS"
        )
    work, bandwidth = subject.workload(), machine.need_bandwidth()
    found = [compare_part(work, one, bandwidth) for one in given]
    told: list[str] = []
    for path in runs:
        read = read_runs(path, options)
        found += compare(work, read.rows, bandwidth, machine.peak_values)
        told += read.assumptions
    if not found:
        raise CostUnknown("no row has a measured time", hint="rows with 0 tokens or 0 seconds have no floor")
    about = _about(subject, machine, floors=True)
    answer = replace(about, assumptions=(*about.assumptions, *told), compared=parts.compared_parts(found))
    return answer, exit_code([one.verdict for one in found if one.floor is not None])
