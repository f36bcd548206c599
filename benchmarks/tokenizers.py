"""How well and how fast tokenizers split raw text: the default one and whatever else is installed.

    python benchmarks/tokenizers.py [--split dev|test] [--data ../shared/data]

Sentences of a paragraph of UD English EWT are joined by a blank and split again. A word counts as
found when both its ends agree, a sentence when its last character does (the last sentence of a
paragraph, which nobody can miss, does not count). EWT cuts `well-known` in three, the Penn Treebank
does not: the second column joins what EWT cut at hyphens and slashes. The third splits the words of
CoNLL-2003, already blank-separated, once more: what is lost there is cut where that data is whole.
`Korean` and `1 MB line` are seconds for 100,000 words of Wikipedia and for a line of Chinese
without a blank, stopped after a minute.

Candidates: pip install spacy syntok nupunkt
"""

from __future__ import annotations

import argparse
import gzip
import lzma
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

Span = tuple[int, int]
Split = Callable[[str], list[list[Span]]]
LONG_LINE = "今天天气很好我们去公园散步吧。" * 70_000
PATIENCE = 60


class Paragraph(NamedTuple):
    """Raw text, and where its words and its sentences are."""

    text: str
    words: list[Span]
    sentences: list[Span]


class Candidate(NamedTuple):
    """A way to split text, and the modules that are imported for it."""

    modules: tuple[str, ...]
    make: Callable[[], Split]


def elmokit_tokenizer(name: str) -> Split:
    """One of our own."""
    tokenizer = import_module("elmokit.text.tokenizer").load_tokenizer(name)
    return lambda text: [
        [(token.start, token.end) for token in sentence] for sentence in tokenizer.sentences(text)
    ]


def spacy_tokenizer(cut_hyphens: bool) -> Split:
    """A blank English pipeline with the rule-based sentencizer."""
    spacy = import_module("spacy")
    pipeline = spacy.blank("en")
    pipeline.add_pipe("sentencizer")
    if not cut_hyphens:
        infixes = [rule for rule in pipeline.Defaults.infixes if "|--|---|" not in rule]
        pipeline.tokenizer.infix_finditer = spacy.util.compile_infix_regex(infixes).finditer
    return lambda text: [
        [(token.idx, token.idx + len(token)) for token in sentence if not token.is_space]
        for sentence in pipeline(text).sents
    ]


def syntok_tokenizer() -> Split:
    """Words and sentences of syntok."""
    analyze = import_module("syntok.segmenter").analyze
    return lambda text: [
        [(token.offset, token.offset + len(token.value)) for token in sentence if token.value]
        for paragraph in analyze(text)
        for sentence in paragraph
    ]


def nupunkt_tokenizer() -> Split:
    """Sentences of nupunkt, words of NLTK."""
    sentence_spans = import_module("nupunkt").load("default").spans
    word_spans = import_module("nltk.tokenize").NLTKWordTokenizer().span_tokenize
    return lambda text: [
        [(start + first, start + last) for first, last in word_spans(text[start:end])]
        for start, end in sentence_spans(text)
    ]


CANDIDATES = {
    "elmokit default": Candidate(
        ("nltk.tokenize", "sentencex"), lambda: elmokit_tokenizer("default")
    ),
    "elmokit whitespace": Candidate((), lambda: elmokit_tokenizer("whitespace")),
    "spaCy": Candidate(("spacy",), lambda: spacy_tokenizer(cut_hyphens=True)),
    "spaCy, hyphens kept": Candidate(("spacy",), lambda: spacy_tokenizer(cut_hyphens=False)),
    "syntok": Candidate(("syntok.segmenter",), syntok_tokenizer),
    "nupunkt + NLTK": Candidate(("nupunkt", "nltk.tokenize"), nupunkt_tokenizer),
}


def read_paragraphs(path: Path) -> Iterator[Paragraph]:
    """The paragraphs of a CoNLL-U file."""
    paragraph = Paragraph("", [], [])
    for block in gzip.decompress(path.read_bytes()).decode().split("\n\n"):
        lines = block.splitlines()
        if any(line.startswith(("# newdoc", "# newpar")) for line in lines) and paragraph.text:
            yield paragraph
            paragraph = Paragraph("", [], [])
        fields = [line.split("\t") for line in lines if line[:1].isdigit()]
        forms = [field[1] for field in fields if field[0].isdigit()]
        for line in lines:
            if line.startswith("# text = "):
                paragraph = with_sentence(paragraph, line.removeprefix("# text = "), forms)
    yield paragraph


def with_sentence(paragraph: Paragraph, sentence: str, forms: list[str]) -> Paragraph:
    """The paragraph with one more sentence."""
    text = f"{paragraph.text} {sentence}".strip()
    place = len(text) - len(sentence)
    words = []
    for form in forms:
        place = text.index(form, place)
        words.append((place, place + len(form)))
        place += len(form)
    span = (words[0][0], words[-1][1])
    return Paragraph(text, paragraph.words + words, [*paragraph.sentences, span])


def joined(text: str, words: list[Span]) -> list[Span]:
    """Words with what was cut around a hyphen or slash between letters put together again."""
    found = [words[0]]
    for start, end in words[1:]:
        before, after = text[found[-1][0] : found[-1][1]], text[start:end]
        next_is_letter = text[end : end + 1].isalnum()
        opens = after in ("-", "/") and before[-1].isalnum() and next_is_letter
        closes = before[-1] in "-/" and len(before) > 1 and after[0].isalnum()
        if found[-1][1] == start and (opens or closes):
            found[-1] = (found[-1][0], end)
        else:
            found.append((start, end))
    return found


