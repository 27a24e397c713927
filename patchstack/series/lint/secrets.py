"""Rule `secrets`: patches contain no keys, tokens or passwords. A secret is never printed in full."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from patchstack.series.lint.rule import Finding, Rule, Subject

ID = "secrets"

# The formats as their issuers document them.
_SHAPES = (
    ("a private key", re.compile(r"-----BEGIN (?:[A-Z0-9]+ )*PRIVATE KEY(?: BLOCK)?-----")),
    ("an AWS access key", re.compile(r"\b(?:AKIA|ASIA)[0-9A-Z]{16}\b")),
    ("a GitHub token", re.compile(r"\b(?:gh[pousr]_[A-Za-z0-9]{36,}|github_pat_[A-Za-z0-9_]{22,})\b")),
    ("a GitLab token", re.compile(r"\bglpat-[A-Za-z0-9_-]{20,}")),
    ("a Hugging Face token", re.compile(r"\bhf_[A-Za-z0-9]{30,}\b")),
    ("a Slack token", re.compile(r"\bxox[abeoprs]-[A-Za-z0-9-]{10,}")),
    ("a Slack webhook", re.compile(r"\bhooks\.slack\.com/services/T\w+/B\w+/\w+")),
    ("an API key", re.compile(r"\b(?:sk-(?:proj-|ant-)?[A-Za-z0-9_-]{32,}|AIza[0-9A-Za-z_-]{35})")),
)
# Every format and every assignment contains one of these words, so lines without them are skipped.
_MARKS = (
    *("-----BEGIN", "AKIA", "ASIA", "ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_", "glpat-", "hf_", "xox"),
    *("hooks.slack", "sk-", "AIza"),
)
_KEYWORDS = ("passw", "passph", "secret", "key", "token")
_ASSIGNED = re.compile(
    r"(?i)(?<![\w.-])(?P<key>[\w.-]*(?:password|passwd|passphrase|secret|secret_?(?:access_?)?key|api_?key|(?:auth|access)_?token))"
    r"""["']?\]?\s*(?::=|=>|[:=])\s*(?P<quote>["'])(?P<value>[^"'\s]{6,})(?P=quote)"""
)
_PLACEHOLDER = re.compile(r"[<>{}$%]|\A(.)\1*\Z")


def secrets_in(text: str) -> Iterator[tuple[str, str]]:
    """Yield every likely secret of a line, with its kind and its text."""
    if any(mark in text for mark in _MARKS):
        for what, shape in _SHAPES:
            for match in shape.finditer(text):
                yield what, match.group(0)
    lowered = text.lower()
    if not any(word in lowered for word in _KEYWORDS) or not ('"' in text or "'" in text):
        return
    for match in _ASSIGNED.finditer(text):
        value = match.group("value")
        if not _PLACEHOLDER.search(value) and not any(shape.search(value) for _, shape in _SHAPES):
            yield f"a value for {match.group('key')}", value


def redacted(text: str) -> str:
    """Return the text with every likely secret cut to its first characters."""
    for _, secret in list(secrets_in(text)):
        text = text.replace(secret, _cut(secret))
    return text


def _cut(secret: str) -> str:
    return "-----BEGIN ... KEY-----" if secret.startswith("-----") else f"{secret[:4]}..."


def check(subject: Subject) -> Iterator[Finding]:
    """Report secrets in the message, in file names and in added lines, each once per line."""
    for patch in subject.patches:
        if not _suspicious(patch.data):
            continue
        for line in patch.text.own:
            for what, secret in dict.fromkeys(secrets_in(line.text.decode("utf-8", "replace"))):
                told = "" if secret.startswith("-----") else f" ({_cut(secret)}, {len(secret)} characters)"
                if what.startswith("a value"):
                    told = f" ({len(secret)} characters)"
                yield patch.finding(ID, line.number, f"this looks like {what}{told}: remove it, and revoke it")


def _suspicious(data: bytes) -> bool:
    """Return whether any line of a patch file may contain a secret.

    Most files contain no secret. For them, this test avoids the slower test of every line.
    """
    lines = (*_lines_with(data, _MARKS), *_lines_with(data.lower(), _KEYWORDS))
    return any(True for line in lines for _ in secrets_in(line.decode("utf-8", "replace")))


def _lines_with(data: bytes, words: Iterable[str]) -> Iterator[bytes]:
    for word in map(str.encode, words):
        at = data.find(word)
        while at >= 0:
            end = data.find(b"\n", at) % (len(data) + 1)  # on the last line, find() returns -1
            yield data[data.rfind(b"\n", 0, at) + 1 : end]
            at = data.find(word, end)


RULE = Rule(
    id=ID,
    reason="a secret in a patch is published with the series and stays in the history",
    check=check,
)
