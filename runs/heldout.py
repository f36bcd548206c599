"""Held-out perplexity of a model on several texts, per direction and per starting state.

    python -m runs.heldout --text enwiki=../shared/data/pretrain-en/enwiki.heldout.txt.xz \
        --whitespace wikitext-2=../shared/data/wikitext-2/wiki.valid.tokens.gz

`--text` is raw text, split with the model's tokenizer. `--whitespace` is text in the form of
WikiText: tokenized already, a paragraph per line. It is brought as near to the words of the model
as it can be: see `sentences_of_wikitext`. Every probability is normalised over the whole
vocabulary.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple, get_args

from benchmarks.machine import command_line, describe, heading, one_line_errors, write_numbers
from elmokit.cli.progress import Display
from elmokit.config import Count, checked
from elmokit.inference.language_model import LanguageModel, StartState
from elmokit.inference.predictions import Perplexity
from elmokit.io.text_files import TextSettings, find_files
from elmokit.text.tokenizer import read_sentences
from elmokit.text.vocabulary import UNKNOWN

STATES: tuple[StartState, ...] = get_args(StartState)
SPLIT_MARK = re.compile(r" ?@([-,.])@ ?")
UNKNOWN_IN_WIKITEXT = "<unk>"
SENTENCE_ENDS = (".", "!", "?")
CLOSING_BRACKETS = (")", "]")

HEADER = heading(
    "text", "state", "forward", "backward", "mean", "sentences", "words", "unknown",
    "targets per direction",
)  # fmt: skip
CAVEAT = f"""
{{names}}: not comparable with published numbers. Another vocabulary makes other words unknown, and
the tokens are others too: headings are left out, paragraphs are cut into sentences, split hyphens
and numbers are joined again, and `{UNKNOWN_IN_WIKITEXT}` becomes `{UNKNOWN}`, which hides from the
model the letters of the rare words that it could have read."""


class Source(NamedTuple):
    """A text to measure on."""

    name: str
    path: str  # a file, a folder or a glob
    tokenized: bool


class Measured(NamedTuple):
    """How well the model predicts a source, from one starting state."""

    source: str
    perplexity: Perplexity

    @property
    def sentences(self) -> int:
        """How many were read: each has one target more than words."""
        return self.perplexity.targets - self.perplexity.words

    def to_dict(self) -> dict[str, Any]:
        """As plain values for JSON."""
        return {"source": self.source, "sentences": self.sentences, **self.perplexity.to_dict()}


def parse_source(argument: str, tokenized: bool) -> Source:
    """Take `NAME=FILE` apart."""
    name, equals, path = argument.partition("=")
    if not (name and equals and path):
        raise argparse.ArgumentTypeError(f"{argument!r} is not NAME=FILE")
    return Source(name, path, tokenized)


def sentences_of(source: Source, tokenizer: str) -> Iterator[list[str]]:
    """The sentences of a source, in little memory."""
    files = find_files([source.path])
    if source.tokenized:
        return sentences_of_wikitext(read_sentences(files, TextSettings()))
    return read_sentences(files, TextSettings.of_corpus(tokenizer))


def sentences_of_wikitext(paragraphs: Iterable[list[str]]) -> Iterator[list[str]]:
    """Cut paragraphs of WikiText into sentences of whole words; headings are dropped."""
    for paragraph in paragraphs:
        if not is_heading(paragraph):
            yield from cut_paragraph(whole_words(paragraph))


def is_heading(words: Sequence[str]) -> bool:
    """Whether a line is ` = Title = `.

    >>> is_heading("= = Life cycle = =".split()), is_heading("E = m".split())
    (True, False)
    """
    return words[0] == words[-1] == "="


def whole_words(words: Iterable[str]) -> list[str]:
    """Join what WikiText has split; a word with an unknown part is unknown.

    >>> whole_words("a well @-@ known <unk> @-@ eater of 1 @,@ 200 lb".split())
    ['a', 'well-known', '<UNK>', 'of', '1,200', 'lb']
    """
    joined = SPLIT_MARK.sub(r"\1", " ".join(words)).split()
    return [UNKNOWN if UNKNOWN_IN_WIKITEXT in word else word for word in joined]


def cut_paragraph(words: Iterable[str]) -> Iterator[list[str]]:
    """Cut after each full stop and what closes behind it, unless small letters continue.

    >>> for words in cut_paragraph('" Go ! " he said . " No . " It rained .'.split()):
    ...     print(*words)
    " Go ! " he said .
    " No . "
    It rained .
    """
    sentence: list[str] = []
    ended = quoting = False
    for word in words:
        closes = word in CLOSING_BRACKETS or (word == '"' and quoting)
        quoting ^= word == '"'
        goes_on = closes or word in SENTENCE_ENDS or word[0].islower()
        if ended and not goes_on:
            yield sentence
            sentence, ended = [], False
        sentence.append(word)
        ended = word in SENTENCE_ENDS or (ended and closes)
    if sentence:
        yield sentence


def measure(
    model: LanguageModel, source: Source, state: StartState, most: int | None = None
) -> Measured:
    """The perplexity of the first `most` sentences of a source."""
    sentences = islice(sentences_of(source, model.tokenizer.name), most)
    with Display().stage(f"{source.name}, state {state}", "sentence") as progress:
        return Measured(source.name, model.perplexity(sentences, state, progress))


def line_of(measured: Measured) -> str:
    """One line of the table."""
    result = measured.perplexity
    return (
        f"| {measured.source} | {result.state} | {result.forward:,.1f} | {result.backward:,.1f} "
        f"| {result.mean:,.1f} | {measured.sentences:,} | {result.words:,} "
        f"| {result.unknown / max(result.words, 1):.1%} | {result.targets:,} |"
    )


def run(arguments: argparse.Namespace) -> None:
    """Measure every source from every state; print a table."""
    if arguments.sentences is not None:
        checked("sentences", arguments.sentences, Count)
    for source in arguments.sources:
        find_files([source.path])  # so that a wrong name is told before the work of the others
    model = LanguageModel.load(arguments.model)
    rows = []
    print(HEADER)
    for source in arguments.sources:
        for state in arguments.states or STATES:
            rows.append(measure(model, source, state, arguments.sentences))
            print(line_of(rows[-1]), flush=True)
    tokenized = [source.name for source in arguments.sources if source.tokenized]
    if tokenized:
        print(CAVEAT.format(names=", ".join(tokenized)))
    result = {"machine": describe(), "rows": [row.to_dict() for row in rows]}
    write_numbers(arguments.json, result)


@one_line_errors()
def main(arguments: Sequence[str] | None = None) -> None:
    """Read the command line; say what went wrong in one line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", help="a model folder; without it, the bundled model")
    for flag, tokenized in (("--text", False), ("--whitespace", True)):
        parser.add_argument(
            flag,
            dest="sources",
            action="append",
            type=partial(parse_source, tokenized=tokenized),
            metavar="NAME=FILE",
            help="tokenized already, as WikiText is" if tokenized else "raw text",
        )
    parser.add_argument(
        "--state",
        dest="states",
        action="append",
        choices=STATES,
        help="where sentences start; may be repeated; without it, all (carry is slow)",
    )
    parser.add_argument("--sentences", type=int, help="read no more than this many of each text")
    parser.add_argument("--json", type=Path, help="write the numbers to this file too")
    parsed = parser.parse_args(arguments)
    if not parsed.sources:
        parser.error("no text is given; use --text NAME=FILE or --whitespace NAME=FILE")
    run(parsed)
    print("\n" + command_line("runs.heldout", arguments))


if __name__ == "__main__":
    main()
