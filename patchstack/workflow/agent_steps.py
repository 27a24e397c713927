"""Follow the steps of an agent through a log.

For each step, compute the number of prompt tokens, the number of reused tokens, and the changes of earlier messages.
Also compute the cost of alternatives, such as no cache or different server options.
"""

from __future__ import annotations

import hashlib
import json
import urllib.error
import urllib.request
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

from patchstack.causes import BadValue, ServerAnswer, ServerSilent
from patchstack.cost.architecture import Layout
from patchstack.cost.floors import kv_read_bytes
from patchstack.cost.prefix.blame import Blame, Conversations
from patchstack.cost.prefix.growth import Growth, append_only, growth, images_at_end, new_tokens
from patchstack.cost.prefix.records import Log, Record, is_image, known_totals, read_messages
from patchstack.cost.prefix.slots import Request, Slots
from patchstack.cost.server_options import ServerOptions
from patchstack.errors import UsageError

BYTES_A_TOKEN = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Prompt:
    """The tokens of a prompt.

    All positions are counted in tokens. `user_starts` are the positions at which user messages start. `tail` is the
    position at which the messages after the last answer start. `images` contains the start and the end of each image.
    The end is the position after its last token.
    """

    tokens: tuple[int, ...]
    user_starts: tuple[int, ...] = ()
    tail: int = 0
    images: tuple[tuple[int, int], ...] = ()


class Tokens(Protocol):
    """Computes the tokens of prompts and answers. `unit` is the unit in which they are counted."""

    unit: str

    def prompt(self, record: Record) -> Prompt:
        """Return the tokens of a record's prompt. Raises `UsageError` if they are unknown."""

    def answer(self, record: Record) -> tuple[int, ...]:
        """Return the generated tokens. The last one is not in the cache."""


class EstimatedTokens:
    """Counts every four bytes of a message as one token.

    Messages are counted separately. The user sets the token count of an image.
    """

    unit = f"estimated tokens of {BYTES_A_TOKEN} bytes; --server counts them exactly"

    def __init__(self, image_tokens: int | None = None) -> None:
        self.image_tokens = image_tokens

    def prompt(self, record: Record) -> Prompt:
        if record.messages is None:
            return Prompt(tokens=tuple(_pieces((record.prompt or "").encode())))
        tokens: list[int] = []
        users: list[int] = []
        images: list[tuple[int, int]] = []
        last = max((at for at, one in enumerate(record.messages) if one.role == "assistant"), default=-1)
        tail = 0
        for at, one in enumerate(record.messages):
            if at == last + 1:
                tail = len(tokens)
            if one.role == "user":
                users.append(len(tokens))
            tokens += _pieces(f"<{one.role}>".encode())
            for name in one.images:
                images.append((len(tokens), len(tokens) + self._image(record)))
                tokens += _number(name.encode(), self._image(record))
            tokens += _pieces(one.text.encode())
        return Prompt(tokens=tuple(tokens), user_starts=tuple(users), tail=tail, images=tuple(images))

    def answer(self, record: Record) -> tuple[int, ...]:
        if record.answer is None:
            return ()
        # The next prompt contains the answer as a message, which starts with its role.
        front = _pieces(b"<assistant>") if record.messages is not None else []
        return (*front, *_pieces(record.answer.encode()), -1)

    def _image(self, record: Record) -> int:
        if self.image_tokens is None:
            raise ServerAnswer(
                f"{record.place}: the token count of an image in the prompt is unknown",
                hint="set it with --image-tokens N",
            )
        return self.image_tokens


