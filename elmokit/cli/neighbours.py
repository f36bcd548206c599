"""`elmo neighbours`: index the words of a corpus in context, and find those nearest to one."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from elmokit.bundled import ENGLISH_SMALL
from elmokit.cli import EitherSpelling, options
from elmokit.cli.progress import Display
from elmokit.system import give_back_large_blocks, remember_few_shapes

if TYPE_CHECKING:
    from elmokit.analysis.neighbours.build import IndexSettings
    from elmokit.analysis.neighbours.index import Neighbour
    from elmokit.static.vectors import StaticVectors

MARGIN = 13  # what a line of the table has beside its sentence
NARROWEST = 40


@click.group(cls=EitherSpelling)
def neighbours() -> None:
    """Find the words in context nearest to a word in its sentence.

    \b
    Examples:
      elmo neighbours build news.txt --split -o news.index
      elmo neighbours query news.index "Chico Ruiz made a spectacular *play* ."
    """


@neighbours.command(cls=options.ModelCommand)
@click.argument("corpus", nargs=-1, required=True, metavar="CORPUS...")
@options.output("INDEX", "The folder to make.")
@options.value(
    "--layers",
    "LAYERS",
    "Whose vectors to keep: all, or some of top, average, 0, 1, … with commas between.",
    default="top",
)
@options.value("--words", "FILE", "Keep only the words of this file, one per line.")
@options.flag("--skip-punctuation", "Keep only words with a letter or a digit.")
@options.model
@options.text
@options.precision
@options.device
@options.resume
@options.flag("--force", "Replace INDEX, or what is left of another run.")
@options.quiet
@options.as_json
def build(
    corpus: tuple[str, ...],
    output: str,
    resume: bool,
    force: bool,
    quiet: bool,
    as_json: bool,
    **flags: Any,
) -> None:
    """Keep every word of CORPUS with its vectors in INDEX, each different sentence once.

    CORPUS is what `elmo embed` reads: text files (each line a sentence, its words separated by
    whitespace), JSON lines, CSV or Parquet, plain or compressed, several of them, or - for standard
    input. Raw text needs --split, or --tokenize.

    Memory does not grow with the text. What is done is kept in INDEX.parts until INDEX is complete:
    after Ctrl-C, a crash or a kill, the same command with --resume continues.

    \b
    Examples:
      elmo neighbours build news.txt.gz --split -o news.index
      elmo neighbours build sentences.txt --layers 1,2 --skip-punctuation -o sentences.index
    """
    give_back_large_blocks()
    remember_few_shapes()
    from elmokit.analysis.neighbours.store import check_target
    from elmokit.bulk.inputs import open_input

    # Files are looked for before PyTorch and a model are loaded for nothing.
    source = open_input(corpus, options.text_settings(flags))
    check_target(output, resume=resume, force=force)
    options.check_place(output)
    settings = index_settings(flags)
    from elmokit.analysis.neighbours.build import build_index

    embedder = options.load_embedder(**flags, quiet=quiet)
    with Display(quiet) as shown:
        summary = build_index(
            embedder,
            source.split_by(embedder.tokenizer.name),
            output,
            settings,
            model=flags["model"] or ENGLISH_SMALL,
            resume=resume,
            force=force,
            observer=shown,
        )
    options.show_result(summary, as_json)


def index_settings(flags: dict[str, Any]) -> IndexSettings:
    """What is kept; its flags are taken out of all."""
    from elmokit.analysis.neighbours.build import IndexSettings
    from elmokit.io.text_files import read_lines

    path = flags.pop("words")
    lines = None if path is None else [line.text.strip() for line in read_lines(path)]
    return IndexSettings(
        layers=flags.pop("layers"),
        words=None if lines is None else frozenset(filter(None, lines)),
        skip_punctuation=flags.pop("skip_punctuation"),
    )


@neighbours.command(cls=options.ModelCommand)
@click.argument("index")
@click.argument("sentence")
@options.number("--top", "How many occurrences to show.", default=10)
@options.flag("--same-word", "Only occurrences of the same word.")
@options.value("--layer", "LAYER", "Whose vectors. Without it: INDEX's last layer.")
@options.flag("--exact", "Compare all vectors, without the vector index.")
@options.static
@options.model
@options.device
@options.as_json
def query(
    index: str,
    sentence: str,
    top: int,
    same_word: bool,
    layer: str | None,
    exact: bool,
    static: str | None,
    as_json: bool,
    **flags: Any,
) -> None:
    """Find the occurrences in INDEX nearest to the word of SENTENCE that has stars around it.

    1 is the same direction, 0 unrelated. Occurrences in SENTENCE itself are left out. Beside them
    stand the neighbours of the word's static vector, which are the same in every sentence. INDEX is
    a folder, or where it was copied to: s3://bucket/news.index, gs://…, az://….

    \b
    Examples:
      elmo neighbours query news.index "Chico Ruiz made a spectacular *play* ."
      elmo neighbours query news.index "They saw a *play* at the theatre ." --same-word --top 5
    """
    from elmokit.analysis.neighbours.index import find_marked, only_mark
    from elmokit.analysis.neighbours.store import read_description

    # Both are looked at before PyTorch and a model are loaded for nothing.
    description = read_description(index)
    only_mark(sentence)
    from elmokit.analysis.neighbours.index import NeighbourIndex

    flags["tokenizer"] = flags["tokenizer"] or description.tokenizer
    embedder = options.load_embedder(**flags)
    opened = NeighbourIndex.open(index, embedder, model=flags["model"] or ENGLISH_SMALL)
    marked = find_marked(sentence, embedder.tokenizer)
    found = opened.query(
        marked.words, marked.position, layer=layer, top=top, same_word=same_word, exact=exact
    )
    vectors = options.load_static(static, embedder)
    if not as_json:
        show_neighbours(found)
        show_static(vectors, marked.word, top)
        return
    answer = {
        "word": marked.word,
        "words": list(marked.words),
        "position": marked.position,
        "layer": description.column(layer),
        "neighbours": [one.to_dict() for one in found],
        "static": static_answer(vectors, marked.word, top),
    }
    click.echo(json.dumps(answer, ensure_ascii=False))


def static_answer(vectors: StaticVectors | None, word: str, top: int) -> dict[str, Any] | None:
    """The neighbours of a word's static vector, as plain values; None where it has none."""
    if vectors is None or vectors.find(word) is None:
        return None
    near = [one._asdict() for one in vectors.neighbours(word, top)]
    return {"name": vectors.name, "neighbours": near}


