"""Read the input of `patchstack cost`.

The input is a model, a command line, and the compute buffers as reported by a build's llama-fit-params.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from patchstack.causes import BadValue, CostUnknown, OptionConflict
from patchstack.cost.architecture import Layout, read_layout
from patchstack.cost.experts import Routing, read_imatrix, read_routing
from patchstack.cost.floors import Workload
from patchstack.cost.memory import MIB, Loaded, draft_options
from patchstack.cost.model import Model, read_model
from patchstack.cost.server_options import ServerOptions, read_options
from patchstack.cost.weights import Placed, place
from patchstack.errors import MissingError
from patchstack.process import run

_FITTED = re.compile(r"^(\S+) +([0-9]+) +([0-9]+) +([0-9]+) *$", re.MULTILINE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """A draft model, with its allocations and the bytes that its steps read."""

    memory: Loaded
    work: Workload


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """A model with a command line.

    `layout` is None if the memory layout of the architecture is unknown. In that case, `unknown` is the error. `draft`
    is the model of the option `-md`.
    """

    model: Model
    placed: Sequence[Placed]
    options: ServerOptions
    routing: Routing
    layout: Layout | None
    unknown: MissingError | None = None
    draft: Draft | None = None

    def workload(self) -> Workload:
        """Return the input for computing lower bounds.

        Raises `MissingError` if the memory layout of the architecture is unknown.
        """
        if self.layout is None:
            assert self.unknown is not None
            raise self.unknown
        return Workload(
            placed=self.placed,
            layout=self.layout,
            options=self.options,
            routing=self.routing,
            draft=self.draft.work if self.draft is not None else None,
        )


def open_subject(path: Path, command: Sequence[str] = (), imatrix: Path | None = None) -> Subject:
    """Read the header of a model, a server's command line, and an imatrix.

    Raises `MissingError` and `UsageError`. An architecture with an unknown memory layout is not an error here.
    """
    model = read_model(path)
    options = read_options(command)
    routing = read_imatrix(imatrix, model) if imatrix is not None else read_routing(model)
    try:
        layout, unknown = read_layout(model), None
    except MissingError as error:
        layout, unknown = None, error
    draft = _draft(options) if options.draft_model else None
    return Subject(
        model=model,
        placed=place(model),
        options=options,
        routing=routing,
        layout=layout,
        unknown=unknown,
        draft=draft,
    )


def _draft(options: ServerOptions) -> Draft:
    """Return the draft model that a command line names."""
    model = read_model(Path(options.draft_model))
    layout, own = read_layout(model), draft_options(options)
    return Draft(
        memory=Loaded(layout=layout, options=own, weights=model.tensor_bytes),
        work=Workload(placed=place(model), layout=layout, options=own, routing=read_routing(model)),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Fitted:
    """The memory use of a device as llama-fit-params reports it.

    `model` (the weights), `context` and `compute` (the compute buffers) are in bytes, and always whole MiB.
    """

    device: str
    model: int
    context: int
    compute: int


def ask_fit_params(binaries: Path, subject: Subject) -> tuple[Fitted, ...]:
    """Ask `llama-fit-params` of a build how much memory each device needs.

    The program loads only the header, takes about 1 s, and does not support `-kvu`. A server with `-kvu` is therefore
    treated as one slot with a cache of the same size, and the reported compute buffers are for one slot.

    Raises `MissingError` if the program does not exist or reports nothing.
    """
    program = binaries / "llama-fit-params"
    if not program.is_file():
        raise CostUnknown(f"{program} does not exist", hint="name the bin directory of a llama.cpp build with --build")
    options = subject.options
    command = [str(program), "-m", str(subject.model.path), "-fitp", "on", "-c", str(options.context)]
    command += ["-b", str(options.batch), "-ub", str(options.ubatch)]
    command += ["-np", "1" if options.unified else str(options.slots)]
    command += ["-ctk", options.key_type.name, "-ctv", options.value_type.name]
    command += ["-fa", "on" if options.flash_attention else "off"]
    command += ["--swa-full"] if options.swa_full else []
    command += ["--no-repack"]  # llama-fit-params does not report repacked CPU weights
    done = run(command, timeout=120)
    found = tuple(
        Fitted(device=name, model=int(model) * MIB, context=int(context) * MIB, compute=int(compute) * MIB)
        for name, model, context, compute in _FITTED.findall(done.stdout.decode("utf-8", "replace"))
    )
    if not done.ok or not found:
        last = (done.complaint or "it printed nothing").splitlines()[-1]
        raise CostUnknown(f"llama-fit-params reported no memory use (exit status {done.code}): {last[:200]}")
    return found


def numbers(text: str, what: str) -> tuple[int, ...]:
    """Return whole numbers of at least 0 from a list like `1,8,32`, or from a range like `1..256`.

    A range is expanded by doubling: `1..20` means 1, 2, 4, 8, 16 and 20. If it starts with 0, doubling starts at 1.
    Raises `UsageError` for any other text, and for a number above 2^30.
    """
    first, dots, last = text.partition("..")
    try:
        if dots:
            low, high = int(first), int(last)
            found = [low] if low == 0 else []
            value = max(1, low)
            while value < high:
                found.append(value)
                value *= 2
            found.append(high)
        else:
            found = [int(one) for one in text.split(",")]
    except ValueError as error:
        raise BadValue(f"{what} {text!r}: not whole numbers", hint="use a list or a range: 1,8,32 or 1..256") from error
    if not found or min(found) < 0 or max(found) > 1 << 30 or (dots and found[-1] < found[0]):
        raise BadValue(
            f"{what} {text!r}: numbers must be from 0 to 2^30", hint="start a range with its smaller number: 1..256"
        )
    return tuple(found)


def one_threshold(
    threshold: float | None, share: float | None, *, all_f32: bool, all_bf16: bool
) -> tuple[float | None, float | None]:
    """Return the requested threshold and the requested share. One of them is None.

    A threshold of 0 means that all heads stay in f32. It is the default, and the result for `all_f32`. The result for
    `all_bf16` is an infinite threshold.

    Raises `UsageError` if more than one of the four options is used, and for a threshold below 0.
    """
    asked = [threshold is not None, share is not None, all_f32, all_bf16]
    if sum(asked) > 1:
        raise OptionConflict("only one of --threshold, --share, --all-f32 and --all-bf16 may be used")
    if threshold is not None and not threshold >= 0:
        raise BadValue(
            f"--threshold {threshold:g}: must be at least 0", hint="use 0 to keep all heads in f32, or inf to keep none"
        )
    if all_bf16:
        return float("inf"), None
    return (None, share) if share is not None else (threshold or 0.0, None)
