"""The client as a program: `client.pyz PLAN RECORD`. Progress goes to stdout, the record to a file."""

from __future__ import annotations

import gzip
import json
import sys
from collections.abc import Sequence

from patchstack.llama.client.load import NoRun, run_plan
from patchstack.llama.client.plan import read_plan

DONE, NO_SERVER, BAD_PLAN, BUG, STOPPED = 0, 3, 2, 70, 130


def main(arguments: Sequence[str]) -> int:
    """Run the plan of a file, write the record to another, and return the exit code."""
    if len(arguments) != 2:
        print("usage: client.pyz PLAN RECORD", file=sys.stderr)
        return BAD_PLAN
    try:
        with open(arguments[0], encoding="utf-8") as file:
            plan = read_plan(file.read())
        record = run_plan(plan, lambda words: print(words, flush=True))
    except NoRun as error:
        print(f"failed {error}", flush=True)
        return BAD_PLAN if error.kind == "usage" else NO_SERVER
    except (OSError, ValueError) as error:
        print(f"failed the plan cannot be used: {error}", flush=True)
        return BAD_PLAN
    except KeyboardInterrupt:
        return STOPPED
    except Exception as error:
        print(f"failed the client has a bug: {type(error).__name__}: {error}", flush=True)
        return BUG
    whole = gzip.compress(json.dumps(record, separators=(",", ":")).encode(), mtime=0)
    with open(arguments[1], "wb") as out:
        out.write(whole)
    return STOPPED if record["interrupted"] else DONE