def show_neighbours(found: Sequence[Neighbour]) -> None:
    """Print a line for each, the nearest first."""
    if not found:
        click.echo("no occurrence in any other sentence")
    width = None
    if sys.stdout.isatty():
        width = max(NARROWEST, shutil.get_terminal_size().columns - MARGIN)
    for number, one in enumerate(found, start=1):
        text = around(one.words, one.position, width)
        click.echo(f"{number:>3}  {one.cosine:6.3f}  {text}")


def show_static(vectors: StaticVectors | None, word: str, top: int) -> None:
    """Print what a static vector has for neighbours, or why there are none to see."""
    if vectors is None:
        return
    if vectors.find(word) is None:
        click.echo(f"\n{vectors.name} has no vector of {word!r}")
        return
    click.echo(f"\n{vectors.name}, in every sentence:")
    for number, one in enumerate(vectors.neighbours(word, top), start=1):
        click.echo(f"{number:>3}  {one.cosine:6.3f}  {one.word}")


def around(words: Sequence[str], position: int, width: int | None) -> str:
    """A sentence with one word marked, cut to a width with the word inside.

    >>> around(["He", "sat", "on", "the", "river", "bank", "."], 5, 20)
    '… river *bank* .'
    """
    from elmokit.analysis.senses import with_mark

    first, last = (0, len(words)) if width is None else (position, position + 1)
    while True:
        text = with_mark(words[first:last], position - first)
        text = ("… " if first else "") + text + (" …" if last < len(words) else "")
        grown = max(0, first - 1), min(len(words), last + 1)
        if grown == (first, last) or width is None:
            return text
        longer = with_mark(words[grown[0] : grown[1]], position - grown[0])
        if len(longer) + 4 > width:
            return text
        first, last = grown
