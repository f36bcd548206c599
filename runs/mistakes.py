"""Do a sentence's vectors outlast typing mistakes: letters, and spaces too few or too many?

    python -m runs.mistakes --model checkpoints/english-small/model --text HELD-OUT
    python -m runs.mistakes --model checkpoints/korean-small/model --text HELD-OUT

Sentences of a raw text, no two the same, get mistakes in a third of their words or spaces, of every
kind in turn, drawn by a seed. Words kept: the share of words that both readings have. The others:
how near the vector stays to that of the sentence as it was, 100 % being the same vector and 0 % as
far as sentences that have nothing to do with each other are on average. The vector is the mean over
words of layer 0, which reads characters alone, of the average of all layers, or of word2vec.
"""

from __future__ import annotations

import argparse
import random
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import chain, islice

import numpy as np

from benchmarks.machine import command_line, one_line_errors, table
from elmokit.bundled import ENGLISH_SMALL_WORD2VEC, KOREAN_SMALL_WORD2VEC
from elmokit.errors import InputError
from elmokit.inference.embedder import Embedder, Vectors
from elmokit.io.text_files import find_files, read_lines
from elmokit.static.vectors import StaticVectors, unit
from elmokit.text.tokenizer import Tokenizer

SEED = 0
WORDS = range(6, 31)  # of the sentences that are taken
LEAST_LETTERS = 4
PART = 3  # one in so many words or spaces is wrong
FIRST_SYLLABLE, LAST_SYLLABLE, FINALS = ord("가"), ord("힣"), 28

Mistake = Callable[[str, random.Random], str]


def sentences_of(lines: Iterable[str], tokenizer: Tokenizer) -> Iterator[str]:
    """The sentences of raw lines as they are written, those of a middling length."""
    for line in lines:
        for tokens in tokenizer.sentences(line):
            text = line[tokens[0].start : tokens[-1].end] if tokens else ""
            if len(text.split()) in WORDS:
                yield text


def swapped(word: str, place: int) -> str:
    """Two letters in each other's place."""
    return word[:place] + word[place + 1] + word[place] + word[place + 2 :]


def doubled(word: str, place: int) -> str:
    """A letter written twice."""
    return word[: place + 1] + word[place:]


def dropped(word: str, place: int) -> str:
    """A letter left out."""
    return word[:place] + word[place + 1 :]


def another_final(word: str, place: int) -> str:
    """A syllable of Hangul with the next final consonant, or with one where it has none."""
    code = ord(word[place]) - FIRST_SYLLABLE
    final = code % FINALS
    return (
        word[:place] + chr(FIRST_SYLLABLE + code - final + (final + 1) % FINALS) + word[place + 1 :]
    )


def is_plain(word: str, hangul: bool) -> bool:
    """Whether all of a word are letters, or syllables of Hangul."""
    if hangul:
        return all(FIRST_SYLLABLE <= ord(letter) <= LAST_SYLLABLE for letter in word)
    return word.isascii() and word.isalpha()


