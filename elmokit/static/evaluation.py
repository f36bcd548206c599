"""Evaluation of static vectors: similarity sets by SciPy's Spearman, analogies by gensim.

Both follow gensim's `evaluate_word_pairs` and `evaluate_word_analogies`: words are compared in
capitals, the first of several forms counts, only the first 300,000 words are looked at, and what
has a word without a vector is left out.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from elmokit.errors import FormatError, InputError
from elmokit.io.fetch import Progress
from elmokit.io.text_files import read_lines
from elmokit.static.files import import_gensim
from elmokit.static.vectors import StaticVectors, Vectors, unit
from elmokit.system import import_extra

WORDS_LOOKED_AT = 300_000
NEAREST_ASKED = 5
"""Words that gensim looks through for one that is not in the question."""


class Judgement(NamedTuple):
    """How alike people find two words."""

    first: str
    second: str
    score: float


class Analogy(NamedTuple):
    """An analogy: `first` is to `second` as `third` is to `answer`."""

    section: str
    first: str
    second: str
    third: str
    answer: str


def parse_analogy(question: str) -> tuple[list[str], list[str]]:
    """Read `king - man + woman` as its positive and its negative words.

    >>> parse_analogy("king - man + woman")
    (['king', 'woman'], ['man'])
    """
    pieces = question.split()
    if pieces and pieces[0] not in ("+", "-"):
        pieces.insert(0, "+")
    signs, words = pieces[::2], pieces[1::2]
    if not words or len(signs) != len(words) or {*signs} - {"+", "-"} or {*words} & {"+", "-"}:
        raise InputError(
            f"{question!r} is not a question of words with + or - and spaces between them; "
            "write it as 'king - man + woman'"
        )
    signed = list(zip(signs, words, strict=True))
    return [word for sign, word in signed if sign == "+"], [w for sign, w in signed if sign == "-"]


def read_judgements(path: str | Path) -> list[Judgement]:
    """Read a similarity set: two words and a score on each line; # begins a comment."""
    found = []
    for number, line in _lines(path):
        if line.startswith("#"):
            continue
        try:
            first, second, score = line.split()
            found.append(Judgement(first, second, float(score)))
        except ValueError:
            problem = f"{line[:60]!r} is not two words and a score; fix it"
            raise FormatError(f"{path}, line {number}: {problem}") from None
    if not found:
        raise FormatError(f"{path}: has no pair of words; get it again")
    return found


def read_questions(path: str | Path) -> list[Analogy]:
    """Read analogies: four words on each line, below lines such as `: capital-common-countries`."""
    found = []
    section = Path(path).name.partition(".")[0]
    for number, line in _lines(path):
        words = line.split()
        if line.startswith(":"):
            section = line.lstrip(": ").strip()
        elif len(words) == 4:
            found.append(Analogy(section, *words))
        else:
            problem = f"{line[:60]!r} is not four words, nor a section such as ': family'; fix it"
            raise FormatError(f"{path}, line {number}: {problem}")
    if not found:
        raise FormatError(f"{path}: has no question; get it again")
    return found


def _lines(path: str | Path) -> Iterator[tuple[int, str]]:
    """The lines of a file that are not blank, with their numbers; compressed files too."""
    return ((line.number, line.text.strip()) for line in read_lines(path) if line.text.strip())


class SimilarityScore(NamedTuple):
    """How well cosines order the pairs of a set as people do."""

    name: str
    spearman: float | None  # None where fewer than two pairs are known, or all are equal
    known: int  # pairs whose words have vectors
    pairs: int


class AnalogyScore(NamedTuple):
    """How many analogies of a section are answered right."""

    section: str
    right: int
    known: int  # questions whose words have vectors
    questions: int

    @property
    def accuracy(self) -> float | None:
        """The share of known questions that are answered right."""
        return self.right / self.known if self.known else None


def similarity_score(vectors: StaticVectors, path: str | Path) -> SimilarityScore:
    """Spearman's correlation of cosines with the judgements in a file."""
    judgements = read_judgements(path)
    rows = _rows_by_capitals(vectors)
    known = [one for one in judgements if {one.first.upper(), one.second.upper()} <= rows.keys()]
    firsts, seconds = (
        unit(vectors.rows([rows[word.upper()] for word in words]))
        for words in ([one.first for one in known], [one.second for one in known])
    )
    cosines = (firsts * seconds).sum(1)
    spearman = rank_correlation(cosines, [one.score for one in known])
    return SimilarityScore(Path(path).name.partition(".")[0], spearman, len(known), len(judgements))


def analogy_scores(
    vectors: StaticVectors, path: str | Path, progress: Progress | None = None
) -> list[AnalogyScore]:
    """Answer the analogies in a file by gensim's 3CosAdd: a score for each section, in order.

    The answer to "a is to b as c is to" is the word nearest to b - a + c, each vector at length 1,
    the words of the question excluded.
    """
    questions = read_questions(path)
    rows = _rows_by_capitals(vectors)
    known = [one for one in questions if {word.upper() for word in one[1:]} <= rows.keys()]
    keyed = _keyed_vectors(vectors) if known else None
    right: Counter[str] = Counter()
    for done, one in enumerate(known, start=1):
        right[one.section] += _answer(keyed, rows, one) == one.answer.upper()
        if progress is not None:
            progress(done, len(known))
    of_known = Counter(one.section for one in known)
    asked = Counter(one.section for one in questions)
    return [AnalogyScore(name, right[name], of_known[name], asked[name]) for name in asked]


def total(scores: Sequence[AnalogyScore]) -> AnalogyScore:
    """The scores of all sections in one."""
    right, known = sum(one.right for one in scores), sum(one.known for one in scores)
    return AnalogyScore("total", right, known, sum(one.questions for one in scores))


def rank_correlation(first: Sequence[float] | Vectors, second: Sequence[float]) -> float | None:
    """Spearman's correlation of two rows of numbers; None where it is not defined.

    >>> round(rank_correlation([0.1, 0.4, 0.2], [1, 9, 7]), 3)
    1.0
    """
    if min(len({*first}), len({*second})) < 2:
        return None
    return float(import_extra("scipy.stats", "static").spearmanr(first, second)[0])


def _rows_by_capitals(vectors: StaticVectors) -> dict[str, int]:
    """The row of each word in capitals: that of its first form."""
    words = vectors.words[:WORDS_LOOKED_AT]
    return {word.upper(): row for row, word in reversed(list(enumerate(words)))}


def _keyed_vectors(vectors: StaticVectors) -> Any:
    """The words that are looked at, as gensim's KeyedVectors."""
    keyed = import_gensim().KeyedVectors(vectors.size)
    words = vectors.words[:WORDS_LOOKED_AT]
    keyed.add_vectors(words, vectors.rows(range(len(words))))
    return keyed


def _answer(keyed: Any, rows: dict[str, int], question: Analogy) -> str | None:
    """The answer to a question, in capitals."""
    asked = [word.upper() for word in question[1:4]]
    first, second, third = (rows[word] for word in asked)
    nearest = keyed.most_similar([second, third], [first], topn=NEAREST_ASKED)
    return next((word.upper() for word, _ in nearest if word.upper() not in asked), None)
