"""Words per second of the service, beside the library in bulk and beside one request at a time.

    python -m benchmarks.service                    both sizes, some minutes on 2 cores
    python -m benchmarks.service --size bundled     one of them: bundled, original
    python -m benchmarks.service --soak 600         full load for ten minutes, answers checked
    python -m benchmarks.service --soak 600 --task my-ner --task my-spam    vectors and tasks mixed
    python -m benchmarks.service --processes        one service beside two of one thread each

The clients are a process of their own; they ask for the vector of one sentence after another, over
connections that they keep: a batch can have no more sentences than there are clients, and the
library's rate with so few a call is the most that the service can reach. A vector is the mean over
the words, of the average of the layers (`/embed`), or of layer 0 (`/v1/embeddings`), which needs no
LSTM; the library computes the same. Everything is measured in turns in one run: in bulk in this
process; gathered, with the service as it is; one at a time, with a service that computes every
request by itself. Linux only, for the memory of the service.
The original size has random weights: speed does not depend on them.
"""

from __future__ import annotations

import argparse
import asyncio
import io
import json
import multiprocessing
import resource
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from itertools import product
from multiprocessing.connection import Connection
from multiprocessing.context import ForkServerContext
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import numpy as np
import torch

from benchmarks.embedding import SIZES
from benchmarks.machine import describe, heading
from benchmarks.text import real_sentences
from elmokit import BiLM
from elmokit.formats.native import SavedModel
from elmokit.service import batching as gathering
from elmokit.service.server import ModelServer
from elmokit.service.state import ServedModel, load_model
from elmokit.system import (
    SHAPES_OF_A_SERVICE,
    give_back_large_blocks,
    remember_few_shapes,
    use_threads,
)

EMBED, EMBEDDINGS = "/embed", "/v1/embeddings"
LAYERS = {"average": EMBED, "0": EMBEDDINGS}  # whose vectors they give
CLIENTS = 64
SECONDS = 16.0
TURNS = 3
SENTENCES = 4096
SENTENCES_PER_CALL = 512
NEAR = 1e-5
MOST_GROWTH = 0.05
WARM_UP = 4
"""Minutes of ten until the caches of words and of shapes of products are full; each is printed."""


SIZES_MEASURED = ("bundled", "original")


@dataclass
class Load:
    """What the clients have seen."""

    requests: int
    words: int
    seconds: float
    latencies: list[float]
    failures: int
    client_seconds: float
    """Of CPU time, of all clients together."""
    worst: float = 0.0
    """The largest difference to what the library gives."""

    @property
    def words_per_second(self) -> float:
        """Words whose vectors arrived."""
        return self.words / self.seconds

    def percentile(self, share: float) -> float:
        """Milliseconds within which this share of the requests was answered."""
        return 1000 * float(np.quantile(self.latencies, share)) if self.latencies else 0.0


class Running(NamedTuple):
    """A service in a process of its own."""

    address: str
    process: BaseProcess

    @property
    def resident_bytes(self) -> int:
        """Its memory."""
        pages = Path(f"/proc/{self.process.pid}/statm").read_text().split()[1]
        return int(pages) * resource.getpagesize()


@contextmanager
def running(
    size: str, gathers: bool = True, tasks: Sequence[str] = (), threads: int | None = None
) -> Iterator[Running]:
    """The service of a model in a process of its own, as `elmo serve` is one.

    Two threads of one process that both compute have two teams of OpenMP, more threads than cores;
    then these no longer wait for each other but sleep, and everything takes twice the time.
    """
    receiver, sender = context().Pipe(duplex=False)
    process = context().Process(target=run_service, args=(sender, size, gathers, tasks, threads))
    process.start()
    sender.close()  # so that a service which ends without a word is noticed
    try:
        yield Running(receiver.recv(), process)
    finally:
        process.terminate()
        process.join()


def run_service(
    sender: Connection, size: str, gathers: bool, tasks: Sequence[str], threads: int | None
) -> None:
    """The service's own process; one that does not gather computes each request by itself."""
    use_threads(threads)
    give_back_large_blocks()
    if not gathers:
        gathering.COST_PER_BATCH = 1  # which the first sentence fills

    def load() -> ServedModel:
        model = model_of(size, tasks)
        give_back_large_blocks(model.block_kept)
        return model

    ModelServer(load, port=0, on_ready=lambda server: sender.send(server.url)).run()


