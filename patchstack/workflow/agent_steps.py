"""An agent's steps: what each reused, what changed, and what other ways would have processed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from patchstack.cost.architecture import Layout
from patchstack.cost.floors import kv_read_bytes
from patchstack.cost.prefix.blame import Blame, Conversations
from patchstack.cost.prefix.growth import Growth, append_only, growth, images_at_end, new_tokens
from patchstack.cost.prefix.records import Log, Record, known_totals
from patchstack.cost.prefix.slots import Request, Slots
from patchstack.cost.server_options import ServerOptions
from patchstack.errors import UsageError
from patchstack.workflow.prompt_tokens import Prompt, Tokens


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentStep:
    """A step: tokens in all and reused, as measured if the log says it, and as predicted if the prompt is known."""

    record: Record
    conversation: int
    total: int
    cached: int
    predicted: int | None
    action: float | None
    blame: Blame | None
    lost: int | None

    @property
    def processed(self) -> int:
        return self.total - self.cached


@dataclass(frozen=True, slots=True, kw_only=True)
class Way:
    """Another way: the tokens it processes, and bytes of KV and checkpoints. `assumption` is what it takes for
    granted."""

    name: str
    processed: int
    bytes: int | None = None
    assumption: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentRun:
    """All steps of a log. `unit` says what a token is. `speed` is tokens of prefill a second, None if the log has no
    times."""

    unit: str
    steps: tuple[AgentStep, ...]
    growth: Growth
    ways: tuple[Way, ...]
    speed: float | None
    gaps: tuple[str, ...]


def follow(
    log: Log, layout: Layout, options: ServerOptions, tokens: Tokens, *, last_images: int = 3, image_tokens: int = 0
) -> AgentRun:
    """Follow an agent through a log. Raises `UsageError` if neither prompts nor timings say what a step had."""
    records = log.records
    prompts = [tokens.prompt(one) if one.messages is not None or one.prompt is not None else None for one in records]
    if not known_totals(records) and any(one is None for one in prompts):
        raise UsageError(
            "some steps have neither a prompt nor timings", hint="log whole requests, or answers with timings"
        )
    known = [one for one in prompts if one is not None]
    complete = len(known) == len(prompts)
    requests = [_request(one, record, tokens) for one, record in zip(known, records, strict=False)] if complete else []
    predicted = _reused(layout, options, requests) if complete else [None] * len(records)
    steps = _steps(records, prompts, predicted)
    processed = [one.processed for one in steps]
    timed = [(one.record.prefill, one.processed) for one in steps if one.record.prefill]
    seconds = sum(one for one, _ in timed if one)
    ways = _ways(layout, options, requests, known, steps) if complete else ()
    ways += _counted(steps, last_images, image_tokens, records, with_append=not complete)
    return AgentRun(
        unit=tokens.unit if not known_totals(records) else "tokens, as the server counted them",
        steps=tuple(steps),
        growth=growth(processed),
        ways=ways,
        speed=sum(count for _, count in timed) / seconds if seconds else None,
        gaps=log.gaps,
    )


def _request(prompt: Prompt, record: Record, tokens: Tokens) -> Request:
    return Request(
        prompt=prompt.tokens,
        generated=tokens.answer(record),
        user_starts=prompt.user_starts,
        slot=record.slot,
        images=prompt.images,
        cache=(record.body or {}).get("cache_prompt", True) is not False,
    )


def _reused(layout: Layout, options: ServerOptions, requests: Sequence[Request]) -> list[int | None]:
    server = Slots(layout, options)
    return [server.serve(one).cached for one in requests]


def _steps(
    records: Sequence[Record], prompts: Sequence[Prompt | None], predicted: Sequence[int | None]
) -> list[AgentStep]:
    conversations = Conversations(last=[])
    found: list[AgentStep] = []
    previous: dict[int, AgentStep] = {}
    for record, prompt, reused in zip(records, prompts, predicted, strict=True):
        number, changed = 0, None
        if record.messages is not None:
            number = conversations.find(record.messages)
            changed = conversations.step(number, record.messages, record.answer)
        total = record.total if record.total is not None else len(prompt.tokens) if prompt else 0
        cached = record.cached if record.cached is not None else reused or 0
        before = previous.get(number)
        lost = max(0, min(total, before.total) - cached) if changed is not None and before is not None else None
        step = AgentStep(
            record=record,
            conversation=number,
            total=total,
            cached=cached,
            predicted=reused,
            action=_action(before, record),
            blame=changed,
            lost=lost,
        )
        previous[number] = step
        found.append(step)
    return found


def _action(before: AgentStep | None, record: Record) -> float | None:
    """The agent's own time: from the end of the answer before to this request."""
    if before is None or before.record.ended is None or record.started is None:
        return None
    return max(0.0, record.started - before.record.ended)


