"""Build the parts of a `patchstack.cost/1` document.

Tables and pages are made from this document, so they show the same values.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from msgspec.structs import replace

from patchstack.cost.architecture import Layout
from patchstack.cost.compare import Compared
from patchstack.cost.experts import Routing
from patchstack.cost.floors import DecodeFloor, PrefillFloor, kv_token_bytes
from patchstack.cost.machine import Machine
from patchstack.cost.memory import MIB, Loaded, Memory, allocate
from patchstack.cost.model import Model
from patchstack.cost.sensitivity import Elasticity, Unit, Variation
from patchstack.cost.server_options import ServerOptions
from patchstack.cost.ssm import LayerMemory, StateSplit
from patchstack.cost.weights import GroupBytes, Placed, is_tied
from patchstack.report.documents.cost import (
    CostAllocation,
    CostBytes,
    CostCompared,
    CostDecode,
    CostElasticity,
    CostFigure,
    CostFit,
    CostGroup,
    CostHeads,
    CostMachine,
    CostMemory,
    CostModel,
    CostOperations,
    CostOptions,
    CostPrefill,
    CostSplit,
    CostState,
    CostVariation,
    CostWeights,
)
from patchstack.report.text import counted
from patchstack.workflow.cost import Fitted, Subject


def model_part(model: Model, layout: Layout | None, options: ServerOptions) -> CostModel:
    """Convert a model to a part of the document.

    If the architecture is known, include the layers and the bytes of KV and state.
    """
    part = CostModel(
        path=str(model.path),
        name=model.name,
        architecture=model.architecture,
        files=len(model.headers),
        tensors=len(model.tensors),
        tensor_bytes=model.tensor_bytes,
        vocabulary=layout.vocabulary if layout else model.vocabulary,
    )
    if layout is None:
        return part
    return replace(
        part,
        memory=str(layout.kind),
        layers=layout.n_layer,
        draft_layers=layout.draft_blocks,
        kv_layers=len([one for one in layout.cached if one.number < layout.n_layer]),
        recurrent_layers=len(layout.recurrent),
        window_layers=len([one for one in layout.cached if one.window]),
        window_tokens=layout.window,
        kv_bytes_a_token=kv_token_bytes(layout, options),
        state_bytes_a_sequence=layout.state_bytes,
    )


def machine_part(machine: Machine) -> CostMachine:
    """Convert a machine and its figures to a part of the document."""
    return CostMachine(
        name=machine.name,
        figures=tuple(
            CostFigure(
                name=name,
                value=figure.value,
                text=figure.words,
                origin=str(figure.origin),
                source=figure.source,
                date=figure.date,
            )
            for name, figure in machine.figures.items()
        ),
    )


def options_part(options: ServerOptions) -> CostOptions:
    """Convert the options of a server's command line to a part of the document."""
    return CostOptions(
        context_tokens=options.context,
        slots=options.slots,
        unified=options.unified,
        batch_tokens=options.batch,
        ubatch_tokens=options.ubatch,
        key_type=options.key_type.name,
        value_type=options.value_type.name,
        flash_attention=options.flash_attention,
        swa_full=options.swa_full,
        checkpoints=options.checkpoints,
        checkpoint_spacing_tokens=options.spacing,
        cache_ram_mib=options.cache_ram,
        draft_tokens=options.draft_tokens,
        ignored=options.ignored,
        unknown=options.unknown,
    )


def weights_part(placed: Sequence[Placed], rows: Sequence[GroupBytes], routing: Routing, tokens: int) -> CostWeights:
    """Convert the weights to a part of the document.

    The part contains the bytes of each group, in the file and in a step of `tokens` tokens.
    """
    return CostWeights(
        step_tokens=tokens,
        routing=routing.source if routing.experts else "no experts",
        distinct_experts=_mean_distinct(routing, tokens) if routing.experts else None,
        experts=routing.experts,
        tied_head=is_tied(placed),
        file_bytes=sum(one.file_bytes for one in rows),
        step_bytes=sum(one.step_bytes for one in rows),
        groups=tuple(
            CostGroup(
                group=str(one.group),
                type=one.type,
                tensors=one.tensors,
                file_bytes=one.file_bytes,
                step_bytes=one.step_bytes,
            )
            for one in rows
        ),
    )


