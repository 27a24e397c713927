"""`patchstack bench serve`: measure a server as its users see it."""

from __future__ import annotations

import os
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from patchstack.causes import AmbiguousName, BadValue, FigureUnwritable, OptionConflict
from patchstack.cli.bench.options import (
    AllowOption,
    EngineOption,
    HtmlOption,
    ImageOption,
    LibrariesOption,
    kept_places,
    opened_where,
    variables,
)
from patchstack.cli.options import WorkspaceOption, nearest_workspace
from patchstack.errors import Exit

if TYPE_CHECKING:
    from patchstack.workflow.serve import LoadWanted, ServeRun


class PromptForm(StrEnum):
    """The form in which prompts are sent."""

    AUTO = "auto"
    IDS = "ids"
    TEXT = "text"


def serve_command(
    url: Annotated[
        str | None,
        typer.Option("--url", metavar="URL", help="The base URL of the server, or the full URL of its completions."),
    ] = None,
    server: Annotated[
        str | None,
        typer.Option("--server", metavar="BUILD", help="Start a server of this build (a key or a directory)."),
    ] = None,
    model: Annotated[
        str,
        typer.Option("--model", metavar="NAME", help="The model. Give its name for --url, and its file for --server."),
    ] = "",
    concurrency: Annotated[
        int, typer.Option(metavar="N", min=0, max=65536, help="The maximum number of streams in flight.")
    ] = 0,
    requests: Annotated[int, typer.Option(metavar="M", min=0, help="The number of requests [default: N].")] = 0,
    prompt_tokens: Annotated[
        int, typer.Option(metavar="P", min=1, help="The exact number of tokens in each prompt.")
    ] = 128,
    max_tokens: Annotated[
        int, typer.Option(metavar="G", min=1, help="The number of tokens to generate for each request.")
    ] = 128,
    chat: Annotated[bool, typer.Option("--chat", help="Request chat completions.")] = False,
    arrivals: Annotated[
        str | None,
        typer.Option(
            metavar="KIND",
            help="closed, burst, staggered, poisson, constant or file:PATH [default: closed, or poisson with --rate].",
        ),
    ] = None,
    rate: Annotated[
        float, typer.Option(metavar="R", min=0, help="The number of requests per second, in an open loop.")
    ] = 0.0,
    stagger: Annotated[float, typer.Option(metavar="S", min=0, help="The seconds between the first requests.")] = 0.0,
    prefix: Annotated[
        str, typer.Option(metavar="nonce|shared:N", help="Unique prompts, or prompts with a shared prefix of N tokens.")
    ] = "nonce",
    prompts: Annotated[PromptForm, typer.Option(help="Send prompts as token ids or as text.")] = PromptForm.AUTO,
    seed: Annotated[int | None, typer.Option(metavar="N", min=0, help="The seed of prompts and arrivals.")] = None,
    slo: Annotated[
        str | None, typer.Option(metavar="ttft=MS,tpot=MS", help="The limits for the goodput, in ms: ttft, tpot, e2e.")
    ] = None,
    stop_at_eos: Annotated[
        bool, typer.Option("--stop-at-eos", help="Allow answers to end before --max-tokens.")
    ] = False,
    no_chunk_counts: Annotated[
        bool, typer.Option("--no-chunk-counts", help="Do not request the token count of every chunk.")
    ] = False,
    timeout: Annotated[
        float, typer.Option(metavar="S", min=0.1, help="The time limit of a request, in seconds.")
    ] = 600.0,
    ready: Annotated[
        float, typer.Option(metavar="S", min=0, help="The maximum time to wait until the server answers, in seconds.")
    ] = 10.0,
    cacert: Annotated[
        Path | None,
        typer.Option(metavar="FILE", exists=True, dir_okay=False, help="A file with the certificates to trust."),
    ] = None,
    api_key_env: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="The environment variable with the API key. The key is never stored."),
    ] = None,
    server_arg: Annotated[
        list[str] | None, typer.Option(metavar="TEXT", help="An argument for the started server. Repeatable.")
    ] = None,
    env: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=VALUE", help="An environment variable for the started server. Repeatable."),
    ] = None,
    seconds: Annotated[
        float, typer.Option(metavar="S", min=1, help="The time limit of the started server, in seconds.")
    ] = 3600.0,
    engine: EngineOption = None,
    image: ImageOption = None,
    client_image: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="The image for the client, which needs Python [default: --image]."),
    ] = None,
    allow: AllowOption = None,
    library_path: LibrariesOption = None,
    json: Annotated[bool, typer.Option("--json", help="Print a patchstack.serve/1 document.")] = False,
    html: HtmlOption = None,
    workspace: WorkspaceOption = None,
) -> None:
    """Measure a server as its users see it: time to first token, times between tokens, and rates.

    The token counts in the answers must agree with the server's counters, and the client itself must not be the
    bottleneck. Exits with 0 if the run is valid, with 4 if it is INVALID, and with 3 if the server cannot be reached.
    """
    from patchstack.workflow.serve import LoadWanted

    wanted = LoadWanted(
        chat=chat,
        model="" if server is not None else model,
        arrivals=arrivals,
        requests=requests,
        concurrency=concurrency,
        rate=rate,
        stagger=stagger,
        prompt_tokens=prompt_tokens,
        max_tokens=max_tokens,
        seed=seed,
        prefix=prefix,
        prompts=str(prompts),
        ignore_eos=not stop_at_eos,
        chunk_counts=not no_chunk_counts,
        timeout=timeout,
        ready=seconds if server is not None else ready,
        cacert=cacert,
        slo=slo,
    )
    started = _Started(server, model, server_arg, env, seconds, client_image)
    place = _Place(engine, image, allow, library_path, workspace)
    raise typer.Exit(_measured(wanted, url, _key(api_key_env), started, place, json=json, html=html))


