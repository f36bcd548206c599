# ruff: noqa: RUF001
"""Draw the architecture of ELMo: `python -m runs.architecture_picture`.

One drawing, in English and in Korean, for the documents and for the explorer page: characters, CNN,
highway, projection, two LSTMs of two layers, layers, mix. It brings its own background, so that it
can be read on a light page and on a dark one.
"""

from __future__ import annotations

from html import escape
from itertools import pairwise
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
PICTURES = {
    "en": (
        ROOT / "docs" / "tutorials" / "pictures" / "architecture.svg",
        ROOT / "elmokit" / "service" / "page" / "architecture-en.svg",
    ),
    "ko": (
        ROOT / "docs" / "ko" / "tutorials" / "pictures" / "architecture.svg",
        ROOT / "elmokit" / "service" / "page" / "architecture-ko.svg",
    ),
}
"""Where the drawing of each language is written."""
TEXTS: dict[str, dict[str, Any]] = {
    "en": {
        "title": "How ELMo makes a vector of the word “bank” in its sentence",
        "description": (
            "From the bottom: the characters of the word, a CNN, a highway and a projection make a "
            "token vector, layer 0. A forward and a backward LSTM of two layers read all words of "
            "the sentence, layers 1 and 2. The layers are mixed with learned weights."
        ),
        "words": ("The", "river", "bank"),
        "letters": ("b", "a", "n", "k"),
        "mix": "vector of “bank” = γ ( s₀ x + s₁ h₁ + s₂ h₂ )",
        "learned": "a task learns s and γ",
        "layer": "layer {}",
        "forward": "forward LSTM",
        "backward": "backward LSTM",
        "token": "word alone",
        "characters": "characters",
        "characters_note": "a vector each",
        "filters": "CNN",
        "filters_note": ("filters of several widths,", "the maximum over places"),
        "highway": "highway",
        "projection": "projection",
        "same": ("the same for", "every word"),
    },
    "ko": {
        "title": "ELMo가 문장 속 단어 ‘배’의 벡터를 만드는 과정",
        "description": (
            "아래부터 차례로, 단어의 문자가 CNN과 하이웨이, 투영을 거쳐 토큰 벡터가 됩니다(0층). "
            "두 층짜리 순방향 LSTM과 역방향 LSTM이 문장의 모든 단어를 읽습니다(1층과 2층). "
            "마지막으로 학습된 가중치로 층을 섞습니다."
        ),
        "words": ("바다", "의", "배"),
        "letters": ("EB", "B0", "B0"),
        "mix": "‘배’의 벡터 = γ ( s₀ x + s₁ h₁ + s₂ h₂ )",
        "learned": "s와 γ는 태스크가 학습합니다",
        "layer": "{}층",
        "forward": "순방향 LSTM",
        "backward": "역방향 LSTM",
        "token": "단어 자체",
        "characters": "문자 (바이트)",
        "characters_note": "바이트마다 벡터 하나",
        "filters": "CNN",
        "filters_note": ("너비가 다른 필터들,", "자리마다의 값 중 최댓값"),
        "highway": "하이웨이",
        "projection": "투영",
        "same": ("다른 단어도", "똑같은 과정"),
    },
}
STYLE = """
.paper{fill:#fbfaf7;stroke:#e2dfd7}.band{fill:#f1efe9}.chosen{fill:#dcebe8}
.box{fill:#fff;stroke:#8b8e8c}.forward{fill:#d5ebe8;stroke:#0b6e69}.backward{fill:#fbe6cf;stroke:#a85408}
.wire{fill:none;stroke:#6c7073;stroke-width:1.4}.wf{stroke:#0b6e69}.wb{stroke:#a85408}
.head{fill:#6c7073}.hf{fill:#0b6e69}.hb{fill:#a85408}
.mix{fill:none;stroke:#7a4fa3;stroke-width:2.2}.key{fill:#ece3f5;stroke:#7a4fa3;stroke-width:1.4}
text{font:14px system-ui,-apple-system,"Segoe UI","Noto Sans KR","Apple SD Gothic Neo",NanumGothic,sans-serif;
text-anchor:middle;dominant-baseline:central;fill:#1c1f22}
.note{font-size:12px;fill:#585d62}.start{text-anchor:start}.end{text-anchor:end}.strong{font-weight:650}.tf{fill:#0b5d59}.tb{fill:#8a4506}
@media (prefers-color-scheme:dark){
.paper{fill:#1b1f23;stroke:#2d3338}.band{fill:#24292e}.chosen{fill:#213b3a}
.box{fill:#14171a;stroke:#8b9298}.forward{fill:#163a38;stroke:#6fd0c6}.backward{fill:#45300f;stroke:#f0b26b}
.wire{stroke:#a0a6ab}.wf{stroke:#6fd0c6}.wb{stroke:#f0b26b}.head{fill:#a0a6ab}.hf{fill:#6fd0c6}.hb{fill:#f0b26b}
.mix{stroke:#c3a3e6}.key{fill:#372a49;stroke:#c3a3e6}
text{fill:#ebe9e4}.note{fill:#b4b9bd}.tf{fill:#8fe0d7}.tb{fill:#f5c68f}}
"""  # noqa: E501
Words = dict[str, Any]
WIDTH, HEIGHT = 780, 636
COLUMNS = (232, 402, 572)  # where each word stands
APART = 30  # between the middle of a word and its cell of each direction
CELL = 52, 30
MIX, TOP, FIRST, TOKENS, SPELLING = 46, 160, 296, 408, 514
"""Where the mix, the middle of each layer, and the encoder of a word's characters stand."""
ROW = 24  # from the middle of a layer to the row of a direction
FILTERS = (10, 14, 20, 27, 35, 44)  # how tall the bars are


