"""Training of word2vec and fastText by gensim: skip-gram or CBOW with negative sampling."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal, NamedTuple, get_args

from elmokit.config import check_choice, check_number, check_size
from elmokit.errors import InputError
from elmokit.io.fetch import Progress
from elmokit.io.files import disk_errors, write_atomically
from elmokit.io.text_files import TextSettings, find_files
from elmokit.static.files import format_of, import_gensim, subwords_of
from elmokit.static.vectors import NAMES, StaticVectors
from elmokit.system import usable_cpus
from elmokit.text.characters import Sentence
from elmokit.text.tokenizer import read_sentences

Method = Literal["skip-gram", "cbow", "fasttext"]

GENSIM_NAMES = {
    "size": "vector_size", "max_words": "max_final_vocab", "learning_rate": "alpha",
    "threads": "workers", "buckets": "bucket",
}  # fmt: skip
"""What gensim calls a setting, where its name is another."""


@dataclass(frozen=True)
class TrainingSettings:
    """How static vectors are trained.

    Attributes:
        method: "skip-gram" predicts the words around a word, "cbow" a word from those around it,
            "fasttext" is skip-gram on subwords.
        size: Numbers of a vector.
        window: The most places between a word and one around it.
        min_count: Words that come less often are left out of the text.
        max_words: Keep no more words than these, the most frequent; all of them if None.
        negative: Random words beside each right one.
        sample: The share of the text above which a word is left out now and then.
        epochs: Times to read the text.
        learning_rate: At the start; it falls to almost nothing.
        threads: Several are faster; only one trains the same vectors again.
        seed: Of all randomness.
        buckets: Of fastText: subwords share so many vectors.
        subwords: Of fastText: the fewest and the most characters of a subword.
    """

    method: Method = "skip-gram"
    size: int = 100
    window: int = 5
    min_count: int = 5
    max_words: int | None = None
    negative: int = 5
    sample: float = 1e-3
    epochs: int = 5
    learning_rate: float = 0.025
    threads: int = field(default_factory=usable_cpus)
    seed: int = 1
    buckets: int = 200_000
    subwords: tuple[int, int] = (3, 6)

    def __post_init__(self) -> None:
        check_choice("method", self.method, get_args(Method))
        for name in ("size", "window", "min_count", "negative", "epochs", "threads", "buckets"):
            check_size(name, getattr(self, name))
        if self.max_words is not None:
            check_size("max_words", self.max_words)
        check_size("seed", self.seed, least=0)
        for name in ("sample", "learning_rate"):
            check_number(name, getattr(self, name))
        check_size("subwords[0]", self.subwords[0])
        check_size("subwords[1]", self.subwords[1], least=self.subwords[0])

    def for_gensim(self) -> dict[str, Any]:
        """The same in gensim's words."""
        settings = {GENSIM_NAMES.get(name, name): value for name, value in vars(self).items()}
        settings["sg"] = int(settings.pop("method") != "cbow")
        shortest, longest = settings.pop("subwords")
        if self.method == "fasttext":
            return settings | {"min_n": shortest, "max_n": longest}
        del settings["bucket"]
        return settings


class Trained(NamedTuple):
    """What training gives."""

    vectors: StaticVectors
    method: Method
    sentences: int
    words: int  # of the text
    model: Any  # gensim's

    def describe(self) -> str:
        """As a line for people."""
        return (
            f"{len(self.vectors):,} words, vectors of {self.vectors.size}, by {self.method} from "
            f"{self.words:,} words in {self.sentences:,} sentences"
        )


def train_vectors(
    sentences: Iterable[Sentence],
    settings: TrainingSettings | None = None,
    *,
    tokenizer: str = "default",
    progress: Progress | None = None,
) -> Trained:
    """Train static vectors on sentences of words.

    Args:
        sentences: Can be read several times, as a list can: once for the vocabulary, and once in
            each epoch.
        settings: How.
        tokenizer: What has split the text, for `encode` and `tokenize` of the vectors.
        progress: Told the words of the text that are read, all epochs counted, and their number,
            which is not known while they are counted.
    """
    settings = settings or TrainingSettings()
    if isinstance(sentences, str | bytes) or iter(sentences) is sentences:
        raise InputError(
            "expected sentences that can be read several times; make a list of lists of words"
        )
    kind = "FastText" if settings.method == "fasttext" else "Word2Vec"
    model = getattr(import_gensim(), kind)(**settings.for_gensim())
    words = _train(model, _Reread(sentences, progress), settings)
    vectors = StaticVectors(
        model.wv.index_to_key,
        model.wv.vectors,
        name=NAMES[settings.method],
        tokenizer=tokenizer,
        subwords=subwords_of(model.wv) if settings.method == "fasttext" else None,
        description={"method": settings.method, "tokenizer": tokenizer},
    )
    return Trained(vectors, settings.method, model.corpus_count, words, model)


