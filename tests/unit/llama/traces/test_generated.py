"""1,000 generated logs against an oracle that parses each line separately. With lines that are dropped, duplicated, cut
or from two processes, the contradiction is found, or the sum is right."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from patchstack.llama.traces.contradictions import RECORDS, findings
from patchstack.llama.traces.reading import Reading
from tests.support.trace_logs import oracle, power_bucket, process, read, read_bytes

NOISE = (
    "0.00.193.885 I slot launch_slot_: id  0 | task 3 | processing task, is_child = 0",
    "llama_kv_cache: size =    0.25 MiB (   512 cells,   1 layers,  1/1 seqs), K (f16):    0.12 MiB",
    "\x1b[34m0.01.218.638\x1b[0m \x1b[32mI \x1b[0mcommon_perf_print:    sampling time =       0.23 ms",
    "",
    "route=mmq type=nvfp4 is not a record",
    "\x00\x00\x01\xff rubbish",
)


def counts(reading: Reading) -> Counter[tuple[str, str, int, str]]:
    trace = reading.trace("moe_mmid_route")
    found: Counter[tuple[str, str, int, str]] = Counter()
    if trace is not None:
        for (route, kind, tokens, name), count in trace.by("route", "type", "ne2", "src0", left_out=True).items():
            assert isinstance(tokens, int)
            found[str(route), str(kind), tokens, str(name)] += count
    return found


def with_noise(chosen: random.Random, lines: list[str]) -> list[str]:
    """Add other lines between the records, and changes by a logger or a terminal."""
    out = []
    for line in lines:
        if chosen.random() < 0.1:
            out.append(chosen.choice(NOISE))
        way = chosen.random()
        if way < 0.05:
            line = "slot update_slo" + line  # a logger's half line
        elif way < 0.1:
            line = f"\x1b[32m{line}\x1b[0m"
        elif way < 0.15:
            line += "\r"
        out.append(line)
    return out


@pytest.mark.parametrize("hundred", range(10))
def test_every_count_of_a_generated_log_is_the_oracles(hundred: int) -> None:
    for seed in range(100 * hundred, 100 * hundred + 100):
        chosen = random.Random(seed)
        made = process(chosen, limit=chosen.choice((None, None, 1, 16, 40, 100)), killed=chosen.random() < 0.1)
        log = "".join(f"{line}\n" for line in with_noise(chosen, made.lines)).encode("utf-8", "replace")
        reading = read_bytes(log, blocks=chosen.choice((0, 1, 7, 1000)) if len(log) < 20_000 else 0)
        assert counts(reading) == oracle(made.lines), seed
        assert [one for one in findings(reading) if one.holds is False] == [], seed
        trace = reading.trace("moe_mmid_route")
        assert trace is not None
        assert (trace.records, len(trace.summaries)) == (len(made.records), len(made.lines) - len(made.records)), seed


def damaged(chosen: random.Random, lines: list[str]) -> list[str]:
    """Return the log with lines dropped, duplicated or cut."""
    found = list(lines)
    for _ in range(chosen.randint(1, 3)):
        at = chosen.randrange(len(found))
        match chosen.choice(("drop", "double", "cut", "join", "tail")):
            case "drop" if len(found) > 1:
                del found[at]
            case "double":
                found.insert(at, found[at])
            case "cut":
                found[at] = found[at][: chosen.randrange(len(found[at]) + 1)]
            case "join" if at + 1 < len(found):
                found[at : at + 2] = [found[at][: chosen.randrange(len(found[at]) + 1)] + found[at + 1]]
            case "tail":
                del found[len(found) - chosen.randint(1, min(3, len(found) - 1) or 1) :]
            case _:
                pass
    return found


@pytest.mark.parametrize("hundred", range(10))
def test_a_damaged_log_contradicts_or_counts_right(hundred: int) -> None:
    silent = 0
    for seed in range(100 * hundred, 100 * hundred + 100):
        chosen = random.Random(seed)
        made = process(chosen, limit=chosen.choice((None, 16, 40)))
        lines = damaged(chosen, made.lines)
        reading = read(*lines)
        told = [one for one in findings(reading) if one.holds is not True]
        # The printed lines are the truth. Without a summary it is not known whether there were more.
        if not told and not reading.empty:
            silent += 1
            assert counts(reading) == oracle(made.lines), (seed, lines)
    assert silent < 60  # most damage is detected


@pytest.mark.parametrize("how", ["one after the other", "interleaved"])
def test_two_processes_in_one_file_are_added_up(how: str) -> None:
    for seed in range(200):
        chosen = random.Random(seed)
        parts = [process(chosen, limit=chosen.choice((None, 20))) for _ in range(2)]
        lines = [*parts[0].lines, *parts[1].lines]
        if how == "interleaved":
            queues = [list(part.lines) for part in parts]
            lines = []
            while any(queues):
                lines.append(chosen.choice([queue for queue in queues if queue]).pop(0))
        reading = read(*lines)
        assert [one for one in findings(reading) if one.holds is False] == [], seed
        assert counts(reading) == oracle(parts[0].lines) + oracle(parts[1].lines)


def test_two_processes_of_which_one_was_killed_contradict_the_one_summary() -> None:
    for seed in range(100):
        chosen = random.Random(seed)
        first, second = process(chosen, killed=True), process(chosen)
        reading = read(*first.lines, *second.lines)
        (found,) = [one for one in findings(reading) if one.what == "lines against the summary"]
        assert (found.holds, found.spoils) == (False, (RECORDS,))
        assert found.said == f"lines {len(second.records):,}"
        assert found.found == f"records {len(first.records) + len(second.records):,}"


def test_a_log_that_is_read_in_pieces_counts_the_same() -> None:
    chosen = random.Random(7)
    log = "".join(f"{line}\n" for line in with_noise(chosen, process(chosen).lines)).encode("utf-8", "replace")
    whole = read_bytes(log)
    for size in (1, 2, 3, 63, 64, 1023, 4096):
        assert read_bytes(log, blocks=size) == whole


def step_lines(chosen: random.Random, steps: int) -> list[str]:
    """Return a server's steps, and their summary."""
    made = [(chosen.choice((0, 1, 4)), chosen.choice((0, 0, 64))) for _ in range(steps)]
    lines = [
        f"trace_serving step={at} decode_tokens={decode} prompt_tokens={prompt} decode_slots={decode} started=0"
        " continued=0 waiting=0 unfinished=0 deferred=0 n_batch=64 n_ubatch=32"
        for at, (decode, prompt) in enumerate(made, 1)
    ]
    kinds = Counter((decode > 0, prompt > 0) for decode, prompt in made)
    hists = []
    for name, values in (("decode", [d for d, _ in made]), ("prompt", [p for _, p in made]), ("waiting", [0] * steps)):
        buckets = Counter(power_bucket(value) for value in values)
        ordered = sorted(buckets, key=lambda bucket: int(bucket.partition("-")[0]))
        hists.append(f"{name}_hist=" + ",".join(f"{bucket}:{buckets[bucket]}" for bucket in ordered))
    lines.append(
        f"trace_serving_summary lines={steps} dropped=0 steps={steps} decode_only_steps={kinds[True, False]}"
        f" prompt_only_steps={kinds[False, True]} mixed_steps={kinds[True, True]} empty_steps={kinds[False, False]}"
        f" decode_tokens={sum(d for d, _ in made)} prompt_tokens={sum(p for _, p in made)} started=0 continued=0"
        f" waiting=0 waiting_max=0 deferred_max=0 {' '.join(hists)}"
    )
    return lines


def test_steps_that_are_lost_and_there_twice_are_found_although_their_number_is_right() -> None:
    for seed in range(200):
        chosen = random.Random(seed)
        lines = step_lines(chosen, chosen.randint(3, 40))
        assert [one for one in findings(read(*lines)) if one.holds is not True] == [], seed
        gone, twice = chosen.sample(range(len(lines) - 1), 2)
        damaged_ = [line for at, line in enumerate(lines) for _ in range(0 if at == gone else 2 if at == twice else 1)]
        told = [one for one in findings(read(*damaged_)) if one.holds is False]
        assert "steps are numbered without a gap" in [one.what for one in told], seed
        # Two servers in one file, one after the other or mixed, have each step twice: that is right.
        other = step_lines(chosen, chosen.randint(3, 40))
        assert [one for one in findings(read(*lines, *other)) if one.holds is not True] == []
