"""Evaluation of static vectors: similarity sets by SciPy's Spearman, analogies by gensim.

Similarity sets follow gensim's `evaluate_word_pairs`: words are compared in capitals, the first of
several forms counts, only the first 300,000 words are looked at, and what has a word without a
vector is left out.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from elmokit.errors import FormatError, InputError
from elmokit.io.fetch import Progress
from elmokit.io.text_files import read_lines
from elmokit.static.vectors import StaticVectors, cosine
from elmokit.system import import_extra

WORDS_LOOKED_AT = 300_000


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


def read_judgements(path: str | Path) -> list[tuple[str, str, float]]:
    """Read a similarity set: two words and a score on each line; # begins a comment."""
    found = []
    for number, line in _lines(path):
        if line.startswith("#"):
            continue
        try:
            first, second, score = line.split()
            found.append((first, second, float(score)))
        except ValueError:
            problem = f"{line[:60]!r} is not two words and a score; fix it"
            raise FormatError(f"{path}, line {number}: {problem}") from None
    if not found:
        raise FormatError(f"{path}: has no pair of words; get it again")
    return found


def read_questions(path: str | Path) -> dict[str, list[str]]:
    """Read analogies: lines of four words, below lines such as `: capital-common-countries`."""
    sections: dict[str, list[str]] = {}
    section = Path(path).name.partition(".")[0]
    for number, line in _lines(path):
        if line.startswith(":"):
            section = line.lstrip(": ")
        elif len(line.split()) == 4:
            sections.setdefault(section, []).append(line)
        else:
            problem = f"{line[:60]!r} is not four words, nor a section such as ': family'; fix it"
            raise FormatError(f"{path}, line {number}: {problem}")
    if not sections:
        raise FormatError(f"{path}: has no question; get it again")
    return sections


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
    words = vectors.words[:WORDS_LOOKED_AT]
    rows = {word.upper(): row for row, word in reversed(list(enumerate(words)))}
    cosines, judged = [], []
    for first, second, score in judgements:
        pair = [rows[word] for word in (first.upper(), second.upper()) if word in rows]
        if len(pair) == 2:
            cosines.append(cosine(*vectors.rows(pair)))
            judged.append(score)
    spearman = None
    if min(len({*cosines}), len({*judged})) > 1:
        spearman = float(import_extra("scipy.stats", "static").spearmanr(cosines, judged)[0])
    name = Path(path).name.partition(".")[0]
    return SimilarityScore(name, spearman, len(judged), len(judgements))


def analogy_scores(
    vectors: StaticVectors, path: str | Path, progress: Progress | None = None
) -> list[AnalogyScore]:
    """Answer the analogies in a file by gensim's 3CosAdd: a score for each section, in order.

    The answer to "a is to b as c is to" is the word nearest to b - a + c, each vector at length 1,
    the words of the question excluded.
    """
    sections = read_questions(path)
    keyed = vectors.to_gensim(words=WORDS_LOOKED_AT)
    scores: list[AnalogyScore] = []
    for section, questions in sections.items():
        with TemporaryDirectory(prefix="elmokit-") as folder:  # gensim reads files only
            file = Path(folder) / "questions"
            file.write_text("\n".join([": section", *questions]), encoding="utf-8")
            _, (found, _) = keyed.evaluate_word_analogies(str(file))
        right, known = len(found["correct"]), len(found["correct"]) + len(found["incorrect"])
        scores.append(AnalogyScore(section, right, known, len(questions)))
        if progress is not None:
            progress(total(scores).questions, sum(map(len, sections.values())))
    return scores


def total(scores: Sequence[AnalogyScore]) -> AnalogyScore:
    """The scores of all sections in one."""
    right, known = sum(one.right for one in scores), sum(one.known for one in scores)
    return AnalogyScore("total", right, known, sum(one.questions for one in scores))
