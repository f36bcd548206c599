"""The state of the service: the model, the gatherer of its work, and the metrics."""

from __future__ import annotations

import asyncio
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

from fastapi import Request

from elmokit.analysis.neighbours.index import NeighbourIndex
from elmokit.bundled import ENGLISH_SMALL
from elmokit.config import Precision
from elmokit.errors import ElmoError, ElmoWarning, InputError
from elmokit.formats.find import Location, read_model
from elmokit.formats.native import SavedModel, parameter_count
from elmokit.inference.embedder import Embedder
from elmokit.inference.language_model import LanguageModel
from elmokit.io.fetch import Progress
from elmokit.model.bilm import BiLM
from elmokit.service.batching import Gatherer
from elmokit.service.middleware import Limits, RequestError, ServiceMetrics, log_failure
from elmokit.static.vectors import StaticVectors
from elmokit.system import LARGE_BLOCK


class CorpusIndex:
    """An index that `elmo neighbours build` made; what it says never tells where it is.

    Results are plain values for JSON. Safe from any thread.
    """

    def __init__(self, index: NeighbourIndex) -> None:
        self.index = index

    def query(
        self, words: Sequence[str], position: int, top: int, same_word: bool
    ) -> list[Mapping[str, Any]]:
        """The `top` occurrences nearest to the word at a position, as `elmo neighbours query`."""
        with self._unplaced():
            found = self.index.query(words, position, top=top, same_word=same_word)
        return [one.to_dict() for one in found]

    def senses(self, word: str, senses: int | None) -> Mapping[str, Any]:
        """The senses of a word, their number found where it is not given, as `elmo senses`."""
        with self._unplaced():
            return self.index.senses(word, senses=senses).to_dict()

    @contextmanager
    def _unplaced(self) -> Iterator[None]:
        """Take the folder's name out of errors."""
        try:
            yield
        except InputError as error:
            raise InputError(str(error).replace(f"{self.index.path}: ", "")) from None


FIRST_TEXT = "Ready."
"""Read before anybody asks: the first text takes a second, as the tokenizer is imported."""
FIRST_SENTENCES = [["word"] * length for length in range(1, 65)]
"""Read then too: a step of every number of rows up to 64, so that its products are made before
anybody waits for them, and the memory that they take is there at once."""
UNUSUAL_WORDS = ["", "\0", "\ud800", "<S>", "x" * 1000]
"""One of each kind that a model warns of."""


@dataclass(frozen=True)
class ServedModel:
    """A model and everything that can be asked of it."""

    name: str
    embedder: Embedder
    language_model: LanguageModel | None
    parameters: int
    why_no_words: str = ""
    """What to tell who asks for words, where there is no language model."""
    index: CorpusIndex | None = None
    static: StaticVectors | None = None
    """What a word is without its sentence, to compare with."""

    @classmethod
    def of(
        cls,
        saved: SavedModel,
        name: str,
        *,
        tokenizer: str | None = None,
        precision: Precision = "exact",
        device: str | None = None,
    ) -> ServedModel:
        """Make a model of what a file holds; vectors and words share its weights."""
        bilm = BiLM.from_weights(saved.config, saved.weights)
        splitting = tokenizer if tokenizer is not None else saved.tokenizer
        embedder = Embedder(
            bilm,
            tokenizer=splitting,
            vocabulary=saved.vocabulary,
            precision=precision,
            device=device,
        )
        parameters = parameter_count(saved.weights)
        embedder.encode([FIRST_TEXT])
        embedder.embed(FIRST_SENTENCES)
        exhaust_warnings(embedder.note_words)
        try:
            words = LanguageModel(bilm, saved.vocabulary, tokenizer=splitting)
        except InputError as error:
            return cls(name, embedder, None, parameters, str(error))
        exhaust_warnings(words.score)
        return cls(name, embedder, words, parameters)

    @property
    def block_kept(self) -> int:
        """From how many bytes on a block of memory goes back to the system at once.

        The gates of a large step, in float32, stay: allocated again at each step, they would cost
        a model of the original size a seventh of its speed.
        """
        gates = 4 * 4 * self.embedder.config.cell_size * len(FIRST_SENTENCES)
        return max(LARGE_BLOCK, 2 * gates)

    def facts(self) -> dict[str, Any]:
        """What the model is, as plain values for JSON."""
        config = self.embedder.config
        return {
            "id": self.name,
            "layers": config.layer_count,
            "vector_size": config.vector_size,
            "parameters": self.parameters,
            "tokenizer": self.embedder.tokenizer.name,
            "precision": self.embedder.precision,
            "predicts_words": self.language_model is not None,
            "has_index": self.index is not None,
            "config": config.to_dict(),
        }


