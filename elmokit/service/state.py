"""The state of the service: the model, the gatherer of its work, and the metrics."""

from __future__ import annotations

import asyncio
import logging
import time
import warnings
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any, TypeVar

from fastapi import Depends, Request

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
from elmokit.service.errors import RequestError
from elmokit.service.middleware import Limits
from elmokit.service.monitoring import ServiceMetrics, log, log_failure
from elmokit.static.vectors import StaticVectors
from elmokit.system import LARGE_BLOCK
from elmokit.tasks.folder import TaskFolder, task_folders
from elmokit.tasks.layer_store import identity_of_bilm
from elmokit.tasks.trained import TrainedTask
from elmokit.text.scripts import scripts_of

FIRST_TEXT = "Ready."
"""Read before anybody asks: the first text takes a second, as the tokenizer is imported."""
FIRST_SENTENCES = [["word"] * length for length in range(1, 65)]
"""Read then too: a step of every number of rows up to 64, so that its products are made before
anybody waits for them, and the memory that they take is there at once."""
UNUSUAL_WORDS = ["", "\0", "\ud800", "<S>", "x" * 1000]  # one of each kind that a model warns of


@dataclass(frozen=True)
class ServedTask:
    """A trained task, and what is known of it."""

    trained: TrainedTask
    facts: Mapping[str, Any]

    @classmethod
    def load(
        cls,
        folder: TaskFolder,
        embedders: Sequence[Embedder],
        device: str | None,
        progress: Progress | None,
    ) -> ServedTask:
        """Load a task; it reads with one of the models that are there, if that is its own."""
        own = (each for each in embedders if is_of(folder, each))
        trained = TrainedTask.load(folder, bilm=next(own, None), device=device, progress=progress)
        static = trained.model.inputs.static
        if static is not None and not static.look_up_all(progress):
            log(logging.WARNING, "static vectors are gone", task=folder.folder.name)
        texts = [FIRST_TEXT, " ".join(FIRST_SENTENCES[-1])]
        of_pairs = trained.config.kind in ("pair", "reading")
        items = [(text, text) for text in texts] if of_pairs else texts
        try:
            exhaust_warnings(lambda _: trained.predict(items))
        except InputError as error:  # words can be served without the tokenizer's library
            log(logging.WARNING, "raw text cannot be split", why=str(error))
        if trained.bilm is not None:
            exhaust_warnings(trained.bilm.embedder.unusual.note_all)
        return cls(trained, folder.facts())


@dataclass(frozen=True)
class ServedModel:
    """A model and everything that can be asked of it."""

    name: str
    embedder: Embedder
    language_model: LanguageModel | None
    parameters: int
    why_no_words: str = ""
    """What to tell who asks for words, where there is no language model."""
    version: str = ""
    """Of a bundled model."""
    index: NeighbourIndex | None = None
    static: StaticVectors | None = None
    """What a word is without its sentence, to compare with."""
    tasks: Mapping[str, ServedTask] = field(default_factory=dict)
    """Trained tasks, by the names that they are asked by."""

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
            scripts=saved.scripts,
        )
        parameters = parameter_count(saved.weights)
        try:
            embedder.encode([FIRST_TEXT])
        except InputError as error:  # words can be served without the tokenizer's library
            log(logging.WARNING, "raw text cannot be split", why=str(error))
        embedder.embed(FIRST_SENTENCES)
        exhaust_warnings(embedder.unusual.note_all)
        try:
            words = LanguageModel(
                bilm, saved.vocabulary, tokenizer=splitting, scripts=saved.scripts
            )
        except InputError as error:
            return cls(name, embedder, None, parameters, str(error), saved.version)
        exhaust_warnings(words.score)
        return cls(name, embedder, words, parameters, version=saved.version)

    @property
    def block_kept(self) -> int:
        """From how many bytes on a block of memory goes back to the system at once.

        The gates of a large step, in float32, stay: allocated again at each step, they would cost
        a model of the original size a seventh of its speed.
        """
        gates = 4 * 4 * self.embedder.config.cell_size * len(FIRST_SENTENCES)
        return max(LARGE_BLOCK, 2 * gates)

    @property
    def script(self) -> str | None:
        """What most of its words are written in, as Unicode calls it: LATIN, HANGUL."""
        if self.embedder.tokenizer.name == "kiwi":
            return "HANGUL"
        words = self.embedder.vocabulary.words[:1000] if self.embedder.vocabulary else ()
        scripts = scripts_of("".join(words))
        return max(scripts, key=scripts.__getitem__, default=None)

    def facts(self) -> dict[str, Any]:
        """What the model is, as plain values for JSON."""
        config = self.embedder.config
        return {
            "id": self.name,
            "version": self.version or None,
            "layers": config.layer_count,
            "vector_size": config.vector_size,
            "parameters": self.parameters,
            "tokenizer": self.embedder.tokenizer.name,
            "precision": self.embedder.precision,
            "predicts_words": self.language_model is not None,
            "has_index": self.index is not None,
            "script": self.script,
            "config": config.to_dict(),
        }


