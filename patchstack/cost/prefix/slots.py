"""Simulate the slots of a server and how they reuse prompts.

Source: `tools/server/server-context.cpp` at the pin.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from patchstack.cost.architecture import Kind, Layout
from patchstack.cost.floors import kv_read_bytes
from patchstack.cost.memory import Cells, cells, checkpoint_bytes, needs_checkpoints, window_cells
from patchstack.cost.server_options import ServerOptions


class WindowCells:
    """The cells of one stream in a cache with a window.

    All sequences of the stream share the cells.
    """

    def __init__(self, size: int, window: int, *, chunked: bool = False) -> None:
        self.size, self.window, self.chunked = size, window, chunked
        self.position = [-1] * size
        self.owner = [-1] * size
        self.where: dict[int, dict[int, int]] = {}  # sequence -> position -> cell
        self.head = 0
        self.used = 0

    def first(self, sequence: int) -> int:
        """Return the smallest position of a sequence in the cells, or -1 if the sequence has no cells."""
        return min(self.where.get(sequence, ()), default=-1)

    def last(self, sequence: int) -> int:
        """Return the largest position of a sequence in the cells, or -1 if the sequence has no cells."""
        return max(self.where.get(sequence, ()), default=-1)

    def kept(self, sequence: int) -> list[int]:
        """Return the positions that a saved state of the sequence contains.

        These positions are in the window that ends at the sequence's last position.
        """
        last = self.last(sequence)
        return sorted(one for one in self.where.get(sequence, ()) if not self._outside(one, last))

    def add(self, sequence: int, positions: range | list[int]) -> bool:
        """Put the tokens of one ubatch into cells.

        If they do not fit, change nothing and return False.
        """
        found = self._find(len(positions))
        if found is None:
            return False
        overwritten: dict[int, int] = {}
        for cell, position in zip(found, positions, strict=True):
            if (owner := self.owner[cell]) >= 0:
                overwritten[owner] = max(overwritten.get(owner, -1), self.position[cell])
                self._clear(cell)
            self.position[cell], self.owner[cell] = position, sequence
            self.where.setdefault(sequence, {})[position] = cell
            self.used += 1
        for owner, most in overwritten.items():
            if 0 <= self.first(owner) <= most:
                self.remove(owner, 0, most + 1)
        self.head = found[-1] + 1
        return True

    def remove(self, sequence: int, first: int = 0, end: int | None = None) -> None:
        """Remove the positions of a sequence from `first` up to, but not including, `end`.

        If `end` is None, all later positions are removed too.
        """
        cells = [
            cell
            for position, cell in self.where.get(sequence, {}).items()
            if position >= first and (end is None or position < end)
        ]
        for cell in cells:
            self._clear(cell)
        if cells:
            self.head = min(self.head, *cells)

    def _clear(self, cell: int) -> None:
        del self.where[self.owner[cell]][self.position[cell]]
        self.position[cell] = self.owner[cell] = -1
        self.used -= 1

    def _find(self, count: int) -> list[int] | None:
        if count > self.size:
            return None
        at = 0 if self.head > self.used + 2 * count else self.head
        next_of = {sequence: self.last(sequence) + 1 for sequence in self.where}
        found: list[int] = []
        for _ in range(2 * self.size):
            if at >= self.size:
                at = 0
            owner = self.owner[at]
            if owner < 0 or self._outside(self.position[at], next_of[owner]):
                found.append(at)
                if len(found) == count:
                    return found
            at += 1
            if len(found) > self.size:
                break
        return None

    def _outside(self, position: int, seen_from: int) -> bool:
        if self.chunked:
            return position < seen_from // self.window * self.window
        return seen_from - position >= self.window


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """A request to the server. `prompt` and `generated` are token ids.

    `user_starts` contains the indices in the prompt at which user messages begin. It is empty for a plain completion.
    `slot` is -1 if the server chooses the slot. `cache` is the value of `cache_prompt`. `images` contains a half-open
    range (first, end) of indices in the prompt for each image.
    """

    prompt: Sequence[int]
    generated: Sequence[int] = ()
    user_starts: Sequence[int] = ()
    slot: int = -1
    cache: bool = True
    images: Sequence[tuple[int, int]] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Reuse:
    """The tokens that a request reused in `slot`.

    `total` is the number of prompt tokens, and `cached` is the number of reused tokens. `common` is the length of the
    prefix that the prompt shares with the earlier tokens of the slot. `restored` is the length of the restored
    checkpoint in tokens, or -1 if none was restored. `checkpoints` contains the lengths of the slot's checkpoints after
    the request, in tokens. `lost_checkpoints` is the number of checkpoints that were erased because the limit on
    checkpoints was reached. `refused` is true if the prompt is empty or does not fit into the context of a slot.
    """

    slot: int
    total: int
    cached: int
    common: int
    restored: int
    checkpoints: tuple[int, ...]
    lost_checkpoints: int
    refused: bool = False

    @property
    def processed(self) -> int:
        return 0 if self.refused else self.total - self.cached


@dataclass(frozen=True, slots=True, kw_only=True)
class _Checkpoint:
    tokens: int
    first: int
    last: int
    kept: tuple[int, ...]  # the saved positions in the window
    size: int


@dataclass(slots=True, kw_only=True)
class _Prompt:
    """The prompt of a slot, or an entry of the prompt cache."""

    tokens: list[int] = field(default_factory=list)
    checkpoints: list[_Checkpoint] = field(default_factory=list)
    kept: tuple[int, ...] = ()  # the saved positions in the window, only for an entry of the prompt cache
    size: int = 0


@dataclass(slots=True, kw_only=True)
class _Slot:
    number: int
    prompt: _Prompt = field(default_factory=_Prompt)
    used: int = -1


class Slots:
    """The slots and the prompt cache of a simulated server. They are empty at the start."""

    def __init__(self, layout: Layout, options: ServerOptions, *, context: int | None = None) -> None:
        self.layout = layout
        self.options = options
        self.sizes: Cells = cells(layout, options if context is None else replace(options, context=context))
        self.window = 0 if options.swa_full else layout.window
        self.stateful = layout.kind in (Kind.RECURRENT, Kind.HYBRID)
        self.checkpointing = options.checkpoints > 0 and needs_checkpoints(layout, options)
        self.slots = [_Slot(number=one) for one in range(options.slots)]
        self.cache: list[_Prompt] = []
        self.time = 0
        self.windows: list[WindowCells] = []
        if self.window and any(one.window and one.cached for one in layout.layers):
            size = window_cells(layout, options, self.sizes)
            self.windows = [WindowCells(size, self.window, chunked=layout.chunked) for _ in range(self.sizes.streams)]

    def serve(self, request: Request) -> Reuse:
        """Process a request, and return which tokens it reused."""
        prompt = list(request.prompt)
        slot = self._choose(prompt, request.slot)
        self._save_idle(slot)
        total = len(prompt)
        if total == 0 or total >= min(self.sizes.stream, self.layout.trained or self.sizes.stream):
            self._release(slot)
            return Reuse(
                slot=slot.number,
                total=total,
                cached=0,
                common=0,
                restored=-1,
                checkpoints=(),
                lost_checkpoints=0,
                refused=True,
            )
        cached, common, restored = self._reuse(slot, prompt, request)
        lost = self._process(slot, prompt, cached, request)
        for token in list(request.generated)[:-1]:  # the last token is never put into the cache
            self._decode(slot, 1)
            slot.prompt.tokens.append(token)
        self._release(slot)
        return Reuse(
            slot=slot.number,
            total=total,
            cached=cached,
            common=common,
            restored=restored,
            checkpoints=tuple(one.tokens for one in slot.prompt.checkpoints),
            lost_checkpoints=lost,
        )

    @property
    def checkpoint_bytes(self) -> int:
        """The total size in bytes of the checkpoints that the slots have now."""
        return sum(one.size for slot in self.slots for one in slot.prompt.checkpoints)

    # Choice of a slot

    def _choose(self, prompt: list[int], wanted: int) -> _Slot:
        best, chosen, update = 0.0, None, False
        if 0 <= wanted < len(self.slots):
            chosen = self.slots[wanted]
        if self.options.similarity and prompt:
            for slot in self.slots:
                if not slot.prompt.tokens or (wanted != -1 and slot.number != wanted):
                    continue
                similar = _common(slot.prompt.tokens, prompt) / len(prompt)
                if similar > best and similar > self.options.similarity:
                    best, chosen = similar, slot
            if chosen is not None and chosen.prompt.tokens:
                update = best * len(prompt) / len(chosen.prompt.tokens) < 0.5
        if chosen is None:
            chosen = self.slots[0]
            for slot in self.slots[1:]:
                if slot.used <= chosen.used:
                    chosen = slot
            update = True
        if update and self.options.cache_ram != 0:
            self._save(chosen)
            self._load(chosen, prompt)
            self._trim()
        return chosen

    def _release(self, slot: _Slot) -> None:
        self.time += 1
        slot.used = self.time

    # The prompt cache

    def _save_idle(self, busy: _Slot) -> None:
        if not self.options.save_idle or self.options.cache_ram == 0:
            return
        for slot in self.slots:
            if slot is busy:
                continue
            if self._save(slot):
                self._trim()
            if self.options.unified:
                slot.prompt.tokens = []  # the slot keeps its checkpoints until it is used again
                for one in self.windows:
                    one.remove(slot.number)

    def _save(self, slot: _Slot) -> bool:
        tokens = slot.prompt.tokens
        if not tokens or any(one.tokens[: len(tokens)] == tokens for one in self.cache):
            return False
        self.cache = [one for one in self.cache if tokens[: len(one.tokens)] != one.tokens]
        kept = tuple(self._window(slot).kept(slot.number)) if self.windows else ()
        size = self._state_bytes(len(tokens)) + sum(one.size for one in slot.prompt.checkpoints)
        self.cache.append(_Prompt(tokens=list(tokens), checkpoints=list(slot.prompt.checkpoints), kept=kept, size=size))
        return True

    def _load(self, slot: _Slot, prompt: list[int]) -> None:
        held = slot.prompt.tokens
        common = _common(held, prompt)
        keep, similar = (common / len(held) if held else -1.0), common / max(1, len(prompt))
        best = None
        for one in self.cache:
            common = _common(one.tokens, prompt)
            its_keep, its_similar = common / len(one.tokens), common / max(1, len(prompt))
            if its_keep >= 0.25 and keep < its_keep and similar < its_similar:
                keep, similar, best = its_keep, its_similar, one
        if best is None:
            return
        self.cache = [one for one in self.cache if one is not best]
        slot.prompt = _Prompt(tokens=list(best.tokens), checkpoints=list(best.checkpoints))
        if self.windows:
            self._window(slot).remove(slot.number)
            self._window(slot).add(slot.number, list(best.kept))

    def _trim(self) -> None:
        limit = max(0, self.options.cache_ram) << 20
        while limit and len(self.cache) > 1 and sum(one.size for one in self.cache) > limit:
            self.cache.pop(0)
        total = sum(one.size for one in self.cache)
        tokens = sum(len(one.tokens) for one in self.cache)
        most = max(self.sizes.context, int(limit / max(1.0, total / max(1, tokens))))
        while len(self.cache) > 1 and sum(len(one.tokens) for one in self.cache) > most:
            self.cache.pop(0)

    def _state_bytes(self, tokens: int) -> int:
        """Return the size of a slot's complete state after `tokens` tokens, in bytes.

        A saved state contains only the part of the caches that the next token reads. Headers of a few bytes are
        ignored.
        """
        return kv_read_bytes(self.layout, self.options, tokens) + self.layout.state_bytes

    # Reuse

    def _window(self, slot: _Slot) -> WindowCells:
        return self.windows[0 if self.options.unified else slot.number]

    def _first_position(self, slot: _Slot) -> int:
        """Return the smallest position in the memory of a slot, or -1 if the memory is empty.

        Source: `llama_memory_seq_pos_min`.
        """
        held = len(slot.prompt.tokens)
        if self.stateful:
            return held - 1
        if self.windows:
            return self._window(slot).first(slot.number)
        return 0 if held else -1

    def _reuse(self, slot: _Slot, prompt: list[int], request: Request) -> tuple[int, int, int]:
        """Reuse the cached prefix of a prompt in the slot.

        Return the lengths of the reused prefix, the common prefix and the restored checkpoint, in tokens. The last of
        these lengths is -1 if no checkpoint was restored.
        """
        held = slot.prompt
        common = past = _common(held.tokens, prompt) if request.cache else 0
        restored = -1
        following = past
        needed = max(0, past - self.window - (0 if past < len(prompt) else 1))
        if past > 0 and self._first_position(slot) >= needed:
            fitting = [
                one for one in held.checkpoints if one.last <= following and (one.first < needed or one.first == 0)
            ]
            if fitting:
                best = fitting[-1]
                following = min(following, max(best.first + 1, best.last))
                past = min(following, len(held.tokens), best.tokens)
                restored = best.tokens
                if self.windows:
                    self._window(slot).remove(slot.number)
                    self._window(slot).add(slot.number, list(best.kept))
            else:
                following = past = 0
        held.checkpoints = [one for one in held.checkpoints if one.last <= following]
        if past == len(prompt):
            past -= 1
        held.tokens = held.tokens[:past]
        if self.windows:
            self._window(slot).remove(slot.number, past)
        return past, common, restored

    # Processing

    def _process(self, slot: _Slot, prompt: list[int], cached: int, request: Request) -> int:
        """Process the rest of a prompt in batches, and create checkpoints.

        Return the number of old checkpoints that were erased because the limit on checkpoints was reached.
        """
        total, lost = len(prompt), 0
        users = set(request.user_starts)
        last_user = max(users, default=-1)
        images = sorted(request.images)
        while len(slot.prompt.tokens) < total:
            image = False
            for first, end in images:
                if len(slot.prompt.tokens) == first:
                    self._decode(slot, end - first)
                    slot.prompt.tokens += prompt[first:end]
                    image = True
            begin = len(slot.prompt.tokens)
            end = self._batch_end(begin, total, users, images)
            near = total < end + self.sizes.ubatch
            wanted = self.checkpointing and not image and (end == total or begin in users or near)
            wanted = wanted and begin > 0 and self._first_position(slot) >= 0
            held = slot.prompt.checkpoints
            if wanted and (not held or begin == last_user or begin > held[-1].tokens + self.options.spacing):
                lost += self._checkpoint(slot, begin)
            self._decode(slot, end - begin)
            slot.prompt.tokens += prompt[begin:end]
        return lost

    def _batch_end(self, begin: int, total: int, users: set[int], images: Sequence[tuple[int, int]]) -> int:
        """Return the end of the batch that starts at `begin`.

        A batch ends when it is full, before a user message or an image, or at a checkpoint near the end of the prompt.
        """
        ends = [total, begin + self.sizes.batch]
        ends += [one for one in users if one > begin]
        ends += [first for first, _ in images if first >= begin]
        if self.checkpointing:
            ends += [one for off in (4 + self.sizes.ubatch, 4) if (one := total - min(self.sizes.batch, off)) > begin]
        return min(ends)

    def _checkpoint(self, slot: _Slot, tokens: int) -> int:
        held = slot.prompt.checkpoints
        lost = max(0, len(held) - self.options.checkpoints + 1)
        del held[:lost]
        first = self._first_position(slot)
        kept: tuple[int, ...] = ()
        if self.windows:
            kept = tuple(self._window(slot).kept(slot.number))
        size = checkpoint_bytes(self.layout, self.options, self.sizes, len(kept) if self.windows else None)
        held.append(_Checkpoint(tokens=tokens, first=first, last=tokens - 1, kept=kept, size=size))
        return lost

    def _decode(self, slot: _Slot, count: int) -> None:
        """Add tokens to the cells of the window, one ubatch at a time."""
        if not self.windows:
            return
        at = len(slot.prompt.tokens)
        end = at + count
        while at < end:
            step = min(self.sizes.ubatch, end - at)
            self._window(slot).add(slot.number, range(at, at + step))
            at += step


def _common(one: Sequence[int], other: Sequence[int]) -> int:
    """Return the length of the common prefix of two lists of tokens."""
    most = min(len(one), len(other))
    # Bisect, because comparing slices is fast. The lists are equal before `low` and differ before `high`.
    low, high = 0, most
    if one[:most] == other[:most]:
        return most
    while high - low > 1:
        middle = (low + high) // 2
        if one[low:middle] == other[low:middle]:
            low = middle
        else:
            high = middle
    return low