def a_third(places: Sequence[int], numbers: random.Random) -> set[int]:
    """A third of some places, one at least of those that there are."""
    return set(numbers.sample(places, -(-len(places) // PART)))


def in_words(change: Callable[[str, int], str], least: int, hangul: bool) -> Mistake:
    """A change of words of at least so many letters, of long ones not at their ends."""

    def changed(text: str, numbers: random.Random) -> str:
        words = text.split(" ")
        fit = [n for n, word in enumerate(words) if len(word) >= least and is_plain(word, hangul)]
        for number in sorted(a_third(fit, numbers)):
            place = numbers.randrange(min(1, least - 2), len(words[number]) - 1)
            words[number] = change(words[number], place)
        return " ".join(words)

    return changed


def spaces_left_out(text: str, numbers: random.Random) -> str:
    """Words written as one."""
    words = text.split(" ")
    glued = a_third(range(1, len(words)), numbers)
    return "".join(word if n == 0 or n in glued else f" {word}" for n, word in enumerate(words))


def no_spaces(text: str, numbers: random.Random) -> str:
    """All words written as one."""
    del numbers
    return text.replace(" ", "")


def split_word(word: str, place: int) -> str:
    """A word written as two."""
    return f"{word[: place + 1]} {word[place + 1 :]}"


def mistakes_of(hangul: bool) -> dict[str, Mistake]:
    """The kinds of mistakes, in Korean or in English."""
    least = 2 if hangul else LEAST_LETTERS
    changing = partial(in_words, hangul=hangul)
    kinds: dict[str, Mistake] = {
        "two letters swapped": changing(swapped, least),
        "a letter doubled": changing(doubled, least),
        "a letter dropped": changing(dropped, max(least, 3)),
        "spaces left out": spaces_left_out,
        "spaces too many": changing(split_word, least),
        "no spaces at all": no_spaces,
    }
    if hangul:
        kinds["another final consonant"] = changing(another_final, least)
    return kinds


def share_kept(before: Sequence[str], after: Sequence[str]) -> float:
    """How many words two readings have in common, of those of both: 1 where they are the same.

    >>> share_kept(["a", "b", "c"], ["a", "bc"])
    0.4
    """
    common = (Counter(before) & Counter(after)).total()
    return 2 * common / (len(before) + len(after))


def nearness(clean: Vectors, changed: Vectors, rows: Sequence[int]) -> float:
    """How near changed texts (rows, size) stay to their own of (texts, size), beside any others."""
    clean, changed = unit(clean), unit(changed)
    others = clean @ clean.T
    far = float((others.sum() - np.trace(others)) / (others.size - len(others)))
    own = float((clean[list(rows)] * changed).sum(1).mean())
    return (own - far) / (1 - far)


Encode = Callable[[Sequence[str]], Vectors]


def measure(
    embedder: Embedder, static: StaticVectors, texts: Sequence[str], hangul: bool
) -> Iterator[list[str]]:
    """A row for each kind of mistake."""
    ways: list[Encode] = [
        lambda some: embedder.encode(some, layers=0),
        lambda some: embedder.encode(some, layers="average"),
        static.encode,
    ]
    clean = [encode(texts) for encode in ways]
    words = [list(chain.from_iterable(embedder.split(text))) for text in texts]
    for kind, mistake in mistakes_of(hangul).items():
        numbers = random.Random(f"{SEED} {kind}")
        changed = [mistake(text, numbers) for text in texts]
        rows = [number for number, text in enumerate(texts) if changed[number] != text]
        if not rows:
            raise InputError(f"no sentence has a word for this mistake: {kind}; take more of them")
        read = [list(chain.from_iterable(embedder.split(changed[row]))) for row in rows]
        kept = sum(share_kept(words[row], one) for row, one in zip(rows, read, strict=True))
        near = [
            nearness(vectors, encode([changed[row] for row in rows]), rows)
            for encode, vectors in zip(ways, clean, strict=True)
        ]
        shares = [kept / len(rows), *near]
        yield [kind, f"{len(rows):,}", *(f"{share:.1%}" for share in shares)]


@one_line_errors()
def main(arguments: Sequence[str] | None = None) -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", help="a model folder; without it, the bundled model")
    parser.add_argument("--text", required=True, metavar="FILE", help="raw text")
    parser.add_argument("--sentences", type=int, default=1000)
    given = parser.parse_args(arguments)
    embedder = Embedder.load(given.model)
    korean = embedder.tokenizer.name == "kiwi"
    static = StaticVectors.load(KOREAN_SMALL_WORD2VEC if korean else ENGLISH_SMALL_WORD2VEC)
    lines = chain.from_iterable(read_lines(path) for path in find_files([given.text]))
    found = sentences_of((line.text for line in lines), embedder.tokenizer)
    texts = list(dict.fromkeys(islice(found, given.sentences)))
    if len(texts) < 2:
        raise InputError(
            f"{given.text}: has fewer than two sentences of {WORDS[0]} to {WORDS[-1]} words"
        )
    rows = measure(embedder, static, texts, korean)
    header = [
        "mistake",
        "sentences",
        "words kept",
        "layer 0",
        "average",
        "word2vec",
    ]
    print(table(header, rows))
    print(f"\nAmong {len(texts):,} sentences.")
    print("\n" + command_line("runs.mistakes", arguments))


if __name__ == "__main__":
    main()