def load_model(
    model: Location | None = None,
    weights: Location | None = None,
    *,
    vocabulary: Location | None = None,
    index: Location | None = None,
    tasks: Sequence[str | Path] = (),
    progress: Progress | None = None,
    **settings: Any,
) -> ServedModel:
    """Load the bundled English model, a model folder, or an AllenNLP pair; see `read_model`.

    `index` is the folder of an index of occurrences that was built with the same model, `tasks` are
    folders of trained tasks, of any model.
    """
    folders = task_folders(tasks)
    saved = read_model(model, weights, vocabulary=vocabulary, progress=progress)
    served = ServedModel.of(saved, name_of(model), **settings)
    if index is not None:
        found = NeighbourIndex.open(index, served.embedder, model=served.name)
        served = replace(served, index=found)
    loaded: dict[str, ServedTask] = {}
    for name, folder in folders.items():
        used = (task.trained.bilm for task in loaded.values())
        embedders = [served.embedder, *(one.embedder for one in used if one is not None)]
        loaded[name] = ServedTask.load(folder, embedders, settings.get("device"), progress)
    return replace(served, tasks=loaded)


def is_of(folder: TaskFolder, embedder: Embedder) -> bool:
    """Whether a task was trained with this very model, and reads it in the same way."""
    found = identity_of_bilm(embedder)
    about = folder.bilm or {}
    same = all(found[name] == about.get(name) for name in ("state", "precision"))
    return same and found["model"] == about.get("sha256")


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


SLICE_SECONDS = 0.02
"""How long the texts of one request are split before those of others have their turn."""
T = TypeVar("T")


class Service:
    """A model that is being loaded, by `load` in a thread, and then computes.

    `on_loaded` is called on the event loop when the model is there, or cannot be loaded.
    """

    def __init__(
        self,
        load: Callable[[], ServedModel],
        limits: Limits,
        on_loaded: Callable[[], None] = lambda: None,
    ) -> None:
        self.limits = limits
        self.metrics = ServiceMetrics()
        self._load = load
        self._on_loaded = on_loaded
        self._model: ServedModel | None = None
        self.failure: Exception | None = None  # why the model cannot be loaded
        self.gatherer = Gatherer(limits, self.metrics)
        self._splitter = ThreadPoolExecutor(1, thread_name_prefix="splitter")
        self._searcher = ThreadPoolExecutor(1, thread_name_prefix="searcher")
        self._searches = 0
        self.unsent_bytes = 0  # of responses that clients have not taken in full

    @asynccontextmanager
    async def running(self) -> AsyncIterator[asyncio.Task[None]]:
        """Load the model, in the task that is given, then compute; end after a batch."""
        loading = asyncio.create_task(self._load_model())
        try:
            yield loading
        finally:
            loading.cancel()
            await self.gatherer.stop()
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
            raise RequestError("loading", "the model is still being loaded; try again soon")
        return self._model

    def check_room(self, size: int) -> None:
        """Raise HTTP error 503 where clients have not taken too much of other responses yet."""
        if not self.limits.allow("answering_bytes", size, self.unsent_bytes):
            raise RequestError("overloaded", "too many large responses at once; try later")

    async def read(self, function: Callable[[], T]) -> T:
        """Run what reads a text, in a thread: others continue."""
        return await asyncio.get_running_loop().run_in_executor(self._splitter, function)

    async def read_all(self, items: Iterator[T], few: bool = False) -> AsyncIterator[T]:
        """What reading some texts gives; slices, others' in between; of `few` the first at once."""

        def read_slice() -> tuple[list[T], bool]:
            end, found = time.monotonic() + SLICE_SECONDS, []
            for item in items:
                found.append(item)
                if time.monotonic() > end:
                    return found, True
            return found, False

        more = True
        while more:
            found, more = read_slice() if few else await self.read(read_slice)
            few = False
            for item in found:
                yield item

    async def search(self, question: Callable[[NeighbourIndex], T]) -> T:
        """Ask the index, in a thread of its own: the model continues meanwhile."""
        index = self.model.index
        if index is None:
            raise RequestError("no_index", "no index is loaded; start with --index")
        if self._searches >= self.limits.searches:
            raise RequestError("overloaded", "too many searches are waiting; try again later")
        self._searches += 1
        loop = asyncio.get_running_loop()
        try:
            return await loop.run_in_executor(self._searcher, question, index)
        except InputError as error:  # which clients are told, but not where the index is
            error.args = (str(error).replace(f"{index.path}: ", ""),)
            raise
        finally:
            self._searches -= 1

    async def _load_model(self) -> None:
        try:
            self._model = await self.gatherer.call(self._load)
            self.gatherer.start()
        except Exception as error:
            if not isinstance(error, ElmoError):  # which says all in its message
                log_failure("the model cannot be loaded", error)
            self.failure = error
        self._on_loaded()


async def service_of(request: Request) -> Service:
    """The service that a request is for; async, as FastAPI calls others in a thread."""
    service: Service = request.app.state.service
    return service


Serving = Annotated[Service, Depends(service_of)]
