"""Run the client as a program.

`client.pyz PLAN RECORD` measures a server. `client.pyz ask QUESTIONS ANSWERS` sends questions to a server. The program
prints its progress to stdout, and writes the result to the second file.
"""

from __future__ import annotations

import gzip
import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from patchstack.llama.client.door import NoRun

DONE, NO_SERVER, UNANSWERED, BAD_PLAN, BUG, STOPPED = 0, 3, 4, 2, 70, 130


def main(arguments: Sequence[str]) -> int:
    """Run a plan or send questions, and return the exit status.

    The last two arguments are the file that contains the plan or the questions, and the file for the result.
    """
    asks = len(arguments) == 3 and arguments[0] == "ask"
    if not asks and len(arguments) != 2:
        print("usage: client.pyz [ask] PLAN RECORD", file=sys.stderr)
        return BAD_PLAN
    told, result = (Path(text) for text in arguments[-2:])
    try:
        return (_asked if asks else _measured)(told, result, lambda words: print(words, flush=True))
    except NoRun as error:
        print(f"failed {error}", flush=True)
        return BAD_PLAN if error.kind == "usage" else NO_SERVER
    except OSError as error:
        print(f"failed a file cannot be read or written: {error}", flush=True)
        return BAD_PLAN
    except ValueError as error:
        print(f"failed the plan cannot be used: {error}", flush=True)
        return BAD_PLAN
    except KeyboardInterrupt:
        return STOPPED
    except Exception as error:
        print(f"failed the client has a bug: {type(error).__name__}: {error}", flush=True)
        return BUG


def _measured(told: Path, result: Path, say: Callable[[str], None]) -> int:
    from patchstack.llama.client.load import run_plan
    from patchstack.llama.client.plan import read_plan

    record = run_plan(read_plan(told.read_text(encoding="utf-8")), say)
    result.write_bytes(gzip.compress(json.dumps(record, separators=(",", ":")).encode(), compresslevel=4, mtime=0))
    return STOPPED if record["interrupted"] else DONE


def _asked(told: Path, result: Path, say: Callable[[str], None]) -> int:
    from patchstack.llama.client.asking import ANSWERED, ask_all, read_questions

    found = ask_all(read_questions(told.read_text(encoding="utf-8")), say)
    result.write_text(json.dumps(found), encoding="utf-8")
    return DONE if found["state"] == ANSWERED else UNANSWERED