@cache
def context() -> ForkServerContext:
    """How processes are started: from one that has loaded PyTorch and computed nothing."""
    remember_few_shapes(SHAPES_OF_A_SERVICE)  # as `elmo serve` does
    found = multiprocessing.get_context("forkserver")
    found.set_forkserver_preload(["benchmarks.embedding", "elmokit.service.server"])
    return found


class Question(NamedTuple):
    """What a client asks, and what it should be told."""

    path: str
    body: bytes
    words: int
    expected: Any = None  # a vector, or the answers of a task; None where nobody looks

    def error(self, content: bytes) -> float:
        """The largest difference between what came and what should; infinite for a wrong answer."""
        if self.expected is None:
            return 0.0
        if self.path != EMBED:
            return 0.0 if json.loads(content)["answers"] == self.expected else float("inf")
        return float(np.abs(np.load(io.BytesIO(content))[0] - self.expected).max())


def questions_about(
    texts: Sequence[str], words: Sequence[int], path: str = EMBED, expected: Any = None
) -> list[Question]:
    """For the vector of each text."""
    return [
        Question(path, body_of(path, text), count, None if expected is None else expected[n])
        for n, (text, count) in enumerate(zip(texts, words, strict=True))
    ]


def body_of(path: str, text: str) -> bytes:
    """A request for the vector of a text."""
    openai = {"input": text, "model": "", "encoding_format": "base64"}
    return json.dumps({"texts": [text], "pool": "mean"} if path == EMBED else openai).encode()


def questions_for_tasks(
    model: ServedModel, texts: Sequence[str], words: Sequence[int]
) -> list[Question]:
    """To each task in turn, with what the library answers."""
    count, found = len(model.tasks), [Question("", b"", 0)] * len(texts)
    for place, (name, task) in enumerate(model.tasks.items()):
        numbers = range(place, len(texts), count)
        predictions = task.trained.predict([texts[n] for n in numbers])
        for n, prediction in zip(numbers, predictions, strict=True):
            body = json.dumps({"texts": [texts[n]]}).encode()
            found[n] = Question(f"/tasks/{name}", body, words[n], [prediction.to_answer()])
    return found


def ask(
    address: str, questions: Sequence[Question], seconds: float, clients: int = CLIENTS
) -> Load:
    """What clients in another process see that ask for so long, all at once.

    Of several addresses, with spaces between, each client has one, as behind a proxy.
    """
    receiver, sender = context().Pipe(duplex=False)
    arguments = (sender, address, list(questions), seconds, clients)
    process = context().Process(target=run_clients, args=arguments)
    process.start()
    sender.close()  # so that clients which end without a word are noticed
    load = receiver.recv()
    process.join()
    assert isinstance(load, Load)
    return load


def run_clients(sender, address, questions, seconds, clients):  # type: ignore[no-untyped-def]
    """The clients' own process."""
    sender.send(asyncio.run(gather_clients(address, questions, seconds, clients)))


async def gather_clients(
    address: str, questions: list[Question], seconds: float, clients: int
) -> Load:
    """Let all clients ask until the time is up."""
    load = Load(0, 0, 0.0, [], 0, 0.0)
    started, used = time.perf_counter(), time.process_time()
    end = started + seconds
    addresses = address.split()
    await asyncio.gather(
        *(
            client(addresses[number % len(addresses)], questions, number, end, load)
            for number in range(clients)
        )
    )
    load.seconds = time.perf_counter() - started
    load.client_seconds = time.process_time() - used
    return load


async def client(
    address: str, questions: list[Question], number: int, end: float, load: Load
) -> None:
    """One client: a sentence after another, over a connection that it opens again when it is lost.

    It speaks HTTP by itself: a client library takes more time than the service.
    """
    place = urlsplit(address)
    connection = None
    turn = number * 61
    while (asked := time.perf_counter()) < end:
        question = questions[turn % len(questions)]
        turn += 1
        load.requests += 1
        try:
            if connection is None:
                connection = await asyncio.open_connection(place.hostname, place.port)
            body = await exchange(*connection, place.netloc, question)
        except (OSError, EOFError):
            connection, body = None, None
            await asyncio.sleep(0.01)
        if body is None:
            load.failures += 1
            continue
        load.words += question.words
        load.latencies.append(time.perf_counter() - asked)
        load.worst = max(load.worst, question.error(body))
    if connection is not None:
        connection[1].close()


