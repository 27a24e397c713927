"""Read the memory bandwidth, the memory size and the peak throughput of a machine.

Every figure in a machine file has a unit, a source and a date.
"""

from __future__ import annotations

import datetime
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any

from patchstack.causes import BadValue, CostRefused, CostUnknown, WorkspaceUnusable

if TYPE_CHECKING:
    from patchstack.workspace.node import Node

PEAKS = ("fp4", "fp8", "int8", "fp16", "bf16", "fp32")
_BANDWIDTH = {"B/s": 1.0, "MB/s": 1e6, "GB/s": 1e9, "TB/s": 1e12, "MiB/s": 2.0**20, "GiB/s": 2.0**30, "TiB/s": 2.0**40}
_BYTES = {"B": 1.0, "MB": 1e6, "GB": 1e9, "TB": 1e12, "MiB": 2.0**20, "GiB": 2.0**30, "TiB": 2.0**40}
_SPEED = {"GFLOP/s": 1e9, "TFLOP/s": 1e12, "PFLOP/s": 1e15, "GOP/s": 1e9, "TOP/s": 1e12, "POP/s": 1e15}
_FIGURE = re.compile(r"([0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?) ?([A-Za-z/]+)\Z")


class Origin(StrEnum):
    """The origin of a figure.

    If a result depends on figures with different origins, the result names each origin.
    """

    SPECIFIED = "specified"
    MEASURED = "measured"
    GIVEN = "given"


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """A figure of a machine.

    `value` is in bytes, bytes per second or operations per second. `unit` is the unit that the source uses. `date` is
    the day of the measurement or look-up, in the form YYYY-MM-DD. It is empty for a figure from the command line.
    """

    value: float
    unit: str
    origin: Origin
    source: str
    date: str

    @property
    def words(self) -> str:
        """The figure in the unit of its source, for example `273 GB/s`."""
        scale = {**_BANDWIDTH, **_BYTES, **_SPEED}[self.unit]
        return f"{self.value / scale:,.6g} {self.unit}"

    @property
    def origin_words(self) -> str:
        """The figure's origin, source and date as text."""
        return f"{self.origin}: {self.source}" + (f", {self.date}" if self.date else "")


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """The figures of a machine.

    An unknown figure is None, and an unknown peak is missing from `peaks`. A result that needs an unknown figure is
    unknown.
    """

    name: str
    bandwidth: Figure | None = None
    memory: Figure | None = None
    peaks: Mapping[str, Figure] | None = None

    @property
    def peak_values(self) -> dict[str, float]:
        """The known peaks in operations per second, by type."""
        return {name: figure.value for name, figure in (self.peaks or {}).items()}

    @property
    def figures(self) -> dict[str, Figure]:
        """The known figures by name."""
        found = {"bandwidth": self.bandwidth, "memory": self.memory}
        named = {name: figure for name, figure in found.items() if figure is not None}
        return named | {f"peak {name}": figure for name, figure in (self.peaks or {}).items()}

    def need_bandwidth(self) -> float:
        """Return the bandwidth in bytes per second.

        Raises `UsageError` if the bandwidth is unknown.
        """
        if self.bandwidth is None:
            raise CostRefused(
                "the memory bandwidth is unknown",
                hint="give --machine NAME (see 'patchstack cost machines') or --bandwidth '273 GB/s'",
            )
        return self.bandwidth.value


def parse_figure(text: str, what: str) -> Figure:
    """Parse a figure from the command line, for example `273 GB/s`, `96GiB` or `990 TFLOP/s`.

    `what` is `bandwidth`, `memory` or `peak`. Raises `UsageError` unless the text is a number above 0 with a unit of
    this kind.
    """
    units = {"bandwidth": _BANDWIDTH, "memory": _BYTES, "peak": _SPEED}[what]
    match = _FIGURE.match(text.strip())
    if match is None or match[2] not in units or not 0 < float(match[1]) < math.inf:
        raise BadValue(f"{text!r} is not a {what}", hint=f"give a number above 0 and its unit: {', '.join(units)}")
    return Figure(
        value=float(match[1]) * units[match[2]], unit=match[2], origin=Origin.GIVEN, source="the command line", date=""
    )


