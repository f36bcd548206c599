"""Train word2vec and fastText on text, by gensim: skip-gram or CBOW with negative sampling."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal, NamedTuple, get_args

from elmokit.config import check_choice, check_number, check_size
from elmokit.errors import InputError
from elmokit.formats.fetch import Progress
from elmokit.formats.files import disk_errors
from elmokit.formats.word_vectors import format_of
from elmokit.formats.word_vectors_fasttext import fasttext_vectors, import_gensim, write_fasttext
from elmokit.static.vectors import NAMES, StaticVectors
from elmokit.text.characters import Sentence
from elmokit.text.corpus import CorpusSettings, find_files, read_sentences
from elmokit.threads import usable_cpus

Method = Literal["skip-gram", "cbow", "fasttext"]


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
        check_number("sample", self.sample)
        check_number("learning_rate", self.learning_rate)
        shortest, longest = self.subwords
        check_size("subwords[0]", shortest)
        check_size("subwords[1]", longest, least=shortest)

    def for_gensim(self) -> dict[str, Any]:
        """The same in gensim's words."""
        settings: dict[str, Any] = {
            "vector_size": self.size,
            "window": self.window,
            "min_count": self.min_count,
            "max_final_vocab": self.max_words,
            "sg": int(self.method != "cbow"),
            "hs": 0,
            "negative": self.negative,
            "sample": self.sample,
            "epochs": self.epochs,
            "alpha": self.learning_rate,
            "workers": self.threads,
            "seed": self.seed,
        }
        if self.method == "fasttext":
            shortest, longest = self.subwords
            settings |= {"bucket": self.buckets, "min_n": shortest, "max_n": longest}
        return settings


class Trained(NamedTuple):
    """What training gives."""

    vectors: StaticVectors
    sentences: int
    words: int  # of the text
    model: Any  # gensim's