@dataclass(frozen=True, slots=True)
class _Started:
    """The server to start, if any, from the command line."""

    what: str | None
    model: str
    args: list[str] | None
    env: list[str] | None
    seconds: float
    client_image: str | None


@dataclass(frozen=True, slots=True)
class _Place:
    """The machine for the server, from the command line."""

    engine: str | None
    image: str | None
    allow: list[str] | None
    library_path: str | None
    workspace: Path | None


def _key(name: str | None) -> str:
    """Return the API key from an environment variable. Raises `UsageError` if the variable is not set."""
    if name is None:
        return ""
    if not (key := os.environ.get(name, "")):
        raise BadValue(
            f"the variable {name} of --api-key-env is not set", hint=f"export {name}=KEY, then run the command again"
        )
    return key


def _measured(
    wanted: LoadWanted, url: str | None, key: str, started: _Started, place: _Place, *, json: bool, html: Path | None
) -> int:
    """Measure, print the result, and return the exit code."""
    from patchstack.workflow.serve import plan_of, serve_url

    if (url is None) == (started.what is None):
        raise AmbiguousName(
            "exactly one of --url and --server is needed", hint="add --url URL, or --server BUILD --model FILE"
        )
    if html is not None:
        from patchstack.report.serve_page import require_page

        require_page()
    if url is not None:
        if place.engine is not None or started.args or started.env:
            raise OptionConflict("--engine, --server-arg and --env can only be used with --server")
        plan, asked = plan_of(wanted, url)
        return _shown(serve_url(plan, asked, key), json=json, html=html)
    return _shown(_with_server(wanted, started, place), json=json, html=html)


def _with_server(wanted: LoadWanted, started: _Started, place: _Place) -> ServeRun:
    from patchstack.bench.declare import model_file
    from patchstack.llama.serving import URL
    from patchstack.workflow.serve import ServerWanted, plan_of, serve_build

    if not started.model:
        raise OptionConflict("--server needs a model", hint="add --model FILE")
    found = nearest_workspace(place.workspace)
    plan, asked = plan_of(wanted, URL)
    server = ServerWanted(
        what=started.what or "",
        model=model_file(started.model, found),
        args=tuple(started.args or ()),
        env=variables("--env", started.env),
        client_image=started.client_image,
        seconds=started.seconds,
    )
    comparisons, observations = kept_places()
    with opened_where(
        place.engine,
        found,
        comparisons,
        observations,
        allow=place.allow,
        image=place.image,
        library_path=place.library_path,
    ) as where:
        return serve_build(plan, asked, server, where)


def _shown(run: ServeRun, *, json: bool, html: Path | None) -> int:
    from patchstack.files.atomic import replace_file
    from patchstack.report.documents.serve import serve_document
    from patchstack.report.serve import print_serve

    document = serve_document(run)
    if json:
        print(document.line)
    else:
        print_serve(document)
    if html is not None:
        from patchstack.report.serve_page import gaps_of, page_of

        try:
            replace_file(html, page_of(document, gaps_of(run.served.streams)).encode())
        except OSError as error:
            raise FigureUnwritable(f"{html} cannot be written: {error.strerror}") from error
    if run.record.interrupted:
        return int(Exit.INTERRUPTED)
    return int(Exit.HOLDS if document.valid else Exit.INVALID)
