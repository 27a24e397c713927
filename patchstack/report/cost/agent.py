"""The document of `patchstack cost prefix`: an agent's steps, and other ways."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from patchstack.cost.prefix.records import Log, read_log
from patchstack.report.cost.document import model_part, options_part
from patchstack.report.documents.cost import CostDocument, CostPrefix, CostStep, CostWay
from patchstack.workflow.agent_steps import AgentRun, AgentStep, follow
from patchstack.workflow.cost import open_subject
from patchstack.workflow.prompt_tokens import EstimatedTokens, ServerTokens, Tokens


def prefix_answer(
    model: Path,
    options: Sequence[str],
    logs: Sequence[Path],
    *,
    server: str | None,
    image_tokens: int | None,
    last_images: int,
) -> CostDocument:
    """What an agent's steps reuse. Logs are read one after the other, as one."""
    subject = open_subject(model, ["llama-server", *options])
    read = [read_log(path) for path in logs]
    log = Log(
        records=tuple(one for part in read for one in part.records),
        gaps=tuple(one for part in read for one in part.gaps),
    )
    tokens: Tokens = ServerTokens(server) if server is not None else EstimatedTokens(image_tokens)
    work = subject.workload()
    run = follow(log, work.layout, subject.options, tokens, last_images=last_images, image_tokens=image_tokens or 0)
    return CostDocument(
        model=model_part(subject.model, subject.layout, subject.options),
        options=options_part(subject.options),
        prefix=prefix_part(run),
    )


def prefix_part(run: AgentRun) -> CostPrefix:
    """An agent's steps, and other ways."""
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