@dataclass(frozen=True)
class TrainingSummary:
    """What was trained on, and what it came to."""

    output: str
    method: str
    sentences: int
    words: int
    kept: int
    size: int

    def describe(self) -> str:
        """As a line for people."""
        return (
            f"{self.output}: {self.kept:,} words, vectors of {self.size}, by {self.method} from "
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
        sentences: Can be gone through several times, as a list can: once for the vocabulary, and
            once in each epoch.
        settings: How.
        tokenizer: What has split the text, for `encode` and `tokenize` of the vectors.
        progress: Told the words of the text that are read, all epochs counted, and their number,
            which is not known while they are counted.
    """
    settings = settings or TrainingSettings()
    gensim = import_gensim()
    if isinstance(sentences, str | bytes) or iter(sentences) is sentences:
        raise InputError(
            "expected sentences that can be read several times; make a list of lists of words"
        )
    reread = _Reread(sentences, progress)
    kind = gensim.FastText if settings.method == "fasttext" else gensim.Word2Vec
    model = kind(**settings.for_gensim())
    model.build_vocab(corpus_iterable=reread)
    reread.check()
    if not len(model.wv):
        raise InputError(
            f"none of {reread.words:,} words comes {settings.min_count} times; give more text, "
            "or lower min_count (--min-count)"
        )
    words = reread.expect(settings.epochs)
    model.train(
        corpus_iterable=reread,
        total_examples=model.corpus_count,
        total_words=model.corpus_total_words,
        epochs=settings.epochs,
    )
    reread.check()
    found = _vectors_of(model, settings.method, tokenizer)
    return Trained(found, model.corpus_count, words, model)


def train_from_files(
    patterns: Sequence[str | Path],
    output: str | Path,
    settings: TrainingSettings | None = None,
    *,
    corpus: CorpusSettings | None = None,
    lowercase: bool = False,
    force: bool = False,
    progress: Progress | None = None,
) -> TrainingSummary:
    """Train static vectors on text files, and write them, whole or not at all.

    Args:
        patterns: Files, globs and folders; see `elmokit.text.corpus.find_files`.
        output: .safetensors is ours, .txt or .vec word2vec's text, .bin word2vec's binary file; of
            "fasttext" .bin is fastText's own, and the only one that keeps subwords.
        settings: How to train.
        corpus: How lines become sentences.
        lowercase: Whether the text is read in lower case.
        force: Replace a file that is there.
        progress: Told the words that are split, and then those that are read, as in
            `train_vectors`.
    """
    settings = settings or TrainingSettings()
    corpus = corpus or CorpusSettings()
    output = Path(output)
    format_of(output)
    check_new(output, force)
    files = find_files(patterns)
    with _split_once(files, corpus, lowercase, output, progress) as sentences:
        trained = train_vectors(sentences, settings, tokenizer=corpus.tokenizer, progress=progress)
    check_new(output, force)
    if settings.method == "fasttext" and output.suffix.lower() == ".bin":
        write_fasttext(output, trained.model)
    else:
        trained.vectors.save(output)
    return TrainingSummary(
        str(output),
        settings.method,
        trained.sentences,
        trained.words,
        len(trained.vectors),
        settings.size,
    )


def check_new(output: Path, force: bool) -> None:
    """Refuse to replace a file unasked."""
    if output.exists() and not force:
        raise InputError(f"{output}: is there already; choose another, or force it (--force)")


def _vectors_of(model: Any, method: Method, tokenizer: str) -> StaticVectors:
    subwords = fasttext_vectors(model.wv).subwords if method == "fasttext" else None
    return StaticVectors(
        model.wv.index_to_key,
        model.wv.vectors,
        name=NAMES[method],
        tokenizer=tokenizer,
        subwords=subwords,
        description={"method": method, "tokenizer": tokenizer},
    )


class _Reread:
    """Sentences to be read several times, with their progress over all readings.

    gensim reads them in a thread of its own, whose end it would await for ever if reading failed.
    So an error ends the sentences, and `check` raises it in the thread that waits.
    """

    def __init__(self, sentences: Iterable[Sentence], progress: Progress | None) -> None:
        self._sentences = sentences
        self._progress = progress
        self._total: int | None = None
        self._error: Exception | None = None
        self.words = 0

    def __iter__(self) -> Iterator[Sentence]:
        try:
            for sentence in self._sentences:
                yield sentence
                self.words += len(sentence)
                if self._progress is not None:
                    self._progress(self.words, self._total)
        except Exception as error:
            self._error = error

    def expect(self, epochs: int) -> int:
        """Count anew, for so many readings of all the words that were counted; give these."""
        counted, self.words = self.words, 0
        self._total = counted * epochs
        return counted

    def check(self) -> None:
        """Raise what ended the sentences too early."""
        if self._error is not None:
            raise self._error


class _Lines:
    """Sentences kept in a file, a line each, their words separated by blanks."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def __iter__(self) -> Iterator[list[str]]:
        with disk_errors(self._path, "read"), open(self._path, "rb") as file:
            for line in file:
                yield line[:-1].decode("utf-8").split(" ")


@contextmanager
def _split_once(
    files: Sequence[Path],
    corpus: CorpusSettings,
    lowercase: bool,
    output: Path,
    progress: Progress | None,
) -> Iterator[_Lines]:
    """The sentences of some files, split once, kept on the disk of the output for all epochs."""
    with disk_errors(output, "written"):
        output.parent.mkdir(parents=True, exist_ok=True)
        folder = TemporaryDirectory(prefix=".tmp-", dir=output.parent, ignore_cleanup_errors=True)
    with folder as name:
        path = Path(name) / "sentences"
        done = 0
        with disk_errors(output, "written"), open(path, "wb") as file:
            for words in read_sentences(files, corpus):
                line = " ".join(words)
                file.write((line.lower() if lowercase else line).encode("utf-8") + b"\n")
                done += len(words)
                if progress is not None:
                    progress(done, None)
        yield _Lines(path)
