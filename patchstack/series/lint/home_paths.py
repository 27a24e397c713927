"""Rule `home-path`: patches contain no paths that exist only on one person's machine."""

from __future__ import annotations

import re
from collections.abc import Iterator

from patchstack.series.lint.rule import Finding, Rule, Subject

ID = "home-path"
_HOME = re.compile(
    rb"(?<![\w.~-])(?:/home/|/Users/|(?i:[a-z]:)[\\/]{1,2}Users[\\/]{1,2})(?P<name>[A-Za-z_][\w.-]*\b)(?![*$<{}>%])"
)

# Placeholder names, which belong to no person.
_NOBODY = {
    *(b"user", b"username", b"name", b"yourname", b"your_name", b"your-name", b"youruser", b"you", b"me", b"someone"),
    *(b"runner", b"linuxbrew", b"shared", b"public", b"default", b"xxx"),
}


def check(subject: Subject) -> Iterator[Finding]:
    """Report home directories in the message and in added lines, each once per line."""
    for patch in subject.patches:
        if b"home/" not in patch.data and b"Users" not in patch.data:
            continue
        for line in patch.text.own:
            if b"home/" not in line.text and b"Users" not in line.text:
                continue
            found = {
                match.group(0).decode(): None
                for match in _HOME.finditer(line.text)
                if match.group("name").lower() not in _NOBODY
            }
            for path in found:
                yield patch.finding(ID, line.number, f"{path} is a path of one person's machine")


RULE = Rule(
    id=ID,
    reason="a path of one person's machine does not work elsewhere, and reveals the person's name",
    check=check,
)
