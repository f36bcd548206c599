"""Training of word2vec and fastText by gensim: skip-gram or CBOW with negative sampling."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal, NamedTuple

from elmokit.config import Count, CountOrZero, Number, Settings, checked
from elmokit.errors import InputError
from elmokit.io.fetch import Progress
from elmokit.io.files import check_new_file, disk_errors, write_atomically
from elmokit.io.text_files import Errors, TextSettings, find_files
from elmokit.jobs.progress import Observer
from elmokit.static.files import format_of, import_gensim, subwords_of
from elmokit.static.vectors import NAMES, Contextual, StaticVectors
from elmokit.system import import_extra, usable_cpus
from elmokit.text.characters import Sentence
from elmokit.text.tokenizer import read_sentences

Method = Literal["skip-gram", "cbow", "fasttext"]

GENSIM_NAMES = {
    "size": "vector_size", "max_words": "max_final_vocab", "learning_rate": "alpha",
    "threads": "workers", "buckets": "bucket",
}  # fmt: skip
"""What gensim calls a setting, where its name is another."""


@dataclass(frozen=True)
class TrainingSettings(Settings):
    """How static vectors are trained.

    Attributes:
        method: "skip-gram" predicts the words around a word, "cbow" a word from those around it,
            "fasttext" is skip-gram on subwords.
        size: Numbers of a vector.
        window: The most places between a word and one around it.
        min_count: Words that come less often are left out of the text.
        max_words: Keep no more words than these, the most frequent; all of them if None.
        negative: Random words beside each right one.
        epochs: Times to read the text.
        learning_rate: At the start; it falls to almost nothing.
        threads: Several are faster; only one trains the same vectors again.
        seed: Of all randomness.
        buckets: Of fastText: subwords share so many vectors.
    """

    method: Method = "skip-gram"
    size: Count = 100
    window: Count = 5
    min_count: Count = 5
    max_words: Count | None = None
    negative: Count = 5
    epochs: Count = 5
    learning_rate: Number = 0.025
    threads: Count = field(default_factory=usable_cpus)
    seed: CountOrZero = 1
    buckets: Count = 200_000

    def for_gensim(self) -> dict[str, Any]:
        """The same in gensim's words."""
        settings = {GENSIM_NAMES.get(name, name): value for name, value in vars(self).items()}
        settings["sg"] = int(settings.pop("method") != "cbow")
        if self.method != "fasttext":
            del settings["bucket"]
        return settings


class Trained(NamedTuple):
    """What training gives."""

    vectors: StaticVectors
    sentences: int
    words: int  # of the text
    model: Any  # gensim's


def train_vectors(
    sentences: Iterable[Sentence],
    settings: TrainingSettings,
    *,
    tokenizer: str = "default",
    observer: Observer | None = None,
) -> Trained:
    """Train static vectors on sentences that `tokenizer` has split; they are read several times."""
    kind = "FastText" if settings.method == "fasttext" else "Word2Vec"
    model = getattr(import_gensim(), kind)(**settings.for_gensim())
    words = _train(model, _Reread(sentences), settings, observer or Observer())
    vectors = StaticVectors(
        model.wv.index_to_key,
        model.wv.vectors,
        name=NAMES[settings.method],
        tokenizer=tokenizer,
        subwords=subwords_of(model.wv) if settings.method == "fasttext" else None,
        description={"method": settings.method, "tokenizer": tokenizer},
    )
    return Trained(vectors, model.corpus_count, words, model)


def _train(model: Any, sentences: _Reread, settings: TrainingSettings, observer: Observer) -> int:
    """Train gensim's model, and count the words of the text."""
    with observer.stage("counting words", "word") as sentences.progress:
        model.build_vocab(corpus_iterable=sentences)
    sentences.check()
    words, sentences.words = sentences.words, 0
    if not len(model.wv):
        raise InputError(
            f"none of {words:,} words comes {settings.min_count} times; give more text, or lower "
            "min_count (--min-count)"
        )
    total = words * settings.epochs
    with observer.stage("training", "word", total) as sentences.progress:
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

    def __init__(self, sentences: Iterable[Sentence]) -> None:
        self._sentences = sentences
        self._error: Exception | None = None
        self.progress: Progress
        self.words = 0

    def __iter__(self) -> Iterator[Sentence]:
        try:
            for sentence in self._sentences:
                yield sentence
                self.words += len(sentence)
                self.progress(self.words, None)
        except Exception as error:
            self._error = error

    def check(self) -> None:
        """Raise what ended the sentences too early."""
        if self._error is not None:
            raise self._error


