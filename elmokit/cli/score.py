"""`elmo score`: log probability of each sentence of a file."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import click

from elmokit.cli.language_models import (
    STATE_OPTION,
    language_model_options,
    load_language_model,
    sentences_of_lines,
)
from elmokit.cli.options import ModelCommand, encoding_options

if TYPE_CHECKING:
    from elmokit.prediction import SentenceScore


@click.command(cls=ModelCommand)
@click.argument("input_file", metavar="FILE")
@language_model_options
@click.option(
    "--split",
    is_flag=True,
    help="FILE is raw text: split it into words and sentences (of 4,000 characters at most).",
)
@STATE_OPTION
@encoding_options
@click.option("--words", is_flag=True, help="A row for each word and marker.")
@click.option("--json", "as_json", is_flag=True, help="Print a line of JSON for each sentence.")
def score(
    input_file: str,
    split: bool,
    state: Any,
    encoding: str,
    errors: Any,
    words: bool,
    as_json: bool,
    **flags: Any,
) -> None:
    """Print the log probability of each sentence of a file.

    Each line of FILE (- for standard input; .gz, .xz and .zst work) is a sentence, its words
    separated by blanks, and has its line number in the result. With --split sentences are
    numbered, wherever their lines end.

    Logarithms are natural. A sentence is read forward up to its end marker </S> and backward up to
    its begin marker <S>; the total is the sum of both. A ? follows a word that is outside the
    vocabulary: its value is that of <UNK>.

    \b
    Example:
      elmo score sentences.txt --words
    """
    from elmokit.cli.lines import read_lines

    lines = read_lines(input_file, encoding, errors)
    language_model = load_language_model(**flags)
    sentences = sentences_of_lines(language_model, lines, split)
    rows = word_rows if words else sentence_rows
    numbers = "number" if split else "line"
    if not as_json:
        click.echo(header(numbers, words))
    for number, sentence_score in enumerate(language_model.score_stream(sentences, state), start=1):
        if as_json:
            click.echo(json.dumps({numbers: number} | sentence_score.to_dict(), ensure_ascii=False))
        else:
            click.echo("\n".join(rows(number, sentence_score)))


def header(numbers: str, words: bool) -> str:
    """The names of the columns."""
    if words:
        return f"{numbers:>6}{'forward':>11}{'backward':>11}  word"
    return f"{numbers:>6}{'total':>11}{'forward':>11}{'backward':>11}  sentence"


def sentence_rows(number: int, score: SentenceScore) -> Iterator[str]:
    """One row."""
    values = (score.total, score.total_forward, score.total_backward)
    shown = "".join(f"{value:11.3f}" for value in values)
    yield f"{number:6}{shown}  {' '.join(marked_words(score))}".rstrip()


def word_rows(number: int, score: SentenceScore) -> Iterator[str]:
    """A row for each word, between those of the markers, which one direction each predicts."""
    yield f"{number:6}{'':>11}{score.backward_end:11.3f}  <S>"
    for word, *values in zip(marked_words(score), score.forward, score.backward, strict=True):
        yield f"{number:6}" + "".join(f"{value:11.3f}" for value in values) + f"  {word}"
    yield f"{number:6}{score.forward_end:11.3f}{'':>11}  </S>"


def marked_words(score: SentenceScore) -> list[str]:
    """The words, with a mark on those outside the vocabulary."""
    return [
        f"{word}?" if unknown else word
        for word, unknown in zip(score.words, score.unknown, strict=True)
    ]
