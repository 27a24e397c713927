"""A fake `gh` with the commands that the workflows use, over a file of issues. Run as a program: FILE CALLS ARGS…"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

BOT = "app/github-actions"


def main(file: Path, calls: Path, args: list[str]) -> int:
    """Carry out one call. Exit status: 1 for a call that real gh would refuse, or that is unknown here."""
    with calls.open("a", encoding="utf-8") as out:
        out.write(json.dumps(args) + "\n")
    if not os.environ.get("GH_TOKEN"):
        print("gh: there is no token", file=sys.stderr)
        return 4
    issues: list[dict[str, Any]] = json.loads(file.read_text("utf-8"))
    options = {args[at]: args[at + 1] for at in range(len(args) - 1) if args[at].startswith("--")}
    match args[:2]:
        case ["auth", "setup-git"]:
            return 0
        case ["issue", "list"]:
            found = [one for one in issues if f"app/{options['--app']}" == one["author"]]
            ours = [one for one in found if one["body"].startswith(os.environ["MARKER"])]
            assert options["--jq"] == "map(select(.body | startswith(env.MARKER))) | first.number // empty"
            print(ours[0]["number"] if ours else "", end="")
        case ["issue", "create"] | ["pr", "create"]:
            body = options.get("--body") or Path(options["--body-file"]).read_text("utf-8")
            number = str(len(issues) + 1)
            issues.append({"number": number, "author": BOT, "state": "open", "title": options["--title"], "body": body})
        case ["pr", "list"]:
            print("\n".join(one["number"] for one in issues if one["state"] == "open"), end="")
        case ["issue", "edit"]:
            (one,) = [issue for issue in issues if issue["number"] == args[2]]
            one |= {"title": options["--title"], "body": Path(options["--body-file"]).read_text("utf-8")}
        case ["issue", "close" | "reopen"]:
            (one,) = [issue for issue in issues if issue["number"] == args[2]]
            one["state"] = "closed" if args[1] == "close" else "open"
        case _:
            print(f"gh: unknown: {args}", file=sys.stderr)
            return 1
    file.write_text(json.dumps(issues), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3:]))
