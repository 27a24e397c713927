"""`patchstack gate backend-ops`: operators of a backend, against the CPU's reference."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from patchstack.cli.gates.standing import AgainOption, BinOption, ImageOption, JsonOption, finish, stand
from patchstack.cli.gates.variables import EngineOption, EnvOption, variables


def backend_ops_command(
    bin: BinOption,  # noqa: A002  (the option's name)
    op: Annotated[list[str], typer.Option("--op", metavar="OP", help="An operator, or the full name of a case.")],
    backend: Annotated[
        str, typer.Option("--backend", metavar="NAME", help="The backend, as the tool names it: CPU, CUDA0.")
    ] = "CPU",
    expect: Annotated[
        int | None, typer.Option("--expect", metavar="N", min=1, help="How many cases must run at least.")
    ] = None,
    cases: Annotated[
        Path | None, typer.Option("--cases", metavar="FILE", help="The cases that must run: a full name a line.")
    ] = None,
    env: EnvOption = None,
    alone: Annotated[
        int, typer.Option("--alone", metavar="N", min=0, max=100, help="How often a failing case is run by itself.")
    ] = 5,
    seconds: Annotated[int, typer.Option("--seconds", metavar="N", min=1, help="How long a run may take.")] = 3600,
    engine: EngineOption = None,
    image: ImageOption = None,
    again: AgainOption = False,
    json: JsonOption = False,
) -> None:
    """Run test-backend-ops for operators, and see that the backend ran, every case passed, and none was lost."""
    from patchstack.errors import UsageError
    from patchstack.gates.kinds import backend_ops
    from patchstack.gates.kinds.backend_ops import read_case_list

    for problem in filter(None, map(backend_ops.op_problem, op)):
        raise UsageError(f"--op: {problem}")
    spec = backend_ops.Spec(
        backend=backend,
        ops=tuple(op),
        expected=expect,
        cases=read_case_list(cases) if cases is not None else None,
        env=variables(env),
        alone=alone,
        seconds=seconds,
    )
    with stand(
        bin=bin, kind=backend_ops.KIND, version=backend_ops.VERSION, engine=engine, image=image, again=again
    ) as bench:
        judgement = backend_ops.run(spec, bench)
    raise typer.Exit(int(finish(judgement, kind=backend_ops.KIND, json=json)))
