"""A small model behind the service's HTTP, in a thread."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from small_models import COUNTED, small_saved_model
from tasks.small_coref import train_coref
from tasks.small_reading import train_reader
from tasks.small_srl import train_srl
from tasks.small_tasks import embedder, train

from elmokit.analysis.neighbours.index import Neighbour
from elmokit.service.server import ModelServer
from elmokit.service.state import ServedModel, ServedTask
from elmokit.tasks.folder import TaskFolder
from elmokit.text.vocabulary import Vocabulary

KOREAN = Vocabulary(["<S>", "</S>", "<UNK>", "배", "를", "타", "고", "가", "었", "다", "."])


def small_korean_model() -> ServedModel:
    saved = small_saved_model("kiwi", vocabulary=KOREAN, softmax_words=len(KOREAN))
    return ServedModel.of(saved, "small-korean")


def small_served_model(**settings: Any) -> ServedModel:
    saved = small_saved_model(vocabulary=COUNTED, softmax_words=len(COUNTED))
    return ServedModel.of(saved, "small", **settings)


def small_served_tasks(folder: Path) -> dict[str, ServedTask]:
    """A task of each kind, as `elmo serve --task` loads them; they share one model."""
    bilm, few = embedder(), {"training.epochs": 5}
    found = {name: train(folder, name, bilm=bilm) for name in ("spam", "ner", "pos")}
    found["nli"] = train(folder, "nli", few, bilm=bilm)
    found["squad"] = train_reader(folder, few, bilm=bilm)
    found["srl"] = train_srl(folder, bilm=bilm)
    found["coref"] = train_coref(folder, bilm=bilm)
    return {
        name: ServedTask.load(TaskFolder(result.folder), [bilm], None, None)
        for name, result in found.items()
    }


class SmallIndex:
    """Finds the very sentence that it is asked about."""

    def query(self, words, position, *, top, same_word):
        return [Neighbour(tuple(words), position, cosine=0.5, sentence=0)] * top

    def senses(self, word, *, senses):
        numbers = range(1, (senses or 2) + 1)
        example = {"words": ["a", word], "position": 1}
        found = {
            "word": word,
            "senses": [
                {"number": number, "occurrences": 6, "typical": ["a"], "examples": [example]}
                for number in numbers
            ],
            "points": [
                example | {"sense": numbers[n % len(numbers)], "x": n, "y": -n} for n in range(12)
            ],
        }
        return SimpleNamespace(to_dict=lambda: found)


@contextmanager
def running(load: Callable[[], ServedModel], **settings: Any) -> Iterator[str]:
    """A server in a thread; gives its URL without the last slash."""
    ready = threading.Event()
    server = ModelServer(load, port=0, on_ready=lambda server: ready.set(), **settings)
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        assert ready.wait(30)
        yield server.url.rstrip("/")
    finally:
        server.should_exit = True
        thread.join(30)