def text(x: float, y: float, words: str, kind: str = "") -> str:
    """Words around a place."""
    name = f' class="{kind}"' if kind else ""
    return f'<text x="{x:g}" y="{y:g}"{name}>{escape(words, quote=False)}</text>'


def box(x: float, y: float, width: float, height: float, kind: str = "box") -> str:
    """A box around a place."""
    left, top = x - width / 2, y - height / 2
    return (
        f'<rect x="{left:g}" y="{top:g}" width="{width:g}" height="{height:g}" rx="6" '
        f'class="{kind}"/>'
    )


def arrow(x: float, y: float, to_x: float, to_y: float, hue: str = "") -> str:
    """A straight arrow, along an axis."""
    right, down = (to_x > x) - (to_x < x), (to_y > y) - (to_y < y)
    back, aside = 7, 4
    ends = [
        (to_x, to_y),
        (to_x - right * back - down * aside, to_y - down * back - right * aside),
        (to_x - right * back + down * aside, to_y - down * back + right * aside),
    ]
    points = " ".join(f"{one:g},{other:g}" for one, other in ends)
    end = f"{to_x - right * back:g} {to_y - down * back:g}"
    wire, head = f"wire w{hue}" if hue else "wire", f"head h{hue}" if hue else "head"
    return (
        f'<path class="{wire}" d="M{x:g} {y:g}L{end}"/><polygon class="{head}" points="{points}"/>'
    )


def band(middle: float, height: float) -> str:
    """What lies behind a layer."""
    return box(WIDTH / 2 - 24, middle, WIDTH - 96, height, "band")


def lstm_layer(words: Words, number: int, y: float, below: float) -> list[str]:
    """A layer of both LSTMs over all words, which reads what is at `below`."""
    up, down = y - ROW, y + ROW
    parts = [
        text(46, y - 24, words["layer"].format(number), "start strong"),
        text(46, y, f"→ {words['forward']}", "note start tf"),
        text(46, y + 20, f"← {words['backward']}", "note start tb"),
    ]
    for place in COLUMNS:
        for x, row, kind, hue in (
            (place - APART, up, "forward", "f"),
            (place + APART, down, "backward", "b"),
        ):
            from_row = below - CELL[1] / 2 + (row - y if number > 1 else 0)
            parts.append(arrow(x, from_row, x, row + CELL[1] / 2, hue))
            parts.append(box(x, row, *CELL, kind))
            parts.append(text(x, row, f"h{'₀₁₂'[number]}{'→' if hue == 'f' else '←'}"))
    for left, right in pairwise(COLUMNS):
        half = CELL[0] / 2
        parts.append(arrow(left - APART + half, up, right - APART - half, up, "f"))
        parts.append(arrow(right + APART - half, down, left + APART + half, down, "b"))
    return parts


