"""Real sentences to measure with."""

from __future__ import annotations

import gzip
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[1]
WIKITEXT = REPOSITORY.parent / "shared/data/wikitext-2/wiki.valid.tokens.gz"


def real_sentences(count: int) -> tuple[str, list[list[str]]]:
    """Where the text is from, and `count` sentences of it in the order of the file."""
    if WIKITEXT.exists():
        name, sentences = "wikitext-2 valid", wikitext_sentences()
    else:
        name, sentences = "this repository's documents", own_sentences()
    while len(sentences) < count:
        sentences = sentences * 2
    return name, sentences[:count]


def wikitext_sentences() -> list[list[str]]:
    """Its paragraphs, cut after every full stop; headings left out."""
    sentences = []
    with gzip.open(WIKITEXT, "rt", encoding="utf-8") as lines:
        for line in lines:
            if not line.strip() or line.startswith(" = "):
                continue
            sentences += [f"{part} .".split() for part in line.split(" . ") if part.strip()]
    return sentences


def own_sentences() -> list[list[str]]:
    """The English of the repository's own documents, with the default tokenizer."""
    from elmokit.text.tokenizer import load_tokenizer

    paths = [REPOSITORY / "LICENSE", *sorted(REPOSITORY.glob("*.md"))]
    text = "\n\n".join(path.read_text(encoding="utf-8") for path in paths)
    split = load_tokenizer("default").sentences(text)
    return [[token.text for token in sentence] for sentence in split]
