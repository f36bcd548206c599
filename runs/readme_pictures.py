"""What commands print, as SVG pictures of a terminal for the READMEs: docs/terminal*.svg.

python -m runs.readme_pictures
"""

from __future__ import annotations

import argparse
import re
import shlex
import subprocess
import sys
import unicodedata
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path
from xml.sax.saxutils import escape

DOCS = Path(__file__).resolve().parents[1] / "docs"
ENGLISH = r"""
elmo compare bank "They sat on the river bank." "She has a bank account." \
    "The boat lay by the bank."
elmo predict "He opened the ___ and went into the room." --top 4
"""
KOREAN = r"""
elmo compare 사과 "사과를 깎아 먹었다." "잘못을 인정하고 사과를 했다." \
    "사과와 배를 샀다." --model korean-small
elmo predict "이 영화 정말 ___네요." --top 4 --model korean-small
"""
PICTURES = {"terminal.svg": ENGLISH, "terminal.ko.svg": KOREAN}
"""What each picture shows: commands as one types them."""

SIZE, CELL, LINE, MARGIN = 14, 8.4, 20, 20  # of letters, in pixels
FONTS = "ui-monospace, 'DejaVu Sans Mono', Menlo, Consolas, 'Noto Sans Mono CJK KR', monospace"
STYLE = f"""\
text {{ font: {SIZE}px {FONTS}; fill: #d5dbe3 }}
.prompt {{ fill: #7fb4f5 }}
.command {{ fill: #ffffff; font-weight: 600 }}
.wide {{ font-size: {SIZE + 2}px }}"""


def printed(command: str) -> list[str]:
    """What a command prints, without what it says of its progress."""
    arguments = shlex.split(command.replace("\\\n", ""))[1:]
    process = [sys.executable, "-m", "elmokit", *arguments, "--threads", "1"]
    done = subprocess.run(process, check=True, stdout=subprocess.PIPE, encoding="utf-8")
    return done.stdout.splitlines()


def cells(text: str) -> int:
    """How many columns of a terminal a text takes."""
    return sum(map(width, text))


def width(character: str) -> int:
    """Two columns for Hangul and the like, else one."""
    return 1 + (unicodedata.east_asian_width(character) in "WF")


def screen(commands: str) -> list[tuple[str, str]]:
    """The lines of a picture, each with its class."""
    lines = []
    for command in re.split(r"(?<!\\)\n", commands.strip()):
        lines += [("command", line) for line in f"$ {command}".splitlines()]
        lines += [*(("", line) for line in printed(command)), ("", "")]
    return lines[:-1]


def pieces(line: str) -> Iterator[tuple[int, int, str]]:
    """Words, or what is of one width in them: where they start, how wide they are."""
    column = 0
    for wide, group in groupby(line, key=lambda one: 0 if one == " " else width(one)):
        text = "".join(group)
        if wide:
            yield column, cells(text), text
        column += cells(text)


def drawn(lines: list[tuple[str, str]]) -> str:
    """An SVG picture; every piece is as wide as its columns, whatever font shows it."""
    columns = max(cells(line) for _, line in lines)
    wide, high = round(columns * CELL) + 2 * MARGIN, len(lines) * LINE + 2 * MARGIN
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{wide}" height="{high}"'
        f' viewBox="0 0 {wide} {high}" role="img">',
        f"<style>{STYLE}</style>",
        f'<rect width="{wide}" height="{high}" rx="8" fill="#1b2027"/>',
    ]
    for number, (kind, line) in enumerate(lines):
        y = MARGIN + number * LINE + SIZE
        for column, covered, text in pieces(line):
            shown = ["prompt" if kind and text == "$" else kind, "wide" * (covered > len(text))]
            classes = " ".join(filter(None, shown))
            parts.append(
                f'<text x="{MARGIN + column * CELL:.1f}" y="{y}" textLength="{covered * CELL:.1f}"'
                f' class="{classes}">{escape(text)}</text>'
            )
    return "\n".join([*parts, "</svg>", ""])


def main() -> None:
    """Run the commands and draw them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, default=DOCS)
    folder = parser.parse_args().folder
    for name, commands in PICTURES.items():
        (folder / name).write_text(drawn(screen(commands)), encoding="utf-8")
        print(folder / name)


if __name__ == "__main__":
    main()