def train_from_files(
    patterns: Sequence[str | Path],
    output: str | Path,
    settings: TrainingSettings,
    *,
    text: TextSettings | None = None,
    lowercase: bool = False,
    force: bool = False,
    observer: Observer | None = None,
) -> Trained:
    """Train static vectors on text files, and write them, complete or not at all.

    `patterns` are those of `find_files`; without `text`, which says how files are read, they are
    raw. The output is as of `save_word_vectors`, but of "fasttext" .bin is fastText's own, the only
    one that stores subwords. One that is there is replaced only by `force`.
    """
    text = text or TextSettings(split=True)
    output = Path(output)
    kind = format_of(output)
    check_new_file(output, force)
    tokenizer = (text.tokenizer or "default") if text.raw else "whitespace"
    observer = observer or Observer()
    with _split_once(find_files(patterns), text, lowercase, output, observer) as sentences:
        trained = train_vectors(sentences, settings, tokenizer=tokenizer, observer=observer)
    check_new_file(output, force)
    if settings.method == "fasttext" and kind == "binary":
        with write_atomically(output) as temporary:
            import_gensim().save_facebook_model(trained.model, str(temporary))
    else:
        trained.vectors.save(output)
    return trained


def model_vectors(
    patterns: Sequence[str | Path],
    output: str | Path,
    load: Callable[[], Contextual],
    *,
    errors: Errors = "strict",
    encoding: str = "utf-8",
    force: bool = False,
    observer: Observer | None = None,
    **how: Any,
) -> StaticVectors:
    """Write the static vectors of the words of text files by the model that `load` gives.

    It is loaded once text and output are fine. `how` is for `StaticVectors.from_model`.
    """
    format_of(output)
    check_new_file(output, force)
    files, embedder, observer = find_files(patterns), load(), observer or Observer()
    text = TextSettings.of_corpus(embedder.tokenizer.name, errors=errors, encoding=encoding)
    with _split_once(files, text, False, Path(output), observer) as sentences:
        vectors = StaticVectors.from_model(embedder, sentences, observer=observer, **how)
    check_new_file(output, force)
    vectors.save(output)
    return vectors


@contextmanager
def _split_once(
    files: Sequence[Path], text: TextSettings, lowercase: bool, output: Path, observer: Observer
) -> Iterator[Iterable[Sentence]]:
    """The sentences of some files, split once, stored on the disk of the output for all epochs."""
    with disk_errors(output, "written"):
        output.parent.mkdir(parents=True, exist_ok=True)
        folder = TemporaryDirectory(prefix=".tmp-", dir=output.parent, ignore_cleanup_errors=True)
    with folder as name:
        path = Path(name) / "sentences"
        done = 0
        with (
            observer.stage("splitting the text", "word") as progress,
            disk_errors(output, "written"),
            open(path, "wb") as file,
        ):
            for words in read_sentences(files, text):
                line = " ".join(words)
                file.write((line.lower() if lowercase else line).encode("utf-8") + b"\n")
                done += len(words)
                progress(done, None)
        yield import_extra("gensim.models.word2vec", "static").LineSentence(str(path))


def skip_gram_pairs(words: Sequence[str], window: int) -> list[list[tuple[str, str]]]:
    """For each word of a sentence its training pairs: the word, and one that it is to predict.

    These are the words up to `window` places away on either side. Training itself draws a smaller
    window for each word, from 1 to `window`, so that near words count more; and it leaves out some
    of the most frequent words.

    >>> skip_gram_pairs("the quick brown".split(), window=1)
    [[('the', 'quick')], [('quick', 'the'), ('quick', 'brown')], [('brown', 'quick')]]
    """
    checked("window", window, Count)
    return [
        [(word, other) for other in (*words[max(at - window, 0) : at], *words[at + 1 :][:window])]
        for at, word in enumerate(words)
    ]
