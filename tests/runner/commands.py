"""Find the lines of a step's output that a runner reads as commands, like actions/runner's `ActionCommand.cs`."""

from __future__ import annotations

from dataclasses import dataclass, field

KNOWN = (
    *("internal-set-repo-path", "set-env", "set-output", "save-state", "add-mask", "add-path", "add-matcher"),
    *("remove-matcher", "debug", "warning", "error", "notice", "group", "endgroup", "echo", "stop-commands"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """A command that the runner would carry out."""

    name: str
    properties: dict[str, str]
    data: str


@dataclass(slots=True)
class Listener:
    """A runner that reads a step's output. `log` is the output that is not a command."""

    commands: list[Command] = field(default_factory=list)
    log: list[str] = field(default_factory=list)
    token: str | None = None

    def hear(self, line: str) -> None:
        """Read one line of output."""
        registered = {*KNOWN, *([self.token] if self.token else [])}
        found = _double_colon(line, registered) or _brackets(line, registered)
        if found is None:
            self.log.append(line)
        elif self.token is not None:
            if found.name.lower() == self.token.lower():
                self.token = None
            else:
                self.log.append(line)
        elif found.name.lower() == "stop-commands":
            self.token = found.data
        else:
            self.commands.append(found)


def heard(text: str) -> Listener:
    """Return the result of a runner for a whole output. Lines end as in .NET's readers: with LF, CR, or both."""
    listener = Listener()
    for line in text.replace("\r\n", "\n").replace("\r", "\n").split("\n"):
        listener.hear(line)
    return listener


def _double_colon(line: str, registered: set[str]) -> Command | None:
    line = line.lstrip()
    end = line.find("::", 2)
    if not line.startswith("::") or end < 0:
        return None
    name, _, rest = line[2:end].partition(" ")
    if name.lower() not in {one.lower() for one in registered}:
        return None
    return Command(
        name=name,
        properties={
            key: _unescaped(value, (("%0D", "\r"), ("%0A", "\n"), ("%3A", ":"), ("%2C", ","), ("%25", "%")))
            for key, sign, value in (one.partition("=") for one in rest.strip().split(",") if one)
            if sign and value
        },
        data=_unescaped(line[end + 2 :], (("%0D", "\r"), ("%0A", "\n"), ("%25", "%"))),
    )


def _brackets(line: str, registered: set[str]) -> Command | None:
    start = line.find("##[")
    end = line.find("]", start)
    if start < 0 or end < 0:
        return None
    name = line[start + 3 : end].partition(" ")[0]
    if name.lower() not in {one.lower() for one in registered}:
        return None
    return Command(name=name, properties={}, data=line[end + 1 :])


def _unescaped(text: str, mapping: tuple[tuple[str, str], ...]) -> str:
    for written, meant in mapping:
        text = text.replace(written, meant)
    return text
