"""Two logs of one workload: more, less, new, gone; and no comparison of different ones."""

from __future__ import annotations

import pytest

from patchstack.errors import UsageError
from patchstack.llama.traces.reading import Reading
from patchstack.trace.compare import Change, compare, require_same_workload
from patchstack.verdict import Verdict
from tests.support.trace_logs import GTRACE, read

ROUTE = (
    "trace_moe_mmid_route route={} type=nvfp4 ne2={} ne1=8 ne0=512 ne00={} n_expert=256"
    " src0=blk.{}.ffn_gate_exps.weight src1=ffn_norm-{} dst=ffn_moe_gate-{}"
)
EVAL = (
    "common_perf_print: prompt eval time =      16.82 ms /    {} tokens"
    " (    0.70 ms per token,  1427.21 tokens per second)"
)


def log(*calls: tuple[str, int, int], tokens: int = 24, columns: int = 2048, dropped: int | None = 0) -> Reading:
    """Return a log: the number of calls by route and tokens, their summary (None for none), and a line on the
    workload."""
    lines = []
    routes: dict[str, int] = {}
    hists: dict[str, dict[int, int]] = {}
    for route, width, count in calls:
        lines += [ROUTE.format(route, width, columns, at % 3, at % 3, at % 3) for at in range(count)]
        routes[route] = routes.get(route, 0) + count
        hists.setdefault(route, {})[width] = count
    if dropped is not None:
        routes["mmf"] = dropped
        told = " ".join(f"{route}={count}" for route, count in routes.items())
        told += "".join(
            f" {route}.ne2_hist="
            + ",".join(f"{w if w < 2 else f'{w}-{2 * w - 1}'}:{n}" for w, n in sorted(one.items()))
            for route, one in hists.items()
        )
        lines.append(f"trace_moe_mmid_route_summary lines={len(lines)} dropped={dropped} {told}")
    return read(*lines, EVAL.format(tokens).replace("1427.21", f"{1000 * tokens / 16.82:.2f}"))


def changes(first: Reading, second: Reading) -> dict[tuple[str, str], str]:
    return {(one.route, one.about.split()[0]): str(one.change) for one in compare(first, second).shapes}


def test_equal_logs_are_said_to_be_equal() -> None:
    found = compare(log(("mmq", 16, 9), ("mmvq", 1, 3)), log(("mmq", 16, 9), ("mmvq", 1, 3)))
    assert (found.same, found.same_kinds, found.differing) == (True, True, ())
    assert found.workload_verdict is Verdict.PASS


def test_every_change_has_its_word() -> None:
    first = log(("mmq", 16, 9), ("mmvq", 1, 3), ("mmq", 32, 3), ("mmq", 64, 6))
    second = log(("mmq", 16, 9), ("mmvf", 1, 3), ("mmq", 32, 6), ("mmq", 64, 3))
    assert changes(first, second) == {
        ("mmq nvfp4", "ne2=16"): "same",
        ("mmq nvfp4", "ne2=32"): "more",
        ("mmq nvfp4", "ne2=64"): "less",
        ("mmvq nvfp4", "ne2=1"): "gone",
        ("mmvf nvfp4", "ne2=1"): "new",
    }
    found = compare(first, second)
    assert {one.route: one.change for one in found.routes} == {
        "mmq nvfp4": Change.SAME,
        "mmvq nvfp4": Change.GONE,
        "mmvf nvfp4": Change.NEW,
    }
    assert (found.same, found.same_kinds) == (False, False)


def test_what_a_bounded_log_lacks_is_not_gone() -> None:
    whole = log(("mmq", 16, 9), ("mmvq", 1, 3))
    bounded = log(("mmq", 16, 9), dropped=3)
    assert changes(whole, bounded)[("mmvq nvfp4", "ne2=1")] == "not seen"
    assert changes(bounded, whole)[("mmvq nvfp4", "ne2=1")] == "not seen"
    assert compare(whole, bounded).bounded == ("moe_mmid_route",)
    assert compare(whole, log(("mmq", 16, 9), dropped=None)).bounded == ("moe_mmid_route",)


def test_the_same_shapes_less_often_are_told_from_other_shapes() -> None:
    found = compare(log(("mmq", 16, 9)), log(("mmq", 16, 6)))
    assert (found.same, found.same_kinds) == (False, True)


def test_different_workloads_are_refused_with_what_differs() -> None:
    found = compare(log(("mmq", 16, 9)), log(("mmq", 16, 9), tokens=48))
    with pytest.raises(UsageError, match=r"a\.log and b\.log have different workloads") as caught:
        require_same_workload(found, ("a.log", "b.log"))
    assert caught.value.problems == ("prompt eval tokens: 24 and 48",)
    assert "--anyway" in str(caught.value.hint)
    assert found.workload_verdict is Verdict.INVALID


def test_weights_of_another_shape_are_another_model() -> None:
    found = compare(log(("mmq", 16, 9)), log(("mmq", 16, 9), columns=4096))
    (other,) = found.differing
    assert other.what == "shape of blk.N.ffn_gate_exps.weight"
    assert (other.first, other.second) == ("2048x512x256", "4096x512x256")


def test_logs_that_say_nothing_of_their_workload_are_not_the_same() -> None:
    line = "[LLAMA_MUL_MAT_ROUTE] route=mmq type=40 ne1=12 ne11=12"
    found = compare(read(line), read(line))
    assert (found.evidence, found.workload_verdict) == ((), Verdict.INVALID)
    require_same_workload(found, ("a", "b"))  # nothing shows that it is a different one


def test_logs_without_a_trace_in_common_are_refused() -> None:
    with pytest.raises(UsageError, match="have no common trace of routes or shapes"):
        compare(log(("mmq", 16, 9)), read(GTRACE))
