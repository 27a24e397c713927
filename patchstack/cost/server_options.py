"""Parse the command line of a server as llama.cpp at the pin does.

Source: `common/arg.cpp` and `tools/server/server.cpp`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from patchstack.causes import InputUnreadable
from patchstack.cost.header import CACHE_TYPES, TensorType


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerOptions:
    """The options that affect memory and prompt reuse. Defaults are those of llama-server at the pin.

    A `context` of 0 means the training context of the model. If `unified` is true, all slots share one cache. `spacing`
    is in tokens. `cache_ram` is in MiB: -1 means no limit, and 0 means no prompt cache. `draft_tokens` is 0 without
    speculation. `ignored` lists the options that affect neither memory nor reuse. `unknown` lists the options that
    patchstack does not know.
    """

    context: int = 0
    slots: int = 4
    unified: bool = True
    batch: int = 2048
    ubatch: int = 512
    key_type: TensorType = CACHE_TYPES["f16"]
    value_type: TensorType = CACHE_TYPES["f16"]
    flash_attention: bool = True
    swa_full: bool = False
    checkpoints: int = 32
    spacing: int = 8192
    cache_ram: int = 8192
    similarity: float = 0.1
    save_idle: bool = True
    draft_model: str = ""
    speculation: tuple[str, ...] = ()
    draft_tokens: int = 0
    draft_key_type: TensorType = CACHE_TYPES["f16"]
    draft_value_type: TensorType = CACHE_TYPES["f16"]
    model: str = ""
    ignored: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()

    @property
    def physical_batch(self) -> int:
        """The number of tokens that are processed together, at least 1. `ubatch` 0 means the same as `batch`, and
        `ubatch` is never larger than `batch`."""
        return max(1, min(self.ubatch or self.batch, self.batch))

    @property
    def self_drafting(self) -> bool:
        """Whether the model drafts with its own draft block."""
        return "draft-mtp" in self.speculation and not self.draft_model


def _named(text: str) -> frozenset[str]:
    return frozenset(text.split())


_NAMES = {
    "context": ("-c", "--ctx-size"),
    "slots": ("-np", "--parallel"),
    "batch": ("-b", "--batch-size"),
    "ubatch": ("-ub", "--ubatch-size"),
    "checkpoints": ("-ctxcp", "--ctx-checkpoints", "--swa-checkpoints"),
    "spacing": ("-cms", "--checkpoint-min-step"),
    "cache_ram": ("-cram", "--cache-ram"),
    "draft_tokens": ("--spec-draft-n-max",),
}
_NUMBERS = {name: field for field, names in _NAMES.items() for name in names}
_TYPES = {
    "-ctk": "key_type",
    "--cache-type-k": "key_type",
    "-ctv": "value_type",
    "--cache-type-v": "value_type",
    "-ctkd": "draft_key_type",
    "--cache-type-k-draft": "draft_key_type",
    "--spec-draft-type-k": "draft_key_type",
    "-ctvd": "draft_value_type",
    "--cache-type-v-draft": "draft_value_type",
    "--spec-draft-type-v": "draft_value_type",
}
_FLAGS = {
    "-kvu": ("unified", True),
    "--kv-unified": ("unified", True),
    "-no-kvu": ("unified", False),
    "--no-kv-unified": ("unified", False),
    "--swa-full": ("swa_full", True),
    "--cache-idle-slots": ("save_idle", True),
    "--no-cache-idle-slots": ("save_idle", False),
}
# Options that affect neither memory nor prompt reuse: first those with a value, then those without.
_WITH_VALUE = _named(
    "-m --model --host --port -t --threads -tb --threads-batch -ngl --gpu-layers --n-gpu-layers -a --alias --api-key"
    " --chat-template --chat-template-file --temp --top-k --top-p --min-p --seed -s -n --predict --n-predict --timeout"
    " -to --threads-http -lv --verbosity --log-file --reasoning-format --reasoning-budget -fitp -fit --fit"
    " -dev --device"
    " -ts --tensor-split -sm --split-mode -mg --main-gpu -ncmoe --n-cpu-moe -ot --override-tensor --slot-save-path"
    " --repeat-penalty --presence-penalty --frequency-penalty --rope-freq-base --rope-freq-scale --rope-scaling"
    " --spec-draft-n-min --spec-draft-p-min --spec-draft-p-split -ngld --gpu-layers-draft --numa --prio"
)
_ALONE = _named(
    "--jinja --no-jinja --no-warmup --warmup --mlock --no-mmap --mmap --metrics --slots --no-slots --props --no-webui"
    " --webui --verbose -v --no-perf --perf --log-disable --log-timestamps --log-prefix -cb --cont-batching -cmoe"
    " --cpu-moe --ignore-eos --no-context-shift --offline --log-colors"
)
_ON, _OFF = ("on", "enabled", "true", "1"), ("off", "disabled", "false", "0")
_SPECULATION = _named(
    "none draft-simple draft-eagle3 draft-mtp ngram-simple ngram-map-k ngram-map-k4v ngram-mod ngram-cache"
)


def read_options(command: Sequence[str]) -> ServerOptions:
    """Parse a command line, which may begin with the program or with the first option.

    Raises `UsageError` if values are invalid. The error lists every invalid value. An unknown option is not an error.
    It is added to `unknown`.
    """
    words = list(command[1:] if command and not command[0].startswith("-") else command)
    found: dict[str, object] = {}
    ignored: list[str] = []
    unknown: list[str] = []
    problems: list[str] = []
    while words:
        name, given, text = words.pop(0).partition("=")
        if name in _FLAGS and not given:
            field, value = _FLAGS[name]
            found[field] = value
        elif name in _ALONE and not given:
            ignored.append(name)
        elif name in _NUMBERS or name in _TYPES or name in _WITH_VALUE or name in _SPECIAL:
            if not given:
                if not words:
                    problems.append(f"{name} has no value")
                    break
                text = words.pop(0)
            _take(name, text, found, ignored, problems)
        else:
            unknown.append(name)
            if words and not words[0].startswith("-"):
                unknown[-1] += f" {words.pop(0)}"
    if problems:
        raise InputUnreadable("the server's command line cannot be read", problems=problems)
    return _settled(replace(ServerOptions(), **found, ignored=tuple(ignored), unknown=tuple(unknown)), found)  # type: ignore[arg-type]  # each field has its own reader


_SPECIAL = _named(
    "-fa --flash-attn -sps --slot-prompt-similarity -md --model-draft --spec-draft-model --spec-type -m --model"
)


def _take(name: str, text: str, found: dict[str, object], ignored: list[str], problems: list[str]) -> None:
    """Parse the value of one option.

    An option that affects neither memory nor prompt reuse is added to `ignored`. The value of any other option is added
    to `found`, and a problem with it is added to `problems`.
    """
    if name in _NUMBERS:
        try:
            found[_NUMBERS[name]] = int(text)
        except ValueError:
            problems.append(f"{name} {text}: not a whole number")
        return
    if name in _TYPES:
        if text in CACHE_TYPES:
            found[_TYPES[name]] = CACHE_TYPES[text]
        else:
            problems.append(f"{name} {text}: not a cache type; use one of {', '.join(CACHE_TYPES)}")
        return
    match name:
        case "-fa" | "--flash-attn":
            if text.lower() not in (*_ON, *_OFF, "auto", "-1"):
                problems.append(f"{name} {text}: use on, off or auto")
            found["flash_attention"] = text.lower() not in _OFF
        case "-sps" | "--slot-prompt-similarity":
            try:
                found["similarity"] = float(text)
            except ValueError:
                problems.append(f"{name} {text}: not a number")
        case "-md" | "--model-draft" | "--spec-draft-model":
            found["draft_model"] = text
        case "-m" | "--model":
            found["model"] = text
        case "--spec-type":
            kinds = tuple(text.split(","))
            problems += [
                f"{name} {one}: use one of {', '.join(sorted(_SPECULATION))}"
                for one in kinds
                if one not in _SPECULATION
            ]
            found["speculation"] = tuple(one for one in kinds if one != "none")
        case _:
            ignored.append(name)


def _settled(options: ServerOptions, found: dict[str, object]) -> ServerOptions:
    """Set the options that depend on other options.

    `found` contains the options from the command line. Raises `UsageError` if a value is out of range.
    """
    problems = [
        f"{_NAMES[field][0]} {value}: {said}"
        for field, lowest, said in (
            ("context", 0, "must be 0 (the model's training context) or more tokens"),
            ("batch", 1, "must be 1 token or more"),
            ("ubatch", 0, "must be 0 (the same as -b) or more tokens"),
            ("checkpoints", 0, "must be 0 checkpoints or more"),
            ("spacing", 0, "must be 0 tokens or more"),
            ("cache_ram", -1, "must be -1 (no limit), 0 (no cache) or more MiB"),
            ("draft_tokens", 0, "must be 0 tokens or more"),
        )
        if (value := getattr(options, field)) < lowest
    ]
    slots = int(options.slots)
    if slots == 0 or slots > 256:  # LLAMA_MAX_SEQ
        problems.append(f"-np {slots}: must be 1 to 256 slots, or -1 for the default of 4")
    if problems:
        raise InputUnreadable("the server's command line cannot be read", problems=problems)
    if "slots" not in found or slots < 0:  # as in server.cpp: without -np, 4 slots share one cache
        options = replace(options, slots=4, unified=True)
    elif "unified" not in found:
        options = replace(options, unified=False)
    drafts = options.draft_model or options.speculation
    if drafts and "draft_tokens" not in found:
        options = replace(options, draft_tokens=_DRAFT_TOKENS)
    return options if drafts else replace(options, draft_tokens=0)


_DRAFT_TOKENS = 3