async def exchange(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, host: str, question: Question
) -> bytes | None:
    """Send one body; what is answered, None where that is a refusal."""
    head = (
        f"POST {question.path} HTTP/1.1\r\nhost: {host}\r\n"
        f"content-type: application/json\r\naccept: application/x-npy\r\n"
        f"content-length: {len(question.body)}\r\n\r\n"
    )
    writer.write(head.encode() + question.body)
    answer = await reader.readuntil(b"\r\n\r\n")
    length = int(answer.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
    content = await reader.readexactly(length)
    return content if answer.startswith(b"HTTP/1.1 200") else None


def model_of(size: str, tasks: Sequence[str] = ()) -> ServedModel:
    """The bundled model, with trained tasks if there are any, or one of the original's size."""
    if size == "bundled":
        return load_model(tokenizer="whitespace", tasks=tasks)
    torch.manual_seed(0)
    bilm = BiLM(SIZES["original"])
    saved = SavedModel(bilm.config, bilm.state_dict(), tokenizer="whitespace")
    return ServedModel.of(saved, size)


def bulk_rate(
    model: ServedModel, layers: str, sentences: list[list[str]], seconds: float, per_call: int
) -> float:
    """Words per second of the library in this process, so many sentences in each call."""
    done, words, started = 0, 0, time.perf_counter()
    while time.perf_counter() - started < seconds:
        batch = sentences[done % len(sentences) :][:per_call]
        model.embedder.embed(batch, layers, "mean")
        done += len(batch)
        words += sum(map(len, batch))
    return words / (time.perf_counter() - started)


def measure(size: str, layers: str, seconds: float, turns: int, count: int) -> None:
    """Print the rows of one size and of some layers: the best of several turns of each way."""
    model = model_of(size)
    sentences = real_sentences(count)[1]
    texts = [" ".join(words) for words in sentences]
    questions = questions_about(texts, [len(words) for words in sentences], LAYERS[layers])
    model.embedder.embed(sentences[:256])
    bulk, few, gathered, alone = 0.0, 0.0, [], []
    with running(size) as service, running(size, gathers=False) as plain:
        for each in (service, plain):
            ask(each.address, questions, 1.0)  # packs weights, warms threads
        for _ in range(turns):
            bulk = max(bulk, bulk_rate(model, layers, sentences, seconds, SENTENCES_PER_CALL))
            few = max(few, bulk_rate(model, layers, sentences, seconds, CLIENTS))
            gathered.append(ask(service.address, questions, seconds))
            alone.append(ask(plain.address, questions, seconds))
    best = max(gathered, key=lambda load: load.words_per_second)
    single = max(alone, key=lambda load: load.words_per_second)
    size = f"{size}, {layers}"
    print(f"| {size} | in bulk, {SENTENCES_PER_CALL} sentences a call | {bulk:,.0f} | | | | |")
    label = f"in bulk, {CLIENTS} sentences a call"
    print(f"| {size} | {label} | {few:,.0f} | {few / bulk:.0%} | | | |")
    for label, load in (("gathered", best), ("one at a time", single)):
        print(
            f"| {size} | {CLIENTS} clients, {label} | {load.words_per_second:,.0f} | "
            f"{load.words_per_second / bulk:.0%} | {load.percentile(0.5):.0f} / "
            f"{load.percentile(0.99):.0f} ms | {load.failures} | "
            f"{load.client_seconds / load.seconds:.0%} |"
        )
    ratio = best.words_per_second / single.words_per_second
    print(f"| {size} | gathered : one at a time | {ratio:.1f} x | | | | |", flush=True)


def measure_processes(size: str, seconds: float, turns: int, count: int) -> None:
    """Print a row for one service with all cores, and one for two of one thread each."""
    sentences = real_sentences(count)[1]
    texts, counts = [" ".join(words) for words in sentences], [len(words) for words in sentences]
    questions = questions_about(texts, counts)
    with running(size) as one, running(size, threads=1) as two, running(size, threads=1) as three:
        cases = {"one process": [one], "two processes, a thread each": [two, three]}
        addresses = {name: " ".join(each.address for each in of) for name, of in cases.items()}
        loads: dict[str, list[Load]] = {name: [] for name in cases}
        for turn in range(turns + 1):
            for name, address in addresses.items():
                load = ask(address, questions, seconds if turn else 1.0)
                if turn:  # the first packs weights and warms threads
                    loads[name].append(load)
        for name, of in cases.items():
            best = max(loads[name], key=lambda load: load.words_per_second)
            memory = sum(each.resident_bytes for each in of) / 2**20
            print(
                f"| {size} | {name} | {best.words_per_second:,.0f} | {best.percentile(0.5):.0f} / "
                f"{best.percentile(0.99):.0f} ms | {best.failures} | {memory:,.0f} MB |",
                flush=True,
            )


def soak(seconds: float, count: int, tasks: Sequence[str]) -> None:
    """Print memory and differences minute by minute under full load; tasks are every second."""
    model = model_of("bundled", tasks)
    sentences = real_sentences(count)[1]
    texts = [" ".join(words) for words in sentences]
    counts = [len(words) for words in sentences]
    questions = questions_about(texts, counts, expected=model.embedder.encode(texts, "average"))
    if tasks:
        asked = questions_for_tasks(model, texts[::2], counts[::2])
        questions = [each for two in zip(asked, questions[1::2], strict=False) for each in two]
    part = min(60.0, max(1.0, seconds / 10))
    requests, failures, worst = 0, 0, 0.0
    memories: list[int] = []
    print(heading("seconds", "words/s", "p99", "failures", "largest difference", "memory"))
    with running("bundled", tasks=tasks) as service:
        started = time.perf_counter()
        while (passed := time.perf_counter() - started) < seconds:
            load = ask(service.address, questions, part)
            memories.append(service.resident_bytes)
            print(
                f"| {passed + part:.0f} | {load.words_per_second:,.0f} | "
                f"{load.percentile(0.99):.0f} ms | {load.failures} | {load.worst:.1e} | "
                f"{memories[-1] / 2**20:,.0f} MB |",
                flush=True,
            )
            requests, failures = requests + load.requests, failures + load.failures
            worst = max(worst, load.worst)
    warm = memories[WARM_UP - 1 :] or memories
    growth = max(warm) / warm[0] - 1
    print(
        f"\n{requests:,} requests, {failures} failures; largest difference to the library "
        f"{worst:.1e}; memory grew by {growth:.1%} after the first {WARM_UP * part:.0f} s"
    )
    if failures or worst > NEAR or growth > MOST_GROWTH:
        raise SystemExit(f"wanted: no failure, {NEAR:.0e} at most, {MOST_GROWTH:.0%} at most")


def main() -> None:
    """Print the table, or the soak's."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--size", action="append", choices=SIZES_MEASURED)
    parser.add_argument("--layers", action="append", choices=LAYERS)
    parser.add_argument("--seconds", type=float, default=SECONDS)
    parser.add_argument("--turns", type=int, default=TURNS)
    parser.add_argument("--sentences", type=int, default=SENTENCES)
    parser.add_argument("--soak", type=float, metavar="SECONDS")
    parser.add_argument("--task", action="append", default=[], metavar="FOLDER")
    parser.add_argument("--processes", action="store_true")
    arguments = parser.parse_args()
    print(f"{describe()}; text: {real_sentences(1)[0]}\n")
    if arguments.soak:
        soak(arguments.soak, arguments.sentences, arguments.task)
        return
    given = (arguments.seconds, arguments.turns, arguments.sentences)
    if arguments.processes:
        print(heading("size", "case", "words/s", "p50 / p99", "failures", "memory"))
        for size in arguments.size or SIZES_MEASURED:
            measure_processes(size, *given)
        return
    columns = ("words/s", "of bulk", "p50 / p99", "failures", "clients' share of a core")
    print(heading("size, layers", "case", *columns))
    for size, layers in product(arguments.size or SIZES_MEASURED, arguments.layers or LAYERS):
        measure(size, layers, *given)


if __name__ == "__main__":
    main()