def read_conll2003(path: Path) -> Iterator[Paragraph]:
    """The sentences of a CoNLL-2003 file, words joined by whitespace."""
    for block in gzip.decompress(path.read_bytes()).decode().split("\n\n"):
        forms = [line.split()[0] for line in block.splitlines() if line.strip()]
        if forms and forms[0] != "-DOCSTART-":
            yield with_sentence(Paragraph("", [], []), " ".join(forms), forms)


def f1(gold: set[Span], found: set[Span]) -> float:
    """Percent."""
    return 200 * len(gold & found) / (len(gold) + len(found))


def spans_in_order(spans_of_each: list[list[Span]]) -> set[Span]:
    """Spans of many paragraphs as one set: starts are shifted so that paragraphs stay apart."""
    shift = 1 << 32
    return {
        (number * shift + start, end)
        for number, spans in enumerate(spans_of_each)
        for start, end in spans
    }


def word_f1(gold: list[list[Span]], splits: list[list[list[Span]]]) -> float:
    """F1 of words, both ends right."""
    found = [[word for sentence in split for word in sentence] for split in splits]
    return f1(spans_in_order(gold), spans_in_order(found))


def sentence_f1(paragraphs: list[Paragraph], splits: list[list[list[Span]]]) -> float:
    """F1 of the ends of sentences, the paragraph's own end left out."""
    gold, found = [], []
    for paragraph, split in zip(paragraphs, splits, strict=True):
        last = paragraph.sentences[-1][1]
        gold.append([(end, end) for _, end in paragraph.sentences if end != last])
        ends = [sentence[-1][1] for sentence in split if sentence]
        found.append([(end, end) for end in ends if end != last])
    return f1(spans_in_order(gold), spans_in_order(found))


def import_milliseconds(modules: tuple[str, ...]) -> float:
    """Best of three in a fresh interpreter."""
    code = f"""
import time, importlib
start = time.perf_counter()
for module in {modules!r}: importlib.import_module(module)
print(time.perf_counter() - start)
"""
    return 1000 * min(
        float(subprocess.run([sys.executable, "-c", code], capture_output=True, check=True).stdout)
        for _ in range(3)
    )


def seconds(split: Split, texts: list[str]) -> float:
    """For all texts together."""
    start = time.perf_counter()
    for text in texts:
        split(text)
    return time.perf_counter() - start


def seconds_for_long_line(name: str) -> str:
    """In a process of its own, since some never come back."""
    command = [sys.executable, __file__, "--long-line", name]
    try:
        done = subprocess.run(command, capture_output=True, timeout=PATIENCE, text=True)
    except subprocess.TimeoutExpired:
        return f"> {PATIENCE}"
    return done.stdout.strip() if done.returncode == 0 else "fails"


def row(name: str, split: Split, data: Path, part: str) -> list[str]:
    """All numbers of one candidate."""
    ewt = list(read_paragraphs(data / "ud-ewt" / f"en_ewt-ud-{part}.conllu.gz"))
    conll_file = data / "conll2003" / f"eng.test{'a' if part == 'dev' else 'b'}.gz"
    conll = list(read_conll2003(conll_file))
    with lzma.open(data / "pretrain-ko" / "kowiki.heldout.txt.xz", "rt", encoding="utf-8") as file:
        korean = list(file)
    split("Warm up.")
    start = time.perf_counter()
    splits = [split(paragraph.text) for paragraph in ewt]
    elapsed = time.perf_counter() - start
    words = [paragraph.words for paragraph in ewt]
    joined_words = [joined(paragraph.text, paragraph.words) for paragraph in ewt]
    conll_splits = [split(sentence.text) for sentence in conll]
    return [
        f"{word_f1(words, splits):.2f}",
        f"{word_f1(joined_words, splits):.2f}",
        f"{word_f1([sentence.words for sentence in conll], conll_splits):.2f}",
        f"{sentence_f1(ewt, splits):.2f}",
        f"{sum(map(len, words)) / elapsed:,.0f}",
        f"{seconds(split, korean):.1f}",
        seconds_for_long_line(name),
        f"{import_milliseconds(CANDIDATES[name].modules):.0f}",
    ]


def main() -> None:
    """Print the table."""
    shared = Path(__file__).resolve().parents[1].parent / "shared" / "data"
    parser = argparse.ArgumentParser(description="compare tokenizers")
    parser.add_argument("--split", choices=["dev", "test"], default="test", help="part of the data")
    parser.add_argument("--data", type=Path, default=shared, help="folder of the data sets")
    parser.add_argument("--long-line", metavar="NAME", help="only time NAME on the 1 MB line")
    options = parser.parse_args()
    if options.long_line:
        print(f"{seconds(CANDIDATES[options.long_line].make(), [LONG_LINE]):.1f}")
        return
    print(
        "| tokenizer | EWT word F1 | hyphens joined | CoNLL word F1 | sentence F1 "
        "| words/s | Korean s | 1 MB line s | import ms |"
    )
    print("|---" * 9 + "|")
    for name, candidate in CANDIDATES.items():
        if all(find_spec(module.split(".")[0]) for module in candidate.modules):
            numbers = row(name, candidate.make(), options.data, options.split)
            print("| " + " | ".join([name, *numbers]) + " |", flush=True)


if __name__ == "__main__":
    main()
