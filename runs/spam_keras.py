"""The spam classifier of a well-known Keras tutorial: its accuracy and seconds beside ours.

    python -m runs.spam_keras                    # the tutorial, line by line
    python -m runs.spam_keras --head pooled      # what reads more out of the vectors
    python -m runs.spam_keras --head pooled --folds 5 --seeds 1    # to choose without the test

The tutorial: `spam.csv` in its order, duplicates kept, the first four fifths to train on; ELMo's
output `default`, a dense layer of 256, one of 1; binary cross-entropy, Adam, batches of 60, one
epoch. Every seed begins with nothing loaded. Its seconds are those of training: loading the model,
reading the messages, all epochs; testing is not in them.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from benchmarks.machine import one_line_errors
from elmokit.adaptors.keras import ElmoLayer, ElmoTextModel, keras, text_input
from elmokit.adaptors.text_reader import unload_models
from elmokit.config import Count, checked
from runs.spam_data import Messages, Result, Row, parser_of, parts_of, print_table, sizes_of

BATCH = 60
DENSE = 256


def tutorial_head(model: str | None) -> list[Any]:
    """The tutorial's: the mean over words of a mix that is trained, words split on spaces."""
    return [ElmoLayer(model, trainable=True)]


def pooled_head(model: str | None) -> list[Any]:
    """Mean and maximum of each layer, brought to one scale; words as the model's tokenizer has it.

    The hub's output is the mean alone, and of layers that differ in scale.
    """
    return [
        ElmoLayer(model, output="pooled", tokenizer="default"),
        keras.layers.BatchNormalization(momentum=0.9),  # there are 75 batches in an epoch
    ]


HEADS = {"tutorial": tutorial_head, "pooled": pooled_head}
EPOCHS = {"tutorial": 1, "pooled": 15}


class EpochEnds(keras.callbacks.Callback):  # type: ignore[misc]
    """When each epoch ended."""

    def __init__(self) -> None:
        super().__init__()
        self.times: list[float] = []

    def on_epoch_end(self, epoch: int, logs: object = None) -> None:
        """Keep the time."""
        self.times.append(time.perf_counter())


def build(head: str, model: str | None) -> ElmoTextModel:
    """The network, ready to be trained."""
    network = keras.Sequential(
        [
            text_input(),
            *HEADS[head](model),
            keras.layers.Dense(DENSE, activation="relu"),
            keras.layers.Dense(1, activation="sigmoid"),
        ]
    )
    network.compile(loss="binary_crossentropy", optimizer="adam", metrics=["accuracy"])
    return ElmoTextModel(network)


def train_and_test(
    train: Messages, test: Messages, head: str, model: str | None, epochs: int, seed: int
) -> Result:
    """Train one model from nothing, and test it."""
    unload_models()
    keras.utils.set_random_seed(seed)
    ends = EpochEnds()
    started = time.perf_counter()
    network = build(head, model)
    built = time.perf_counter()
    network.fit(*train, batch_size=BATCH, epochs=epochs, verbose=0, callbacks=[ends])
    ended = time.perf_counter()
    _, accuracy = network.evaluate(*test, batch_size=BATCH, verbose=0)
    return Result(accuracy, ends.times[0] - built, ended - started)


@one_line_errors()
def main(arguments: Sequence[str] | None = None) -> None:
    """Read the command line; print a table, or in one line what went wrong."""
    parser = parser_of(__doc__.splitlines()[0])
    parser.add_argument("--head", choices=HEADS, default="tutorial")
    parser.add_argument("--seeds", type=int, default=3, help="how often everything is done")
    parser.add_argument("--epochs", type=int, help="1 for the tutorial's head, 15 for the other")
    parsed = parser.parse_args(arguments)
    epochs = EPOCHS[parsed.head] if parsed.epochs is None else parsed.epochs
    checked("epochs", epochs, Count)
    checked("seeds", parsed.seeds, Count)
    parts = parts_of(parsed)
    results = [
        train_and_test(train, test, parsed.head, parsed.model, epochs, seed)
        for seed in range(1, 1 + parsed.seeds)
        for train, test in parts
    ]
    row = Row(f"Keras, {parsed.head}", sizes_of(parts), str(epochs), results)
    print_table("spam_keras", arguments, [row])


if __name__ == "__main__":
    main()
