"""Show the forecast as a heat map, with characters for a terminal or as SVG."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape

from patchstack.report.text import counted
from patchstack.upstream.forecast.forecast import AHEAD, Forecast, HotFile

_SHADES = " ░▒▓█"
_SHOWN = 25  # maximum number of files, and of patches, on a screen
_CELL, _ROW, _LEFT, _TOP = 18, 20, 420, 60
_COLOURS = ("#f2f2f2", "#fde0c5", "#f8a578", "#e65c4f", "#a8123e")


def shade(count: int, most: int) -> int:
    """Return the shade of a count, from 0 (no changes) to 4 (most changes)."""
    return 0 if not count or not most else max(1, round(4 * count / most))


def heat_lines(forecast: Forecast, *, everything: bool = False) -> Iterator[str]:
    """Yield the heat map, then the patches that are most likely to break.

    Each file has a line, and each week has a column. The file with the most changes is first. Unless `everything` is
    true, files without changes are omitted, and the number of files is limited.
    """
    files = [file for file in forecast.files if file.commits] if not everything else list(forecast.files)
    yield (
        f"upstream's {counted(forecast.commits, 'commit')} of the {counted(forecast.days, 'day')} up to "
        f"{forecast.until}, in the {counted(len(forecast.files), 'file')} of upstream that the series changes; "
        "a column is a week"
    )
    most = max((count for file in files for count in file.weeks), default=0)
    width = max((len(file.path) for file in files[:_SHOWN]), default=0)
    for file in files if everything else files[:_SHOWN]:
        cells = "".join(_SHADES[shade(count, most)] * 2 for count in file.weeks)
        patches = counted(len(file.patches), "patch", "patches")
        noun = "commit " if file.commits == 1 else "commits"
        yield f"{file.path:<{width}}  |{cells}|  {file.commits:3} {noun}  {patches}{_hottest(file)}"
    if len(files) > _SHOWN and not everything:
        yield f"and {counted(len(files) - _SHOWN, 'more file')}"
    if files:
        marks = ", ".join(f"{_SHADES[level]} {_range(level, most)}" for level in range(1, 5) if _range(level, most))
        yield f"commits a week: {marks}"
    risky = [one for one in forecast.patches if one.risk >= 0.005]
    yield f"likely to meet a change of its lines within {AHEAD} days:" if risky else "no patch is likely to break soon"
    for one in risky[:_SHOWN]:
        number = f"{one.number:04d}" if one.number is not None else one.file
        yield f"{one.risk:4.0%}  {number}  {one.subject}  ({one.where})"


def _hottest(file: HotFile) -> str:
    hot = [one for one in file.functions if one.commits and one.name][:2]
    if not file.known:
        return "  (contents missing: functions unknown)"
    return "".join(f"  {one.name}() {one.commits}" for one in hot)


def _range(level: int, most: int) -> str:
    counts = [count for count in range(1, most + 1) if shade(count, most) == level]
    if not counts:
        return ""
    return str(counts[0]) if len(counts) == 1 else f"{counts[0]}-{counts[-1]}"


def heat_svg(forecast: Forecast) -> str:
    """Return the heat map as an SVG picture. The tooltip of each cell shows its number of commits."""
    files = [file for file in forecast.files if file.commits]
    most = max((count for file in files for count in file.weeks), default=0)
    width = _LEFT + _CELL * len(forecast.weeks) + 140
    height = _TOP + _ROW * len(files) + 20
    title = f"Upstream's changes in the files of the series, {forecast.days} days up to {forecast.until}"
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" font-family="monospace" '
        f'font-size="12" role="img">',
        f"<title>{escape(title)}</title>",
        f'<rect width="{width}" height="{height}" fill="white"/>',
        f'<text x="10" y="20" font-size="14">{escape(title)}</text>',
    ]
    for column, week in enumerate(forecast.weeks):
        if column % 4 == 0:
            parts.append(f'<text x="{_LEFT + _CELL * column}" y="{_TOP - 8}">{week}</text>')
    for row, file in enumerate(files):
        top = _TOP + _ROW * row
        parts.append(f'<text x="{_LEFT - 10}" y="{top + 14}" text-anchor="end">{escape(_fitted(file.path))}</text>')
        for column, (week, count) in enumerate(zip(forecast.weeks, file.weeks, strict=True)):
            left = _LEFT + _CELL * column
            what = f"{file.path}: {count} commit{'s' if count != 1 else ''} in the week of {week}"
            parts.append(
                f'<rect x="{left}" y="{top}" width="{_CELL - 2}" height="{_ROW - 2}" '
                f'fill="{_COLOURS[shade(count, most)]}"><title>{escape(what)}</title></rect>'
            )
        right = _LEFT + _CELL * len(forecast.weeks) + 10
        count = len(file.patches)
        parts.append(
            f'<text x="{right}" y="{top + 14}">{file.commits} / {count} patch{"" if count == 1 else "es"}</text>'
        )
    return "\n".join([*parts, "</svg>", ""])


def _fitted(path: str) -> str:
    return path if len(path) <= 55 else "…" + path[-54:]