def _mean_distinct(routing: Routing, tokens: float) -> float:
    """Return the expected number of distinct experts in a layer.

    If there is an imatrix, return the mean over the layers for which it has counts.
    """
    if not routing.shares:
        return routing.distinct(tokens)
    return math.fsum(routing.distinct(tokens, block) for block in routing.shares) / len(routing.shares)


def decode_part(floor: DecodeFloor) -> CostDecode:
    """Convert the lower bound for the time of a decode step to a part of the document."""
    return CostDecode(
        streams=floor.streams,
        context_tokens=floor.length,
        bytes=floor.bytes,
        milliseconds=1e3 * floor.seconds,
        tokens_a_second=floor.speed,
        parts=tuple(CostBytes(group=name, bytes=count) for name, count in floor.parts.items() if count),
    )


def prefill_part(floor: PrefillFloor) -> CostPrefill:
    """Convert the lower bound for the time of a ubatch to a part of the document."""
    return CostPrefill(
        before_tokens=floor.before,
        tokens=floor.tokens,
        bytes=floor.bytes,
        memory_milliseconds=1e3 * floor.memory,
        operations=tuple(CostOperations(peak=name, operations=count) for name, count in floor.operations.items()),
        compute_milliseconds=None if floor.compute is None else 1e3 * floor.compute,
        milliseconds=None if floor.seconds is None else 1e3 * floor.seconds,
        unknown_peaks=floor.lacking,
    )


def memory_part(
    memory: Memory, options: ServerOptions, fitted: Iterable[Fitted], fit: CostFit | None, draft: Loaded | None
) -> CostMemory:
    """Convert the memory that a server allocates to a part of the document.

    Compute buffers are counted only if llama-fit-params reported them.
    """
    drafting = allocate(draft.layout, draft.options, draft.weights) if draft is not None else None
    found = [CostAllocation(kind="weights", place="device", bytes=memory.weights, detail="all tensors of the file")]
    for cache in memory.caches:
        streams = f" × {cache.streams} streams" if cache.streams > 1 else ""
        detail = (
            f"{cache.cells:,} cells{streams}, {cache.layers} layers, {options.key_type.name}/{options.value_type.name}"
        )
        kind = "KV" if cache.name == "base" else f"KV ({cache.name})"
        found.append(CostAllocation(kind=kind, place="device", bytes=cache.bytes, detail=detail))
    if memory.states:
        states = memory.states
        detail = f"{states.rows} rows, {states.layers} layers, f32"
        found.append(CostAllocation(kind="recurrent state", place="device", bytes=states.bytes, detail=detail))
    if drafting is not None:
        detail = f"{options.draft_model}: all tensors"
        found.append(CostAllocation(kind="draft weights", place="device", bytes=drafting.weights, detail=detail))
        detail = f"KV and state of the draft model, {options.draft_key_type.name}/{options.draft_value_type.name}"
        found.append(CostAllocation(kind="draft context", place="device", bytes=drafting.context, detail=detail))
    found += _compute_rows(fitted)
    detail = f"{memory.slots} outputs to begin with"
    found.append(CostAllocation(kind="output", place="host", bytes=memory.output, detail=detail))
    if memory.checkpoints:
        detail = (
            f"up to {memory.checkpoints} × {memory.slots} slots of {memory.checkpoint_bytes / MIB:,.2f} MiB;"
            f" plain completions {memory.spaced} a slot"
        )
        found.append(
            CostAllocation(kind="state checkpoints", place="host", bytes=memory.checkpoint_total, detail=detail)
        )
    limit = memory.prompt_cache_bytes
    if limit != 0:
        detail = "up to --cache-ram" if limit else "--cache-ram -1: no limit"
        found.append(CostAllocation(kind="prompt cache", place="host", bytes=limit, detail=detail))
    return CostMemory(
        context_tokens=memory.cells.context,
        stream_tokens=memory.cells.stream,
        streams=memory.cells.streams,
        allocations=tuple(found),
        device_bytes=memory.device + (drafting.device if drafting is not None else 0),
        checkpoint_bytes=memory.checkpoint_bytes,
        checkpoints_a_slot=memory.checkpoints,
        spaced_checkpoints_a_slot=memory.spaced,
        fit=fit,
    )


