"""Check every link of the site that `make site` wrote, without a network.

A link inside the site must lead to a file, and to an id in it if it has a fragment. A link to elsewhere is checked in
its form only: https, a host name, and no space. Usage: links.py DIRECTORY
"""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

ADDRESSES = {"a": "href", "link": "href", "img": "src", "script": "src", "source": "srcset", "object": "data"}
HOST = re.compile(r"[a-z0-9-]+(\.[a-z0-9-]+)+")


@dataclass(slots=True)
class Page(HTMLParser):
    """The ids and the addresses of one page."""

    ids: set[str] = field(default_factory=set)
    addresses: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        HTMLParser.__init__(self)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        for name in ("id", "name"):
            self.ids.add(given.get(name) or "")
        address = given.get(ADDRESSES.get(tag, ""))
        if address:
            self.addresses.append(address)


def read(path: Path) -> Page:
    """Return the ids and addresses of an HTML file."""
    page = Page()
    page.feed(path.read_text("utf-8"))
    return page


def complaint(address: str, path: Path, site: Path, pages: dict[Path, Page]) -> str | None:
    """Return the problem of a link on a page. Return None if the link works."""
    parts = urlsplit(address)
    if parts.scheme == "data":
        return None
    if parts.scheme or parts.netloc:
        sound = parts.scheme == "https" and HOST.fullmatch(parts.hostname or "") and " " not in address
        return None if sound else "is not a sound https address"
    target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
    if not target.is_relative_to(site):
        return "leads out of the site"
    if not target.is_file():
        return "does not exist"
    if parts.fragment and target in pages and unquote(parts.fragment) not in pages[target].ids:
        return "has no such anchor"
    return None


def main() -> int:
    """Exit status: 0 every link is valid, 1 some are not."""
    site = Path(sys.argv[1]).resolve()
    pages = {path: read(path) for path in sorted(site.rglob("*.html"))}
    wrong = [
        f"{path.relative_to(site)}: {address}: {found}"
        for path, page in pages.items()
        for address in dict.fromkeys(page.addresses)
        if (found := complaint(address, path, site, pages)) is not None
    ]
    for line in wrong:
        print(line, file=sys.stderr)
    links = sum(len(page.addresses) for page in pages.values())
    print(f"{site.name}: {len(pages)} pages, {links} links, {len(wrong)} of them wrong")
    return 1 if wrong or not links else 0


if __name__ == "__main__":
    sys.exit(main())
