"""Define what the bench commands share: options, the directories of stored comparisons, and the output."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from patchstack.causes import AmbiguousName, BadValue, FigureUnwritable, NoComparison
from patchstack.cli.failures import talk
from patchstack.cli.proving import connected
from patchstack.errors import Exit
from patchstack.files.places import cache_places

if TYPE_CHECKING:
    from patchstack.evidence.store import Observations
    from patchstack.workflow.bench import Progress, Where
    from patchstack.workspace import Workspace

EngineOption = Annotated[
    str | None,
    typer.Option(
        "--engine", metavar="ENGINE", help="Where the programs run: host, docker, ssh://USER@HOST [default: host]."
    ),
]
ImageOption = Annotated[
    str | None, typer.Option("--image", metavar="NAME", help="The image for containers that run the programs.")
]
AllowOption = Annotated[
    list[str] | None,
    typer.Option("--allow", metavar="CHECK", help="A check of the machine that may fail. Repeatable."),
]
LibrariesOption = Annotated[
    str | None,
    typer.Option(
        "--library-path",
        metavar="DIR",
        help="The directory of libraries that are not in the directory of the programs.",
    ),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print a patchstack.bench/1 document.")]
MarkdownOption = Annotated[
    Path | None, typer.Option("--markdown", metavar="FILE", help="Write the result as Markdown to FILE.")
]
HtmlOption = Annotated[
    Path | None,
    typer.Option(
        "--html", metavar="FILE", help="Write the result as a page with plots to FILE. Needs patchstack[plots]."
    ),
]
WholeOption = Annotated[bool, typer.Option("--whole", help="Run all pairs, even if the outcome is already decided.")]
ComparisonArgument = Annotated[
    str | None,
    typer.Argument(metavar="ID", help="The name of the comparison, or the start of the name [default: the newest]."),
]


def kept_places() -> tuple[Path, Observations]:
    """Return the directory of comparisons, and the store of their runs."""
    from patchstack.evidence.store import Observations

    cache = cache_places()
    return cache.comparisons, Observations(cache.observations, cache.outputs)


def found_comparison(name: str | None) -> tuple[Path, Observations]:
    """Return the directory of a comparison, and the store of its runs.

    The comparison is found by the start of its name. If no name is given, the newest comparison is used.

    Raises `MissingError` if no comparison is found, and `UsageError` if several names have that start.
    """
    from patchstack.workflow.bench import comparisons_in

    root, observations = kept_places()
    found = [path for path in comparisons_in(root) if name is None or path.name.startswith(name)]
    if not found:
        what = f"there is no comparison {name}" if name is not None else "there is no comparison yet"
        raise NoComparison(
            what, hint="patchstack bench list lists all comparisons; patchstack bench ab makes a new one"
        )
    if name is not None and len(found) > 1:
        raise AmbiguousName(f"{len(found)} comparisons begin with {name}", hint="give a longer part of the name")
    return found[0], observations


@contextlib.contextmanager
def opened_where(
    spec: str | None,
    workspace: Workspace | None,
    comparisons: Path,
    observations: Observations,
    *,
    allow: list[str] | None,
    image: str | None,
    library_path: str | None,
) -> Iterator[Where]:
    """Yield the machine for a comparison. Its engine stays open until the end of the block."""
    from patchstack.workflow.bench import Where

    with connected(spec or "host", workspace) as connection:
        yield Where(
            connection=connection,
            comparisons=comparisons,
            observations=observations,
            allow=tuple(allow or ()),
            image=image,
            library_path=library_path,
        )


def followed(states: Iterable[Progress], plan_most: int) -> Progress:
    """Show each finished pair, and return the last state of the comparison."""
    from patchstack.report.bench import pair_line
    from patchstack.report.documents.bench import bench_document

    last: Progress | None = None
    for last in states:
        if last.pairs and not last.failure:
            talk(pair_line(bench_document(last), plan_most))
    assert last is not None
    return last


def shown(progress: Progress, *, json: bool, markdown: Path | None, html: Path | None) -> Exit:
    """Print a comparison, write the requested files, and return the exit code of the comparison."""
    from patchstack.report.bench import markdown as markdown_of
    from patchstack.report.bench import print_comparison
    from patchstack.report.documents.bench import bench_document

    document = bench_document(progress)
    if json:
        print(document.line)
    else:
        print_comparison(document)
    if markdown is not None:
        write(markdown, markdown_of(document))
    if html is not None:
        from patchstack.report.bench_page import page_of

        write(html, page_of(document))
    if document.outcome in ("INVALID", "undecided"):
        return Exit.INVALID
    return Exit.DOES_NOT_HOLD if document.demand_met is False else Exit.HOLDS


def variables(option: str, given: list[str] | None) -> dict[str, str]:
    """Parse environment variables of the form NAME=VALUE. Raises `UsageError` that lists every invalid variable."""
    from patchstack.observe.settings import variable_problem

    problems, found = [], {}
    for text in given or ():
        name, equals, value = text.partition("=")
        problem = "must be NAME=VALUE" if not equals else variable_problem(name)
        if problem:
            problems.append(f"{option} {text}: {problem}")
        found[name] = value
    if problems:
        raise BadValue(f"{option} cannot be used", problems=problems)
    return found


def write(path: Path, content: str | bytes) -> None:
    """Write a requested file, and print its path. Raises `NotHeldError` if the file cannot be written."""
    from patchstack.files.atomic import replace_file

    try:
        replace_file(path, content.encode() if isinstance(content, str) else content)
    except OSError as error:
        raise FigureUnwritable(f"{path} cannot be written: {error.strerror}") from error
    talk(f"wrote {path}")
