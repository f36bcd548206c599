"""`elmo predict`, `elmo score` and `elmo perplexity`: the words of a language model."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import click

from elmokit.cli import options
from elmokit.cli.progress import Display

if TYPE_CHECKING:
    from elmokit.inference.predictions import Gap, RankedWord, SentenceScore, WordProbability


ROWS_SHOWN = 10
HEADING = "probability    score  forward  backward    prior  word"
OF_ALL_WORDS = "  (probability: among all words, not these alone)"
WORDS_HEADER = f"{'line':>6}{'forward':>11}{'backward':>11}  word"
SENTENCES_HEADER = f"{'line':>6}{'total':>11}{'forward':>11}{'backward':>11}  sentence"
BORDERS = {"</S>": "</S>  (the sentence ends)", "<S>": "<S>  (the sentence begins)"}


@click.command(cls=options.ModelCommand)
@click.argument("sentence")
@options.language_model
@options.flag("--previous", "Predict the word before SENTENCE.")
@options.flag("--missing", "SENTENCE lacks nothing but its ___, also where ___ begins or ends it.")
@options.value("--candidates", "WORD,WORD...", "Say which of these fits best.")
@options.number(
    "--top", f"Show, or sample among, the N likeliest words.  [default: show {ROWS_SHOWN}]"
)
@options.number("--sample", "Continue with up to N words drawn at random.")
@click.option(
    "--temperature",
    type=click.FloatRange(min=0),
    default=1.0,
    show_default=True,
    help="Of sampling: lower for likelier words, 0 for the likeliest.",
)
@options.number("--seed", "Of sampling: repeats what was drawn.", least=0)
@options.as_json
def predict(
    sentence: str,
    previous: bool,
    missing: bool,
    candidates: str | None,
    top: int | None,
    sample: int | None,
    temperature: float,
    seed: int | None,
    as_json: bool,
    **flags: Any,
) -> None:
    """Predict the next word of SENTENCE, or the one missing at ___.

    A missing word is ranked by log p(word | before) + log p(word | after) - log p(word), where the
    last is left out if the model's vocabulary has no counts.

    \b
    Examples:
      elmo predict "The cat sat on the"
      elmo predict "The cat ___ on the mat."
      elmo predict "The goldfish swims in the" --candidates aquarium,pool,window
      elmo predict "Once upon a time" --sample 20 --seed 1
    """
    if candidates is not None and sample is not None:
        raise click.UsageError("--candidates and --sample cannot go together")
    language_model = options.load_language_model(**flags)
    place = language_model.find_place(sentence, previous=previous, missing=missing)
    if sample is not None:
        if place.before is not None and place.after is not None:
            raise click.UsageError("--sample continues from one end of SENTENCE; leave out the ___")
        drawn = language_model.sample(
            place.before or (), sample, temperature, seed, top, after=place.after
        )
        show_sample(place, drawn, as_json)
    elif candidates is not None:
        words = [word.strip() for word in candidates.split(",")]
        ranked = language_model.rank(place.before, words, place.after)
        show(place, ranked, as_json, HEADING + OF_ALL_WORDS)
    elif place.before is not None and place.after is not None:
        found = language_model.missing_words(place.before, place.after, top or ROWS_SHOWN)
        show(place, found, as_json, HEADING)
    elif place.after is None:
        show(place, language_model.next_words(place.before or [], top or ROWS_SHOWN), as_json)
    else:
        show(place, language_model.previous_words(place.after, top or ROWS_SHOWN), as_json)


def show_sample(place: Gap, drawn: list[str], as_json: bool) -> None:
    """Print the words that were drawn, in their place."""
    if as_json:
        click.echo(json.dumps(place._asdict() | {"sampled": drawn}, ensure_ascii=False))
    else:
        click.echo(" ".join([*(place.before or ()), *drawn, *(place.after or ())]))


def show(place: Gap, words: Sequence[Any], as_json: bool, heading: str | None = None) -> None:
    """Print words in order of fit, a row each; those with a heading have their scores."""
    if as_json:
        rows = [word.to_dict() for word in words]
        click.echo(json.dumps(place._asdict() | {"words": rows}, ensure_ascii=False, indent=2))
        return
    click.echo(str(place))
    if heading is not None:
        click.echo(heading)
    for word in words:
        click.echo(row(word) if heading is None else ranked_row(word))


def row(word: WordProbability) -> str:
    """A word and its probability."""
    return f"{word.probability:11.2%}  {BORDERS.get(word.word, word.word)}"


def ranked_row(word: RankedWord) -> str:
    """A word, its probability, and what its score is made of."""
    if not word.known:
        return f"{'':>48}  {word.word}  (not in the vocabulary)"
    parts = (word.score, word.forward, word.backward, word.log_prior)
    score, forward, backward, prior = ("-" if part is None else f"{part:.2f}" for part in parts)
    return f"{word.probability:11.2%}{score:>9}{forward:>9}{backward:>10}{prior:>9}  {word.word}"


@click.command(cls=options.ModelCommand)
@click.argument("input_file", metavar="FILE")
@options.language_model
@options.text
@options.language_model_state
@options.flag("--words", "A row for each word and marker.")
@click.option("--json", "as_json", is_flag=True, help="Print a line of JSON for each sentence.")
def score(input_file: str, state: Any, words: bool, as_json: bool, **flags: Any) -> None:
    """Print the log probability of each sentence of a file.

    FILE is what `elmo embed` reads, or - for standard input, which is answered as it comes. Each
    line is a sentence, its words separated by whitespace, and has its number in the result; with
    --split it may have several, one after the other.

    Logarithms are natural. A sentence is read forward up to its end marker </S> and backward up to
    its begin marker <S>; the total is the sum of both. A ? follows a word that is outside the
    vocabulary: its value is that of <UNK>.

    \b
    Example:
      elmo score sentences.txt --words
    """
    from elmokit.bulk.inputs import open_input

    source = open_input([input_file], options.text_settings(flags))
    language_model = options.load_language_model(**flags)
    lines: deque[int] = deque()  # of the sentences that are read and not yet scored

    def sentences() -> Iterator[list[str]]:
        records = source.split_by(language_model.tokenizer.name).records(hint_at_raw=False)
        for record in records:
            lines.append(record.place.line)
            yield record.words

    rows = word_rows if words else sentence_rows
    if not as_json:
        click.echo(WORDS_HEADER if words else SENTENCES_HEADER)
    for found in language_model.score_stream(sentences(), state):
        line = lines.popleft()
        if as_json:
            click.echo(json.dumps({"line": line} | found.to_dict(), ensure_ascii=False))
        else:
            click.echo("\n".join(rows(line, found)))


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


@click.command(cls=options.ModelCommand)
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@options.language_model
@options.text
@options.language_model_state
@options.quiet
@options.as_json
def perplexity(
    files: tuple[str, ...], state: Any, quiet: bool, as_json: bool, **flags: Any
) -> None:
    """Say how well a model predicts a text: the lower the better.

    FILE is what `elmo embed` reads: text, tables, globs, folders, - for standard input. Each line
    is a sentence, its words separated by whitespace; blank lines are skipped.

    Every word and the end of every sentence counts; a word outside the vocabulary counts as <UNK>,
    so models with different vocabularies cannot be compared.

    \b
    Example:
      elmo perplexity held-out.txt --split
    """
    from elmokit.bulk.inputs import open_input

    source = open_input(files, options.text_settings(flags))
    language_model = options.load_language_model(**flags, quiet=quiet)
    records = source.split_by(language_model.tokenizer.name).records(hint_at_raw=False)
    sentences = (record.words for record in records if record.words)
    with Display(quiet).stage("scoring", "sentence") as progress:
        result = language_model.perplexity(sentences, state, progress)
    options.show_result(result, as_json)
