"""The tokens of an agent's prompts: asked of a running llama-server, or estimated from their bytes."""

from __future__ import annotations

import hashlib
import json
import urllib.error
import urllib.request
from dataclasses import dataclass
from typing import Any, Protocol

from patchstack.cost.prefix.records import Record
from patchstack.errors import MissingError, UsageError

BYTES_A_TOKEN = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Prompt:
    """The tokens of a prompt, where user messages begin in them, where the messages after the last answer begin, and
    the spans that images take."""

    tokens: tuple[int, ...]
    user_starts: tuple[int, ...] = ()
    tail: int = 0
    images: tuple[tuple[int, int], ...] = ()


class Tokens(Protocol):
    """What gives the tokens of prompts and answers. `unit` says what a token is."""

    unit: str

    def prompt(self, record: Record) -> Prompt:
        """Return the tokens of a record's prompt. Raises `UsageError` if it cannot be told."""

    def answer(self, record: Record) -> tuple[int, ...]:
        """Return the tokens that were generated, the last of which is not in the cache."""


class EstimatedTokens:
    """Four bytes are a token, each message by itself; an image is as many as one is told."""

    unit = f"estimated tokens of {BYTES_A_TOKEN} bytes; a server would tell them (--server)"

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
            for _ in range(one.images):
                images.append((len(tokens), len(tokens) + self._image(record)))
                tokens += _number(f"image {at}".encode(), self._image(record))
            tokens += _pieces(one.text.encode())
        return Prompt(tokens=tuple(tokens), user_starts=tuple(users), tail=tail, images=tuple(images))

    def answer(self, record: Record) -> tuple[int, ...]:
        if record.answer is None:
            return ()
        # The answer comes back as a message: with its role in front.
        front = _pieces(b"<assistant>") if record.messages is not None else []
        return (*front, *_pieces(record.answer.encode()), -1)

    def _image(self, record: Record) -> int:
        if self.image_tokens is None:
            raise UsageError(
                f"{record.place}: the prompt has an image, and nobody said how many tokens that is",
                hint="--image-tokens N",
            )
        return self.image_tokens


class ServerTokens:
    """A running llama-server renders and tokenizes: `/apply-template` and `/tokenize`."""

    unit = "tokens, as the server makes them"

    def __init__(self, url: str) -> None:
        if not url.startswith(("http://", "https://")):
            raise UsageError(f"--server {url}: not an address", hint="http://127.0.0.1:8080")
        self.url = url.rstrip("/")
        self._user = self._user_start()

    def prompt(self, record: Record) -> Prompt:
        if record.messages is None:
            return Prompt(tokens=self._tokens(record.prompt or ""))
        if any(one.images for one in record.messages):
            raise UsageError(
                f"{record.place}: images are not tokenized", hint="leave out --server: bytes, with --image-tokens"
            )
        body = record.body or {}
        messages = list(body["messages"])
        tokens = self._tokens(self._rendered({**body, "messages": messages}))
        last = max((at for at, one in enumerate(record.messages) if one.role == "assistant"), default=-1)
        before = (
            self._tokens(self._rendered({**body, "messages": messages[: last + 1], "add_generation_prompt": False}))
            if last >= 0
            else ()
        )
        tail = next(
            (at for at, (a, b) in enumerate(zip(tokens, before, strict=False)) if a != b), min(len(tokens), len(before))
        )
        size = len(self._user)
        users = tuple(at for at in range(len(tokens) - size + 1) if size and tokens[at : at + size] == self._user)
        return Prompt(tokens=tokens, user_starts=users, tail=tail)

    def answer(self, record: Record) -> tuple[int, ...]:
        if record.answer_tokens:
            return record.answer_tokens
        if record.answer is None:
            return ()
        found = self._post("/tokenize", {"content": record.answer, "add_special": False, "parse_special": True})
        return (*_integers(found), -1)  # the end of the answer, which is not in the cache

    def _rendered(self, body: dict[str, Any]) -> str:
        kept = {key: value for key, value in body.items() if key in _TEMPLATE_KEYS}
        return str(self._post("/apply-template", kept).get("prompt", ""))

    def _tokens(self, text: str) -> tuple[int, ...]:
        return _integers(self._post("/tokenize", {"content": text, "add_special": True, "parse_special": True}))

    def _user_start(self) -> tuple[int, ...]:
        """The tokens that begin a user message, found as `detect_user_start_marker` of the pin's chat analyzer does."""
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
        request = urllib.request.Request(  # noqa: S310  (http or https: checked above)
            self.url + path, json.dumps(body).encode(), {"Content-Type": "application/json"}
        )
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:  # noqa: S310
                found = json.loads(answer.read())
        except urllib.error.HTTPError as error:
            raise UsageError(f"{self.url}{path}: {error.code}: {error.read()[:200]!r}") from error
        except (OSError, ValueError) as error:
            raise MissingError(
                f"{self.url} does not answer: {error}", hint="start llama-server with the model"
            ) from error
        if not isinstance(found, dict):
            raise UsageError(f"{self.url}{path}: the answer is not an object")
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
        raise UsageError("the server's answer has no tokens")
    return tuple(tokens)


def _pieces(data: bytes) -> list[int]:
    """A number for each four bytes."""
    return [int.from_bytes(data[at : at + BYTES_A_TOKEN], "big") for at in range(0, len(data), BYTES_A_TOKEN)]


def _number(data: bytes, count: int) -> list[int]:
    start = int.from_bytes(hashlib.sha256(data).digest()[:6], "big") << 32
    return [start + one for one in range(count)]