def load_model(
    model: Location | None = None,
    weights: Location | None = None,
    *,
    vocabulary: Location | None = None,
    index: Location | None = None,
    static: StaticVectors | None = None,
    progress: Progress | None = None,
    **settings: Any,
) -> ServedModel:
    """Load the bundled English model, a model folder, or an AllenNLP pair; see `read_model`.

    `index` is the folder of an index of occurrences that was built with the same model.
    """
    saved = read_model(model, weights, vocabulary=vocabulary, progress=progress)
    served = replace(ServedModel.of(saved, name_of(model), **settings), static=static)
    if index is None:
        return served
    opened = NeighbourIndex.open(index, served.embedder, model=served.name)
    return replace(served, index=CorpusIndex(opened))


def name_of(model: Location | None) -> str:
    """What clients know a model by: never where it is.

    >>> name_of("runs/of-mine/biLM/"), name_of(None)
    ('biLM', 'english-small')
    """
    return ENGLISH_SMALL if model is None else Path(model).name or "model"


def exhaust_warnings(read: Callable[[list[list[str]]], Any]) -> None:
    """Have each kind of unusual word warned of now, with nobody listening.

    A model warns of the first of each kind and shows the word; in a service that would be a
    client's text in a log.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ElmoWarning)
        read([UNUSUAL_WORDS])


T = TypeVar("T")
SHORT_TEXT = 4000
"""Characters of a request that are read at once; more in a thread, while others continue."""


class Service:
    """A model that is being loaded, and then computes.

    Args:
        load: Gives the model; called in a thread when the service starts.
        limits: What requests may cost.
        on_loaded: Called on the event loop when the model is there.
        on_failure: Called on the event loop when it cannot be loaded.
    """

    def __init__(
        self,
        load: Callable[[], ServedModel],
        limits: Limits,
        on_loaded: Callable[[ServedModel], None] | None = None,
        on_failure: Callable[[Exception], None] | None = None,
    ) -> None:
        self.limits = limits
        self.metrics = ServiceMetrics()
        self._load = load
        self._on_loaded = on_loaded
        self._on_failure = on_failure
        self._model: ServedModel | None = None
        self._gatherer: Gatherer | None = None
        self._splitter = ThreadPoolExecutor(1, thread_name_prefix="splitter")
        self._searcher = ThreadPoolExecutor(1, thread_name_prefix="searcher")
        self._searches = 0
        self.unsent_bytes = 0
        """Of responses that clients have not taken yet."""
        self._loading: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Begin to load the model; until it is there, requests are HTTP error 503."""
        self._gatherer = Gatherer(self.limits, self.metrics)
        self._loading = asyncio.create_task(self._load_model(self._gatherer))

    async def loaded(self) -> None:
        """Wait until the model is there, or cannot be."""
        assert self._loading is not None
        await self._loading

    async def stop(self) -> None:
        """End after the batch that is being computed."""
        if self._loading is not None:
            self._loading.cancel()
        if self._gatherer is not None:
            await self._gatherer.stop()
        for executor in (self._splitter, self._searcher):
            executor.shutdown(wait=True, cancel_futures=True)

    @property
    def ready(self) -> bool:
        """Whether the model is there."""
        return self._model is not None

    @property
    def model(self) -> ServedModel:
        """The model."""
        if self._model is None:
            raise RequestError(
                503, "the model is still being loaded; try again soon", retry_after=1
            )
        return self._model

    @property
    def gatherer(self) -> Gatherer:
        """Who has the model compute."""
        assert self._gatherer is not None  # the service has started before it is asked
        return self._gatherer

    async def split(self, texts: Sequence[str]) -> list[list[list[str]]]:
        """The sentences of each raw text, as the model's own text was split."""
        split = self.model.embedder.split
        return await self.read(sum(map(len, texts)), lambda: [split(text) for text in texts])

    async def read(self, characters: int, function: Callable[[], T]) -> T:
        """Run what reads so many characters: in a thread, unless they are few."""
        if characters <= SHORT_TEXT:
            return function()
        return await asyncio.get_running_loop().run_in_executor(self._splitter, function)

    async def search(self, question: Callable[..., Any], *arguments: Any) -> Any:
        """Ask the index, in a thread of its own: the model continues meanwhile."""
        if self._searches >= self.limits.searches:
            raise RequestError(503, "too many searches are waiting; try again later", retry_after=1)
        self._searches += 1
        loop = asyncio.get_running_loop()
        try:
            return await loop.run_in_executor(self._searcher, question, *arguments)
        finally:
            self._searches -= 1

    async def _load_model(self, gatherer: Gatherer) -> None:
        try:
            model = await gatherer.call(self._load)
        except Exception as error:
            if not isinstance(error, ElmoError):  # which says all in its message
                log_failure("the model cannot be loaded", error)
            if self._on_failure is not None:
                self._on_failure(error)
            return
        self._model = model
        gatherer.start()
        if self._on_loaded is not None:
            self._on_loaded(model)


def service_of(request: Request) -> Service:
    """The service that a request is for."""
    service = request.app.state.service
    assert isinstance(service, Service)
    return service
