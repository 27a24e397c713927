"""Define the plan of a run, which is the input file of the client.

`bench.serving.record` reads the client's output file.
"""

from __future__ import annotations

import ipaddress
import json
from dataclasses import asdict, dataclass
from typing import Any
from urllib.parse import urlsplit

KEY_VARIABLE = "PATCHSTACK_SERVE_KEY"
"""The environment variable that contains the API key. The key is not written to any file."""
COMPLETIONS, CHAT = "/v1/completions", "/v1/chat/completions"


@dataclass(frozen=True, slots=True)
class Target:
    """The URL of a server, in parts.

    `secure` is true for TLS. `prefix` is the path before `/v1`. `chat` is true if requests are for chat completions.
    """

    secure: bool
    host: str
    port: int
    prefix: str
    chat: bool

    @property
    def path(self) -> str:
        """The path for completion requests."""
        return self.prefix + (CHAT if self.chat else COMPLETIONS)

    @property
    def url(self) -> str:
        """The whole URL, without a user or a query."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{'https' if self.secure else 'http'}://{host}:{self.port}{self.path}"

    @property
    def loopback(self) -> bool:
        """Whether the host is a loopback address."""
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return self.host == "localhost"


def target_of(url: str, *, chat: bool = False) -> Target:
    """Parse the URL of a server.

    The URL may be the base URL, the base URL with `/v1`, or the full URL of completions or chat completions.

    Raises `ValueError` if the URL is not valid.
    """
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError(f"{url!r} is not a URL of a server, such as http://127.0.0.1:8080")
    if parts.username is not None or parts.password is not None:
        raise ValueError("the URL contains a user or a password, which would be stored: use --api-key-env")
    if parts.query or parts.fragment:
        raise ValueError(f"{url!r} has a query or a fragment: remove it")
    port = parts.port or (443 if parts.scheme == "https" else 80)
    path = parts.path.rstrip("/")
    for ending, is_chat in ((CHAT, True), (COMPLETIONS, False)):
        if path.endswith(ending):
            if chat and not is_chat:
                raise ValueError(f"{url!r} is not a URL of chat completions, but --chat was given")
            path, chat = path.removesuffix(ending), is_chat
            break
    path = path.removesuffix("/v1")
    if any(not 0x20 < ord(letter) < 0x7F for letter in path):
        raise ValueError(f"{url!r} has characters that are not valid in a path")
    return Target(parts.scheme == "https", parts.hostname, port, path, chat)


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The plan of a run.

    `prompt_tokens` and `max_tokens` contain one number per request, or one number for all requests. `arrivals` is one
    of the kinds in module `arrivals`. `prefix` is the length of the prefix that all prompts share, in tokens. `prompts`
    is `ids`, `text` or `auto`. `timeout` is the time limit of a request, and `ready` the time limit until the server
    answers, both in seconds. With `chunk_counts`, the server is asked for the number of tokens in every chunk. With
    `counters`, the counters of the server are read before and after the run.
    """

    url: str
    chat: bool
    model: str
    arrivals: str
    requests: int
    concurrency: int
    rate: float
    stagger: float
    times: tuple[float, ...]
    prompt_tokens: tuple[int, ...]
    max_tokens: tuple[int, ...]
    seed: int
    prefix: int
    prompts: str
    ignore_eos: bool
    chunk_counts: bool
    counters: bool
    timeout: float
    ready: float
    cacert: str

    def prompt_of(self, number: int) -> int:
        """Return the number of prompt tokens of a request. `number` counts from 0."""
        return self.prompt_tokens[number % len(self.prompt_tokens)]

    def most_of(self, number: int) -> int:
        """Return the maximum number of tokens that a request may generate. `number` counts from 0."""
        return self.max_tokens[number % len(self.max_tokens)]

    def text(self) -> str:
        """Return the plan in the form that `read_plan` parses."""
        return json.dumps(asdict(self))


def read_plan(text: str) -> Plan:
    """Parse the text of a plan file. Raises `ValueError` if it is not a plan."""
    found: dict[str, Any] = json.loads(text)
    for name in ("times", "prompt_tokens", "max_tokens"):
        found[name] = tuple(found[name])
    try:
        return Plan(**found)
    except TypeError as error:
        raise ValueError(str(error)) from error
