"""A file of sentences to a file of vectors, on this machine."""

from __future__ import annotations

import codecs
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from elmokit.embedder import Embedder, Layer, Vectors
from elmokit.errors import FormatError, InputError
from elmokit.formats.vectors import check_suffix, write_vectors

Report = Callable[[int, int | None], None]


@dataclass
class Summary:
    """What was read and written."""

    output: str
    sentences: int = 0
    words: int = 0
    blank: int = 0
    seconds: float = 0.0
    unusual_words: dict[str, int] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """As plain values for JSON."""
        return asdict(self)

    def describe(self) -> str:
        """One line."""
        rate = self.words / self.seconds if self.seconds else 0.0
        blank = f", {self.blank} of them blank" if self.blank else ""
        unusual = "".join(f", {count} {kind}" for kind, count in self.unusual_words.items())
        return (
            f"{self.output}: {counted(self.sentences, 'sentence')}{blank}, "
            f"{counted(self.words, 'word')}{unusual}, "
            f"{self.seconds:.1f} s, {rate:,.0f} words/s"
        )


def counted(number: int, noun: str) -> str:
    """A number and its noun.

    >>> counted(1, "word"), counted(2000, "word")
    ('1 word', '2,000 words')
    """
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def check_output(output: str | Path, *, force: bool) -> None:
    """Refuse an output that cannot be written, before anything is computed for it."""
    check_suffix(output)
    if Path(output).exists() and not force:
        raise InputError(f"{output}: is there already; choose another name, or force it (--force)")


def embed_file(
    embedder: Embedder,
    input_file: str | Path,
    output: str | Path,
    *,
    layers: str = "average",
    split: bool = False,
    force: bool = False,
    progress: Report | None = None,
) -> Summary:
    """Embed the sentences of a text file into a file of vectors.

    Args:
        embedder: The model.
        input_file: A line per sentence, words separated by blanks; "-" is standard input.
        output: `.h5`, `.hdf5`, `.npz` or `.jsonl`.
        layers: "average", "top", "all", or a layer's number.
        split: The input is raw text, to be split into sentences and words.
        force: Replace the output if it is there.
        progress: Told how many sentences are done.
    """
    check_output(output, force=force)
    if Path(output).exists() and Path(input_file).exists() and Path(output).samefile(input_file):
        raise InputError(f"{output}: is the input too; choose another name for the output")
    started = time.perf_counter()
    summary = Summary(str(output))
    lines = read_lines(input_file)
    sentences = embedder.split("\n".join(lines)) if split else [line.split() for line in lines]
    total = len(sentences)

    def items() -> Iterator[tuple[list[str], Vectors]]:
        vectors = embed_as(embedder, layers, sentences)
        for sentence, vector in zip(sentences, vectors, strict=True):
            summary.sentences += 1
            summary.words += len(sentence)
            summary.blank += not sentence
            yield sentence, vector
            if progress is not None:
                progress(summary.sentences, total)

    write_vectors(output, items())
    summary.seconds = time.perf_counter() - started
    summary.unusual_words = embedder.unusual_words
    return summary


def embed_as(embedder: Embedder, layers: str, sentences: list[list[str]]) -> Iterator[Vectors]:
    """Embed with the layers that a flag names."""
    if layers == "all":
        return embedder.embed_layers_stream(sentences)
    named = ("average", "top", *map(str, range(embedder.config.layer_count)))
    if layers not in named:
        raise InputError(f"layers is {layers!r}; use one of all, {', '.join(named)}")
    layer: Layer = int(layers) if layers.isdecimal() else layers  # type: ignore[assignment]
    return embedder.embed_stream(sentences, layer)


def read_lines(input_file: str | Path) -> list[str]:
    """The lines of a UTF-8 file, each without its end."""
    piped = str(input_file) == "-"
    name = "standard input" if piped else str(input_file)
    try:
        contents = sys.stdin.buffer.read() if piped else Path(input_file).read_bytes()
        lines = contents.removeprefix(codecs.BOM_UTF8).splitlines()
        return [decode(line, name, number) for number, line in enumerate(lines, start=1)]
    except OSError as error:
        raise InputError(f"{name}: cannot be read ({error.strerror})") from error


def decode(line: bytes, name: str, number: int) -> str:
    """One line as text."""
    try:
        return line.decode("utf-8")
    except UnicodeDecodeError as error:
        raise FormatError(
            f"{name}, line {number}: is not UTF-8 ({error.reason}); convert the file"
        ) from error
