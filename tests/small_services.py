"""A small model behind the service's HTTP, in a thread."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from small_language_models import COUNTED
from small_models import small_bilm

from elmokit.formats.native import SavedModel
from elmokit.service.server import serve
from elmokit.service.state import ServedModel


def small_served_model(**settings: Any) -> ServedModel:
    bilm = small_bilm(softmax_words=len(COUNTED))
    saved = SavedModel(bilm.config, bilm.state_dict(), tokenizer="default", vocabulary=COUNTED)
    return ServedModel.of(saved, "small", **settings)


class SmallIndex:
    """Answers with the very sentence that it is asked about."""

    def query(self, words, position, top, same_word):
        return [{"words": list(words), "position": position, "cosine": 0.5}] * top

    def senses(self, word, senses):
        numbers = range(1, (senses or 2) + 1)
        example = {"words": ["a", word], "position": 1}
        return {
            "word": word,
            "senses": [
                {"number": number, "occurrences": 6, "typical": ["a"], "examples": [example]}
                for number in numbers
            ],
            "points": [
                example | {"sense": numbers[n % len(numbers)], "x": n, "y": -n} for n in range(12)
            ],
        }


@contextmanager
def running(load: Callable[[], ServedModel], **settings: Any) -> Iterator[str]:
    """A server in a thread; gives its URL without the last slash."""
    ready = threading.Event()
    listening = serve(load, port=0, on_ready=lambda url, model: ready.set(), **settings)
    thread = threading.Thread(target=listening.run)
    thread.start()
    try:
        assert ready.wait(30)
        yield listening.url.rstrip("/")
    finally:
        listening.server.should_exit = True
        thread.join(30)