class ServerTokens:
    """A running llama-server renders and tokenizes the prompts, with `/apply-template` and `/tokenize`.

    `image_tokens` is the token count of an image. If it is None, the count is computed: the text's tokens are
    subtracted from the total in the log, and the rest is divided by the number of images. If the log lacks the total,
    the last computed count is used.
    """

    unit = "tokens of the server's tokenizer"

    def __init__(self, url: str, image_tokens: int | None = None) -> None:
        if not url.startswith(("http://", "https://")):
            raise BadValue(
                f"--server {url}: the address must start with http:// or https://",
                hint="for example --server http://127.0.0.1:8080",
            )
        self.url = url.rstrip("/")
        self.image_tokens = image_tokens
        self._user = self._user_start()
        self._marker: str | None = None
        self._learned = 0

    def prompt(self, record: Record) -> Prompt:
        if record.messages is None:
            return Prompt(tokens=self._tokens(record.prompt or ""))
        body = record.body or {}
        messages = list(body["messages"])
        names = [name for one in record.messages for name in one.images]
        tokens, images = self._with_images(record, self._rendered({**body, "messages": messages}), names)
        last = max((at for at, one in enumerate(record.messages) if one.role == "assistant"), default=-1)
        before: tuple[int, ...] = ()
        if last >= 0:
            shown = sum(len(one.images) for one in record.messages[: last + 1])
            earlier = self._rendered({**body, "messages": messages[: last + 1], "add_generation_prompt": False})
            before, _ = self._with_images(record, earlier, names[:shown], len(images) and images[0][1] - images[0][0])
        tail = next(
            (at for at, (a, b) in enumerate(zip(tokens, before, strict=False)) if a != b), min(len(tokens), len(before))
        )
        size = len(self._user)
        users = tuple(at for at in range(len(tokens) - size + 1) if size and tokens[at : at + size] == self._user)
        return Prompt(tokens=tokens, user_starts=users, tail=tail, images=images)

    def _with_images(
        self, record: Record, text: str, names: Sequence[str], size: int = 0
    ) -> tuple[tuple[int, ...], tuple[tuple[int, int], ...]]:
        """Return the tokens of a prompt with images, and the spans of the images.

        In `text`, the server has replaced each image with a marker.
        """
        if not names:
            return self._tokens(text), ()
        pieces = text.split(self._media_marker(record))
        if len(pieces) != len(names) + 1:
            raise ServerAnswer(
                f"{record.place}: the prompt has {len(names)} images, but the server renders {len(pieces) - 1}"
            )
        texts = [self._tokens(piece, special=not at) for at, piece in enumerate(pieces)]
        size = size or self._image_size(record, sum(map(len, texts)), len(names))
        tokens, images = list(texts[0]), []
        for name, piece in zip(names, texts[1:], strict=True):
            images.append((len(tokens), len(tokens) + size))
            tokens += [*_number(name.encode(), size), *piece]
        return tuple(tokens), tuple(images)

    def _image_size(self, record: Record, text: int, images: int) -> int:
        if self.image_tokens is not None:
            return self.image_tokens
        left = record.total - text if record.total is not None else self._learned * images
        if left > 0 and left % images == 0:
            self._learned = left // images
            return self._learned
        raise ServerAnswer(
            f"{record.place}: the token count of the images in the prompt is unknown",
            hint="set it with --image-tokens N, or use a log that has timings and images of one size",
        )

    def _media_marker(self, record: Record) -> str:
        if self._marker is None:
            self._marker = str(self._get("/props").get("media_marker") or "")
        if not self._marker:
            raise ServerAnswer(
                f"{record.place}: the prompt has an image, but the server reports no media marker",
                hint="start llama-server with --mmproj, or omit --server and use --image-tokens N",
            )
        return self._marker

    def answer(self, record: Record) -> tuple[int, ...]:
        if record.answer_tokens:
            return record.answer_tokens
        if record.answer is None:
            return ()
        found = self._post("/tokenize", {"content": record.answer, "add_special": False, "parse_special": True})
        return (*_integers(found), -1)  # the end token of the answer, which is not in the cache

    def _rendered(self, body: dict[str, Any]) -> str:
        kept = {key: value for key, value in body.items() if key in _TEMPLATE_KEYS}
        return str(self._post("/apply-template", kept).get("prompt", ""))

    def _tokens(self, text: str, *, special: bool = True) -> tuple[int, ...]:
        if not text:
            return ()
        return _integers(self._post("/tokenize", {"content": text, "add_special": special, "parse_special": True}))

    def _user_start(self) -> tuple[int, ...]:
        """Return the tokens that begin a user message.

        Uses the method of `detect_user_start_marker` in the pin's chat analyzer.
        """
        marker = "patchstack asks where this is"
        try:
            text = self._rendered({"messages": [{"role": "user", "content": marker}]})
        except UsageError:
            return ()
        front = text.partition(marker)[0].strip()
        if not front:
            return ()
        return _integers(self._post("/tokenize", {"content": front, "add_special": False, "parse_special": True}))

    def _post(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        return self._asked(path, json.dumps(body).encode())

    def _get(self, path: str) -> dict[str, Any]:
        return self._asked(path, None)

    def _asked(self, path: str, body: bytes | None) -> dict[str, Any]:
        request = urllib.request.Request(  # noqa: S310  (http or https: checked above)
            self.url + path, body, {"Content-Type": "application/json"}
        )
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:  # noqa: S310
                found = json.loads(answer.read())
        except urllib.error.HTTPError as error:
            raise ServerAnswer(f"{self.url}{path}: status {error.code}: {error.read()[:200]!r}") from error
        except (OSError, ValueError) as error:
            raise ServerSilent(
                f"{self.url} does not answer: {error}", hint="start llama-server with the model"
            ) from error
        if not isinstance(found, dict):
            raise ServerAnswer(f"{self.url}{path}: the response is not a JSON object")
        return found


_TEMPLATE_KEYS = (
    "messages",
    "tools",
    "tool_choice",
    "chat_template_kwargs",
    "add_generation_prompt",
    "reasoning_format",
)


def _integers(answer: dict[str, Any]) -> tuple[int, ...]:
    tokens = answer.get("tokens")
    if not isinstance(tokens, list) or not all(isinstance(one, int) for one in tokens):
        raise ServerAnswer("the server's response contains no list of tokens")
    return tuple(tokens)


def _pieces(data: bytes) -> list[int]:
    """Split the data into tokens of four bytes, and return each token as a number."""
    return [int.from_bytes(data[at : at + BYTES_A_TOKEN], "big") for at in range(0, len(data), BYTES_A_TOKEN)]


def _number(data: bytes, count: int) -> list[int]:
    start = int.from_bytes(hashlib.sha256(data).digest()[:6], "big") << 32
    return [start + one for one in range(count)]


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentStep:
    """A step of an agent.

    `total` is the number of prompt tokens. `cached` is the number of reused tokens from the log or, if the log lacks
    it, the number `predicted` from the prompts. If neither is known, `cached` is 0. `action` is the time in seconds
    that the agent took before this step. `blame` is the first change of an earlier message. `lost` is the number of
    tokens that were not reused because of this change.
    """

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
    """An alternative to what the log shows, with its cost.

    `processed` is the number of tokens to process. `bytes` is the maximum size of KV cache, checkpoints and recurrent
    state. It is None if the server was not simulated. `assumption` is the condition under which these figures are
    valid.
    """

    name: str
    processed: int
    bytes: int | None = None
    assumption: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentRun:
    """All steps of a log, and the alternatives to it.

    `unit` is the unit in which tokens are counted. `speed` is in prefill tokens per second. It is None if the log has
    no times.
    """

    unit: str
    steps: tuple[AgentStep, ...]
    growth: Growth
    ways: tuple[Way, ...]
    speed: float | None
    gaps: tuple[str, ...]


def follow(
    log: Log, layout: Layout, options: ServerOptions, tokens: Tokens, *, last_images: int = 3, image_tokens: int = 0
) -> AgentRun:
    """Follow an agent through a log.

    `last_images` is the number of images that the alternative with images at the end keeps. `image_tokens` is the token
    count of an image. It is needed for this alternative if the log lacks prompts.

    Raises `UsageError` if some steps have neither a prompt nor timings. Also raises the errors of `tokens`.
    """
    records = log.records
    prompts = [tokens.prompt(one) if one.messages is not None or one.prompt is not None else None for one in records]
    if not known_totals(records) and any(one is None for one in prompts):
        raise ServerAnswer(
            "some steps have neither a prompt nor timings", hint="log complete requests, or responses with timings"
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
    shown = any(one.images for record in records for one in record.messages or ())
    if complete and shown and all(one.messages is not None for one in records):
        ways += (_images_last(layout, options, steps, tokens, last_images),)
    ways += _counted(steps, 0 if complete else last_images, image_tokens, with_append=not complete)
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
    """Return how many seconds the agent itself took: the time from the end of the previous answer to this request.

    Return None if the log lacks one of the two times.
    """
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
    """Return the alternatives that are computed by simulating the server.

    The simulation needs the tokens of all requests.
    """
    found = [_simulated("as logged (simulated)", layout, options, requests)]
    if options.checkpoints and (layout.recurrent or layout.window):
        found.append(_simulated("-cms 0", layout, replace(options, spacing=0), requests))
        more = replace(options, spacing=0, checkpoints=4 * options.checkpoints)
        found.append(_simulated(f"-cms 0 -ctxcp {more.checkpoints}", layout, more, requests))
    appended: list[Request] = []
    held: dict[int, list[int]] = {}
    starts: dict[int, list[int]] = {}
    spans: dict[int, list[tuple[int, int]]] = {}
    for request, prompt, step in zip(requests, prompts, steps, strict=True):
        earlier = held.get(step.conversation)
        users = starts.setdefault(step.conversation, [])
        images = spans.setdefault(step.conversation, [])
        tail = prompt.tail if earlier is not None else 0
        shift = len(earlier) - tail if earlier is not None else 0
        users += [one + shift for one in request.user_starts if one >= tail]
        images += [(first + shift, end + shift) for first, end in request.images if first >= tail]
        whole = (earlier or []) + list(request.prompt[tail:])
        appended.append(replace(request, prompt=tuple(whole), user_starts=tuple(users), images=tuple(images)))
        held[step.conversation] = whole + list(request.generated)[:-1]
    room = replace(options, context=max(options.context or layout.trained, 2 * max(map(len, held.values()), default=0)))
    same = [one.record.messages is not None for one in steps]
    if all(same):
        found.append(_simulated("append-only", layout, room, appended, "earlier messages do not change"))
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


def _images_last(layout: Layout, options: ServerOptions, steps: Sequence[AgentStep], tokens: Tokens, kept: int) -> Way:
    """Return the alternative with the last images in a separate user message.

    This message is at the end of each prompt.
    """
    seen: dict[int, dict[str, Any]] = {}
    requests = []
    for step in steps:
        body = dict(step.record.body or {})
        pictures = seen.setdefault(step.conversation, {})
        messages = []
        for one, told in zip(body["messages"], step.record.messages or (), strict=True):
            parts = one["content"] if isinstance(one.get("content"), list) else []
            pictures |= zip(told.images, [part for part in parts if is_image(part)], strict=True)
            text = [part for part in parts if not is_image(part)]
            messages.append({**one, "content": text} if parts else one)
        if pictures:
            messages.append({"role": "user", "content": list(pictures.values())[-kept:]})
        body["messages"] = messages
        record = replace(step.record, body=body, messages=read_messages(body), total=None)
        requests.append(_request(tokens.prompt(record), record, tokens))
    room = replace(options, context=max(options.context or layout.trained, _longest(requests)))
    said = "they are a separate user message; the rest of each message does not change"
    return _simulated(f"last {kept} images at the end", layout, room, requests, said)


def _counted(steps: Sequence[AgentStep], last_images: int, image_tokens: int, *, with_append: bool) -> tuple[Way, ...]:
    """Return the alternatives that can be computed from the token counts alone."""
    totals = [one.total for one in steps]
    found = [Way(name="no cache", processed=sum(totals), assumption="every step processes its whole prompt")]
    added = new_tokens(totals)
    if with_append and added > 0:
        said = f"a step adds {added:,} tokens: the largest addition of any step"
        found.append(
            Way(name="append-only", processed=append_only(steps[0].processed, len(totals), added), assumption=said)
        )
    if image_tokens and last_images and with_append:
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