def _train(model: Any, sentences: _Reread, settings: TrainingSettings) -> int:
    """Train gensim's model, and count the words of the text."""
    model.build_vocab(corpus_iterable=sentences)
    sentences.check()
    words, sentences.words = sentences.words, 0
    if not len(model.wv):
        raise InputError(
            f"none of {words:,} words comes {settings.min_count} times; give more text, or lower "
            "min_count (--min-count)"
        )
    sentences.total = words * settings.epochs
    model.train(
        corpus_iterable=sentences,
        total_examples=model.corpus_count,
        total_words=model.corpus_total_words,
        epochs=settings.epochs,
    )
    sentences.check()
    return words


class _Reread:
    """Sentences to be read several times, with their progress over all readings.

    gensim reads them in a thread of its own, whose end it would await for ever if reading failed.
    So an error ends the sentences, and `check` raises it in the thread that waits.
    """

    def __init__(self, sentences: Iterable[Sentence], progress: Progress | None) -> None:
        self._sentences = sentences
        self._progress = progress
        self._error: Exception | None = None
        self.words = 0
        self.total: int | None = None

    def __iter__(self) -> Iterator[Sentence]:
        try:
            for sentence in self._sentences:
                yield sentence
                self.words += len(sentence)
                if self._progress is not None:
                    self._progress(self.words, self.total)
        except Exception as error:
            self._error = error

    def check(self) -> None:
        """Raise what ended the sentences too early."""
        if self._error is not None:
            raise self._error


def train_from_files(
    patterns: Sequence[str | Path],
    output: str | Path,
    settings: TrainingSettings | None = None,
    *,
    text: TextSettings | None = None,
    lowercase: bool = False,
    force: bool = False,
    progress: Progress | None = None,
) -> Trained:
    """Train static vectors on text files, and write them, complete or not at all.

    Args:
        patterns: Files, globs and folders; see `elmokit.io.text_files.find_files`.
        output: .safetensors is ours, .txt or .vec word2vec's text, .bin word2vec's binary file; of
            "fasttext" .bin is fastText's own, and the only one that stores subwords.
        settings: How to train.
        text: How they are read; None for raw text.
        lowercase: Whether the text is read in lower case.
        force: Replace a file that is there.
        progress: Told the words that are split, and then those that are read.
    """
    settings, text = settings or TrainingSettings(), text or TextSettings(split=True)
    output = Path(output)
    kind = format_of(output)
    check_new(output, force)
    tokenizer = text.tokenizer if text.raw else "whitespace"
    with _split_once(find_files(patterns), text, lowercase, output, progress) as sentences:
        trained = train_vectors(sentences, settings, tokenizer=tokenizer, progress=progress)
    check_new(output, force)
    if settings.method == "fasttext" and kind == "binary":
        with write_atomically(output) as temporary:
            import_gensim().save_facebook_model(trained.model, str(temporary))
    else:
        trained.vectors.save(output)
    return trained


def check_new(output: Path, force: bool) -> None:
    """Raise an error before a file is replaced unasked."""
    if output.exists() and not force:
        raise InputError(f"{output}: is there already; choose another, or force it (--force)")


class _Lines:
    """Sentences stored in a file, a line each, their words separated by spaces."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def __iter__(self) -> Iterator[list[str]]:
        with disk_errors(self._path, "read"), open(self._path, "rb") as file:
            for line in file:
                yield line[:-1].decode("utf-8").split(" ")


@contextmanager
def _split_once(
    files: Sequence[Path],
    text: TextSettings,
    lowercase: bool,
    output: Path,
    progress: Progress | None,
) -> Iterator[_Lines]:
    """The sentences of some files, split once, stored on the disk of the output for all epochs."""
    with disk_errors(output, "written"):
        output.parent.mkdir(parents=True, exist_ok=True)
        folder = TemporaryDirectory(prefix=".tmp-", dir=output.parent, ignore_cleanup_errors=True)
    with folder as name:
        path = Path(name) / "sentences"
        done = 0
        with disk_errors(output, "written"), open(path, "wb") as file:
            for words in read_sentences(files, text):
                line = " ".join(words)
                file.write((line.lower() if lowercase else line).encode("utf-8") + b"\n")
                done += len(words)
                if progress is not None:
                    progress(done, None)
        yield _Lines(path)


class Centre(NamedTuple):
    """A word of a sentence, and the words in its window, in their order."""

    words: tuple[str, ...]
    position: int
    context: tuple[str, ...]

    @property
    def pairs(self) -> list[tuple[str, str]]:
        """The training pairs of skip-gram: the word, and one that it is to predict."""
        return [(self.words[self.position], word) for word in self.context]


def centres(words: Sequence[str], window: int) -> list[Centre]:
    """Each word of a sentence with those up to `window` places away on either side.

    Training itself draws a smaller window for each word, from 1 to `window`, so that near words
    count more; and it leaves out some of the most frequent words.

    >>> [centre.pairs for centre in centres("the quick brown".split(), window=1)]
    [[('the', 'quick')], [('quick', 'the'), ('quick', 'brown')], [('brown', 'quick')]]
    """
    check_size("window", window)
    words = tuple(words)
    return [
        Centre(words, at, words[max(at - window, 0) : at] + words[at + 1 : at + 1 + window])
        for at in range(len(words))
    ]