def token_layer(words: Words, names: tuple[str, ...], chosen: int) -> list[str]:
    """Layer 0: the token vector of each word."""
    parts = [
        text(46, TOKENS - 10, words["layer"].format(0), "start strong"),
        text(46, TOKENS + 11, words["token"], "note start"),
    ]
    for n, (x, name) in enumerate(zip(COLUMNS, names, strict=True)):
        parts.append(box(x, TOKENS, 112, 32))
        parts.append(text(x, TOKENS, f"x · {name}", "strong" if n == chosen else ""))
    return parts


def encoder(words: Words, letters: tuple[str, ...], above: float) -> list[str]:
    """From the characters of a word to its token vector, which stands at `above`."""
    y = SPELLING
    parts = [box(WIDTH / 2, y + 22, WIDTH - 48, 148, "band")]
    first = 64
    for n, letter in enumerate(letters):
        parts += [box(first + 34 * n, y, 30, 30), text(first + 34 * n, y, letter)]
    last = first + 34 * (len(letters) - 1)
    middle = (first + last) / 2
    parts += [
        text(middle, y + 40, words["characters"]),
        text(middle, y + 58, words["characters_note"], "note"),
        arrow(last + 22, y, 232, y),
    ]
    for n, height in enumerate(FILTERS):
        left, top = 244 + 17 * n, y - height / 2
        parts.append(
            f'<rect x="{left}" y="{top:g}" width="12" height="{height}" rx="2" class="key"/>'
        )
    parts += [
        text(292, y + 40, words["filters"]),
        *(text(292, y + 58 + 16 * n, line, "note") for n, line in enumerate(words["filters_note"])),
        arrow(352, y, 396, y),
        box(442, y, 92, 34),
        text(442, y, words["highway"]),
        arrow(488, y, above - 54, y),
        box(above, y, 108, 34),
        text(above, y, words["projection"]),
        *(
            text(above + 68, y - 8 + 16 * n, line, "note start")
            for n, line in enumerate(words["same"])
        ),
        arrow(above, y - 17, above, TOKENS + 16),
    ]
    return parts


def mix(words: Words, chosen: float) -> list[str]:
    """The mix of the layers of one word, and a line to it from each."""
    parts = []
    for n, (y, share) in enumerate(((TOP, "s₂"), (FIRST, "s₁"), (TOKENS, "s₀"))):
        bus = 690 + 22 * n
        parts.append(f'<path class="mix" d="M{chosen + 76:g} {y}H{bus}V{MIX + 24}"/>')
        parts.append(text(bus - 12 if n == 0 else bus - 11, y - 12, share, "note"))
    return [
        *parts,
        box(570, MIX, 372, 44, "key"),
        text(570, MIX, words["mix"], "strong"),
        text(372, MIX, words["learned"], "note end"),
    ]


def picture(language: str) -> str:
    """The drawing, as SVG."""
    words = TEXTS[language]
    names, letters = words["words"], words["letters"]
    chosen = 2
    x = COLUMNS[chosen]
    above, below = TOP - ROW - 34, TOKENS + 30
    parts = [
        f'<rect x="1" y="1" width="{WIDTH - 2}" height="{HEIGHT - 2}" rx="12" class="paper"/>',
        *(band(y, height) for y, height in ((TOP, 104), (FIRST, 104), (TOKENS, 56))),
        box(x, (above + below) / 2, 152, below - above, "chosen"),
        *mix(words, x),
        *lstm_layer(words, 2, TOP, FIRST),
        *lstm_layer(words, 1, FIRST, TOKENS),
        *token_layer(words, names, chosen),
        *encoder(words, letters, x),
    ]
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" '
        f'width="{WIDTH}" height="{HEIGHT}" role="img" lang="{language}">\n'
        f"<title>{escape(words['title'])}</title>\n<desc>{escape(words['description'])}</desc>\n"
        f"<style>{STYLE}</style>\n" + "\n".join(parts) + "\n</svg>\n"
    )


def main() -> None:
    """Write the drawings."""
    for language, paths in PICTURES.items():
        for path in paths:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(picture(language), encoding="utf-8")


if __name__ == "__main__":
    main()
