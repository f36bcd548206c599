"""Data sets in Korean as tasks read them: entities by morphemes, parts of our own.

    python -m runs.korean_data

Writes checkpoints/korean-data; nothing there is to be passed on. Of KLUE-NER and KorQuAD there is
the dev part alone. Of ten of its sentences, or articles, in their order, the first two are test,
the third is dev, the others are trained on.

- KLUE-NER has a tag for each character. Its sentences are split by Kiwi. An entity is the morphemes
  from the first that starts where it starts to the first that ends where it ends. Where a morpheme
  goes on across its start or end, the entity is lost: its morphemes are `O`. How many are lost is
  printed.
- KLP2016 has morphemes and parts of its own, which stay. `I` gets the type of the `B_` before it.
  Letters of endings are spelt as Kiwi spells them.
- KLUE-NLI becomes JSON lines.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar

from elmokit.io.files import write_atomically
from elmokit.io.text_files import Line, paragraphs, read_lines, read_text
from elmokit.tasks.tags import OUTSIDE, LabelledSpan, spans, write_tags
from elmokit.text.korean import KiwiTokenizer
from elmokit.text.tokenizer import Token
from runs.task_rows import CONVERTED, DATA

Item = TypeVar("Item")

PARTS = ("train", "dev", "test")
OF_TEN = ("test", "test", "dev", *["train"] * 7)
KIWI_LETTERS = str.maketrans("ㄴㄹㅁㅂ", "\u11ab\u11af\u11b7\u11b8")
"""Kiwi has a letter that ends the syllable before as such: in 간다, 가 and ᆫ다."""
KIWI_ENDINGS = str.maketrans("아았", "어었")
"""Kiwi has one form of endings that follow the vowel before."""


Sentence = Iterable[tuple[str, str]]
"""Words and their tags."""


def main() -> None:
    """Write everything; print how many entities are lost."""
    for part, sentences in cut(list(klue_sentences(counts := Counter[str]()))).items():
        write_columns(CONVERTED / f"klue-ner.{part}.conll", sentences)
    for part in PARTS:
        lines = read_lines(DATA / f"ko-ner-klp2016/ner.{part}.gz")
        write_columns(CONVERTED / f"klp2016.{part}.conll", map(klp_sentence, paragraphs(lines)))
    korquad = json_of("ko-korquad/KorQuAD_v1.0_dev.json.gz")
    for part, articles in cut(korquad["data"]).items():
        write(CONVERTED / f"korquad.{part}.json", json.dumps({"data": articles}))
    pairs = json_of("ko-klue/klue-nli-v1.1_dev.json.gz")
    write(CONVERTED / "klue-nli.jsonl", "".join(json.dumps(pair) + "\n" for pair in pairs))
    print(f"KLUE-NER: lost are {counts['lost']:,} of {counts['all']:,} entities")


def cut(items: Sequence[Item]) -> dict[str, list[Item]]:
    """The parts of what has none."""
    return {
        part: [item for number, item in enumerate(items) if OF_TEN[number % 10] == part]
        for part in PARTS
    }


def json_of(file: str) -> Any:
    """What a file of JSON holds."""
    return json.loads(read_text(DATA / file))


def klue_sentences(counts: Counter[str]) -> Iterator[Sentence]:
    """The sentences of KLUE-NER; `counts` gets how many entities there are, and are lost."""
    tokenizer = KiwiTokenizer()
    for lines in paragraphs(read_lines(DATA / "ko-klue/klue-ner-v1.1_dev.tsv.gz")):
        rows = [line.text.split("\t") for line in lines if not line.text.startswith("## ")]
        text = "".join(character for character, _ in rows)
        words = tokenizer.words(text)
        entities = spans([tag for _, tag in rows])
        found = [place for entity in entities if (place := in_words(entity, text, words))]
        counts.update(all=len(entities), lost=len(entities) - len(found))
        tags = write_tags(found, len(words), "BIO")
        yield zip((word.text for word in words), tags, strict=True)


def in_words(entity: LabelledSpan, text: str, words: Sequence[Token]) -> LabelledSpan | None:
    """An entity of characters counted in words, spaces around it apart; None if it is lost.

    >>> words = [Token("서울", 0, 2), Token("시장", 3, 5)]
    >>> in_words(LabelledSpan("LC", 0, 3), "서울 시장", words)
    LabelledSpan(type='LC', start=0, end=1)
    >>> in_words(LabelledSpan("LC", 0, 4), "서울 시장", words)
    """
    start, end = entity.start, entity.start + len(text[entity.start : entity.end].rstrip())
    start = end - len(text[start:end].lstrip())
    first = next((n for n, word in enumerate(words) if word.start == start), len(words))
    last = next((n for n in range(first, len(words)) if words[n].end == end), None)
    return None if last is None else LabelledSpan(entity.type, first, last + 1)


def klp_sentence(lines: Sequence[Line]) -> Sentence:
    """A sentence of KLP2016."""
    type = ""
    for line in lines:
        if not line.text.startswith((";", "$")):
            _, word, part_of_speech, tag = line.text.split("\t")
            mark, _, named = tag.partition("_")
            type = named or type
            yield as_kiwi(word, part_of_speech), tag if mark == OUTSIDE else f"{mark}-{type}"


def as_kiwi(word: str, part_of_speech: str) -> str:
    """A morpheme of KLP2016, spelt as Kiwi spells it.

    >>> as_kiwi("았", "EP"), as_kiwi("아", "JKV"), as_kiwi("사과", "NNG")
    ('었', '아', '사과')
    """
    first = word[0].translate(KIWI_ENDINGS if part_of_speech.startswith("E") else {})
    return first.translate(KIWI_LETTERS) + word[1:]


def write_columns(path: Path, sentences: Iterable[Sentence]) -> None:
    """Write a word and its tag on each line, a blank line after each sentence."""
    rows = ("".join(f"{word}\t{tag}\n" for word, tag in sentence) for sentence in sentences)
    write(path, "\n".join(rows))


def write(path: Path, text: str) -> None:
    """Write a file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with write_atomically(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