def _compute_rows(fitted: Iterable[Fitted]) -> list[CostAllocation]:
    rows = [
        CostAllocation(kind="compute", place="device", bytes=one.compute, detail=f"{one.device}, from llama-fit-params")
        for one in fitted
    ]
    return rows or [
        CostAllocation(kind="compute", place="device", bytes=None, detail="not counted: --build asks llama-fit-params")
    ]


def elasticity_parts(found: Iterable[Elasticity]) -> tuple[CostElasticity, ...]:
    """Convert elasticities to parts of the document, in the given order."""
    return tuple(CostElasticity(result=one.result, input=one.name, elasticity=one.value) for one in found)


def variation_parts(found: Iterable[Variation]) -> tuple[CostVariation, ...]:
    """Convert results over a range of an input to parts of the document."""
    return tuple(
        CostVariation(
            result=one.result,
            input=one.name,
            value=one.value,
            milliseconds=1e3 * one.amount if one.unit is Unit.SECONDS else None,
            bytes=one.amount if one.unit is Unit.BYTES else None,
            tokens_a_second=one.speed,
        )
        for one in found
    )


def state_part(
    memories: Sequence[LayerMemory], chosen: StateSplit, sweep: Iterable[StateSplit], streams: int
) -> CostState:
    """Convert the recurrent state to a part of the document.

    The part contains the memory lengths, the chosen split of the heads, and the sweep of splits.
    """
    return CostState(
        streams=streams,
        chosen=_split_part(chosen),
        layers=tuple(
            CostHeads(layer=one.layer, tau_tokens=tuple(map(_finite, one.tau)), f32=kept)
            for one, kept in zip(memories, chosen.f32, strict=True)
        ),
        sweep=tuple(map(_split_part, sweep)),
    )


def _split_part(split: StateSplit) -> CostSplit:
    return CostSplit(
        threshold_tokens=_finite(split.threshold),
        heads=split.heads,
        bf16_heads=split.bf16,
        factor=split.factor,
        state_bytes=split.state_bytes,
        step_milliseconds=None if split.step_seconds is None else 1e3 * split.step_seconds,
        error_bound=split.error,
    )


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def compared_parts(found: Iterable[Compared]) -> tuple[CostCompared, ...]:
    """Convert measured times and their lower bounds to parts of the document."""
    return tuple(
        CostCompared(
            source=one.source,
            what=one.what,
            streams=one.streams,
            measured_milliseconds=1e3 * one.measured,
            floor_milliseconds=None if one.floor is None else 1e3 * one.floor,
            share=one.share,
            verdict=str(one.verdict),
            assumption=one.assumption,
            bound=one.bound,
        )
        for one in found
    )


ASSUMPTIONS = (
    "Every byte is read from memory once in each step. Nothing remains in the chip's caches for the next step.",
    "Activations, launches and waiting are not counted, so real times are always above a floor.",
)


def assumptions(subject: Subject, *, floors: bool, steps: bool) -> tuple[str, ...]:
    """Return the assumptions about the lower bounds, and about the bytes that a step reads."""
    found = list(ASSUMPTIONS if floors else ())
    if subject.routing.experts and (floors or steps):
        found.append(f"Experts are chosen by {subject.routing.source}, independently for each token.")
    if subject.options.unknown:
        found.append(f"These options were not understood and are not counted: {', '.join(subject.options.unknown)}.")
    if subject.options.draft_tokens and floors:
        drafted = counted(subject.options.draft_tokens, "token")
        found.append(
            f"A decode step is one round of speculation: {drafted} drafted for each stream, and all accepted. If fewer "
            "are accepted, there are fewer tokens per second."
        )
    if subject.draft is not None and floors:
        found.append(
            f"The draft model {subject.options.draft_model} runs a step for each drafted token, and one step for the "
            "whole batch. Its pass over the prompt is not counted in prefill."
        )
    if (subject.draft or subject.options.self_drafting) and not floors and not steps:
        found.append("A checkpoint also contains its sequence's cache in the draft context, which is not counted.")
    if not subject.options.context and not steps:
        found.append("The context is the model's training context. The server may reduce it to fit the free memory.")
    return tuple(found)