def _ways(
    layout: Layout,
    options: ServerOptions,
    requests: Sequence[Request],
    prompts: Sequence[Prompt],
    steps: Sequence[AgentStep],
) -> tuple[Way, ...]:
    """Ways whose requests are known token by token: the server is simulated."""
    found = [_simulated("as logged, by the simulation", layout, options, requests)]
    if options.checkpoints and (layout.recurrent or layout.window):
        found.append(_simulated("-cms 0", layout, replace(options, spacing=0), requests))
        more = replace(options, spacing=0, checkpoints=4 * options.checkpoints)
        found.append(_simulated(f"-cms 0 -ctxcp {more.checkpoints}", layout, more, requests))
    appended: list[Request] = []
    held: dict[int, list[int]] = {}
    starts: dict[int, list[int]] = {}
    for request, prompt, step in zip(requests, prompts, steps, strict=True):
        earlier = held.get(step.conversation)
        users = starts.setdefault(step.conversation, [])
        if earlier is None:
            whole = list(request.prompt)
            users += request.user_starts
        else:
            shift = len(earlier) - prompt.tail
            users += [one + shift for one in request.user_starts if one >= prompt.tail]
            whole = earlier + list(request.prompt[prompt.tail :])
        appended.append(replace(request, prompt=tuple(whole), user_starts=tuple(users), images=()))
        held[step.conversation] = whole + list(request.generated)[:-1]
    room = replace(options, context=max(options.context or layout.trained, 2 * max(map(len, held.values()), default=0)))
    same = [one.record.messages is not None for one in steps]
    if all(same):
        found.append(_simulated("append-only", layout, room, appended, "earlier messages stay as they are"))
    return tuple(found)


def _simulated(
    name: str, layout: Layout, options: ServerOptions, requests: Sequence[Request], assumption: str = ""
) -> Way:
    server = Slots(
        replace(layout, trained=1 << 40), options, context=max(options.context or layout.trained, _longest(requests))
    )
    most = processed = 0
    for one in requests:
        reuse = server.serve(one)
        processed += reuse.processed
        held = kv_read_bytes(layout, options, reuse.total) + server.checkpoint_bytes + layout.state_bytes
        most = max(most, held)
    return Way(name=name, processed=processed, bytes=most, assumption=assumption)


def _longest(requests: Sequence[Request]) -> int:
    return max((len(one.prompt) + len(one.generated) for one in requests), default=0) + 256


def _counted(
    steps: Sequence[AgentStep], last_images: int, image_tokens: int, records: Sequence[Record], *, with_append: bool
) -> tuple[Way, ...]:
    """Ways that follow from totals alone."""
    totals = [one.total for one in steps]
    found = [Way(name="no cache", processed=sum(totals), assumption="every step processes its whole prompt")]
    added = new_tokens(totals, [one.cached for one in steps])
    if with_append and added > 0:
        said = f"a step adds {added:,} tokens: the most that any did"
        found.append(
            Way(name="append-only", processed=append_only(steps[0].processed, len(totals), added), assumption=said)
        )
    shown = sum(one.images for record in records for one in (record.messages or ()))
    if image_tokens and (shown or with_append):
        text = max(0, added - image_tokens)
        said = f"{text:,} tokens of text a step, {image_tokens:,} an image; checkpoints where images begin"
        name = f"last {last_images} images at the end"
        fixed = max(0, steps[0].processed - image_tokens - text)
        found.append(
            Way(
                name=name, processed=images_at_end(fixed, len(totals), text, image_tokens, last_images), assumption=said
            )
        )
    return tuple(found)