def shipped_machines() -> dict[str, Path]:
    """Return the machine files that patchstack ships, by name."""
    return {path.stem: path for path in sorted((Path(__file__).parent / "machines").glob("*.yaml"))}


def find_machine(name: str) -> Machine:
    """Return the machine with the given name.

    `name` is the name of a shipped file, or the path of a YAML file. Raises `MissingError` if the file does not exist,
    and `ConfigError` if it is invalid. The `ConfigError` lists every problem in the file.
    """
    shipped = shipped_machines()
    path = Path(name) if name.endswith((".yaml", ".yml")) or "/" in name else shipped.get(name)
    if path is None or not path.is_file():
        raise CostUnknown(
            f"no machine is named {name!r}", hint=f"give one of {', '.join(shipped)}, or the path of a YAML file"
        )
    return read_machine(path)


def read_machine(path: Path) -> Machine:
    """Read a machine file.

    Raises `ConfigError` if the file is invalid. The error lists every problem with its line number.
    """
    from ruamel.yaml.comments import CommentedMap

    from patchstack.workspace.node import Node, read_yaml

    document = read_yaml(path)
    if not isinstance(document, CommentedMap):
        raise WorkspaceUnusable(f"{path}:1: a machine file must be a mapping", hint="begin it with `name:`")
    problems: list[str] = []
    top = Node(document, path, "", problems)
    name = top.text("name", required=True) or ""
    machine = Machine(name=name, bandwidth=_figure(top, "bandwidth", _BANDWIDTH), memory=_figure(top, "memory", _BYTES))
    peaks = top.mapping("peaks")
    if peaks is not None:
        known = {one: _figure(peaks, one, _SPEED) for one in PEAKS}
        peaks.finish()
        machine = replace(machine, peaks={one: figure for one, figure in known.items() if figure is not None})
    top.finish()
    if problems:
        raise WorkspaceUnusable(f"{path} cannot be used as a machine file", problems=problems)
    return machine


def _figure(parent: Node, key: str, units: Mapping[str, float]) -> Figure | None:
    """Return the figure under a key of a machine file.

    Return None if the figure is missing or invalid. Problems are reported on the nodes of the file.
    """
    node = parent.mapping(key)
    if node is None:
        return None
    value = _number(node)
    texts = {one: node.text(one, required=True) for one in ("unit", "kind", "source")}
    date = _date(node)
    node.finish()
    if texts["unit"] is not None and texts["unit"] not in units:
        node.complain("unit", f"{texts['unit']!r} is not one of {', '.join(units)}")
    if texts["kind"] is not None and texts["kind"] not in ("specified", "measured"):
        node.complain("kind", f"{texts['kind']!r} is neither specified nor measured")
    unit, kind, source = texts["unit"], texts["kind"], texts["source"]
    if value is None or unit not in units or kind not in ("specified", "measured") or not source or date is None:
        return None
    return Figure(value=value * units[unit or ""], unit=unit or "", origin=Origin(kind or ""), source=source, date=date)


def _number(node: Node) -> float | None:
    node.used.append("value")
    value: Any = node.node.get("value")
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < math.inf:
        node.complain("value" if "value" in node.node else None, "value is not a number above 0")
        return None
    return float(value)


def _date(node: Node) -> str | None:
    node.used.append("date")
    value: Any = node.node.get("date")
    if isinstance(value, datetime.date):
        return value.isoformat()[:10]
    node.complain("date" if "date" in node.node else None, "date is not a day (YYYY-MM-DD)")
    return None


def mixed_origins(figures: Mapping[str, Figure]) -> str:
    """Return a text that names the origin of each figure, or an empty string if all origins are the same."""
    origins = {figure.origin for figure in figures.values()}
    if len(origins) < 2:
        return ""
    told = ", ".join(f"{name} is {figure.origin}" for name, figure in figures.items())
    return f"figures of different origins: {told}"
