"""Texts of a request: split in slices, counted, within the limits."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import NamedTuple, TypeVar

from elmokit.inference.embedder import Vectors
from elmokit.service import schemas
from elmokit.service.batching import Embedding
from elmokit.service.errors import RequestError
from elmokit.service.state import Service
from elmokit.text.tokenizer import Token, Tokenizer, each_sentence, split_text

T = TypeVar("T")
LEAST_BYTES = 4  # of a number in a response
FEW_CHARACTERS = 128  # split sooner than a thread is waked, except by Kiwi; a text counts 1 more


class ReadTexts(dict[str, list[list[Token]]]):
    """A tokenizer of texts that are split already; a `KeyError` names another."""

    name, sentences = "", dict.__getitem__

    def words(self, text: str) -> list[Token]:
        """The words of all sentences in one list."""
        return [token for words in self[text] for token in words]

    def run(self, find: Callable[[Tokenizer], T], tokenizer: Tokenizer) -> Iterator[int | list[T]]:
        """The words of each sentence that is split for it, then what is found, in a list."""
        self.name = tokenizer.name
        while True:
            try:
                found = find(self)
            except KeyError as error:
                if (text := error.args[0]) in self:
                    raise
            else:
                yield [found]
                return
            split: list[list[Token]] = []
            for words in each_sentence(text, tokenizer):
                split.append(words)
                yield len(words)
            self[text] = split


class ReadSentence(NamedTuple):
    """A sentence of a request."""

    words: list[str]
    text: int | None  # the number of the raw text that it is from, if it is from one


async def read_sentences(service: Service, body: schemas.SentencesBody) -> list[ReadSentence]:
    """The sentences that a client sends, or those of its raw texts."""
    if body.sentences is not None and body.texts is not None:
        raise RequestError("wrong_fields", "texts and sentences are given; send one of them")
    if body.sentences is not None:
        check_count(service, len(body.sentences), "sentences")
        check_words(service, body.sentences)
        return [ReadSentence(words, None) for words in body.sentences]
    if body.texts is None:
        problem = "nothing to read; send texts (raw) or sentences (lists of words)"
        raise RequestError("wrong_fields", problem)
    split = await read_texts(service, body.texts, "texts")
    return [ReadSentence(words, number) for number, text in enumerate(split) for words in text]


async def read_texts(
    service: Service, texts: Sequence[str], parameter: str
) -> list[list[list[str]]]:
    """The sentences of each text, as lists of words."""
    check_count(service, len(texts), parameter)
    finds = (partial(split_text, text) for text in texts)
    split = await find_all(service, texts, parameter, finds, service.model.embedder.tokenizer)
    check_words(service, [words for text in split for words in text])
    return split


async def read_one(service: Service, text: str, field: str, find: Callable[[Tokenizer], T]) -> T:
    """What `find` makes of a text, which is one sentence or holds the one that is asked about."""
    [found] = await find_all(service, [text], field, [find], service.model.embedder.tokenizer)
    return found


async def find_all(
    service: Service,
    texts: Sequence[str],
    field: str,
    finds: Iterable[Callable[[Tokenizer], T]],
    tokenizer: Tokenizer,
    split: Sequence[Sequence[str]] = (),  # words of those that need no tokenizer
) -> list[T]:
    """What each makes of the texts of a field, with a tokenizer that has split them in slices."""
    found: list[T] = []
    count, read, characters = 0, ReadTexts(), sum(map(len, texts))
    check_most(service.limits.characters, characters, "characters", field=field)
    steps = (step for find in finds for step in read.run(find, tokenizer))
    size = characters + len(texts) + sum(1 + len(word) for words in split for word in ("", *words))
    few = size <= FEW_CHARACTERS and tokenizer.name != "kiwi"
    async for step in service.read_all(steps, few):
        if isinstance(step, int):
            count += step
            check_most(service.limits.words, count, "words")
        else:
            found += step
    return found


async def read_unsplit(service: Service, texts: Sequence[str], parameter: str) -> list[list[str]]:
    """All words of each text, which is one sentence however it would be split."""
    split = await read_texts(service, texts, parameter)
    sentences = [[word for words in text for word in words] for text in split]
    check_words(service, sentences)
    return sentences


def check_most(
    most: int, count: int, noun: str, *, where: str = "", field: str | None = None
) -> None:
    """Raise HTTP error 413 where there are too many of something."""
    if count > most:
        code = "sentence_too_long" if where else f"too_many_{noun}"
        message = f"{where}{count:,} {noun}; send {most:,} at most"
        raise RequestError(code, message, parameter=field, count=count, most=most)


def check_count(service: Service, count: int, field: str) -> None:
    """Raise for too many sentences, or none."""
    if not count:
        raise RequestError("empty_list", "the list is empty; send at least one", parameter=field)
    noun = "texts" if field == "input" else field
    check_most(service.limits.sentences, count, noun, field=field)


def check_words(service: Service, sentences: Sequence[Sequence[str]]) -> None:
    """Raise for sentences that are too long, each or all of them."""
    limits = service.limits
    for number, words in enumerate(sentences, start=1):
        where = f"sentence {number} has "
        check_most(limits.words_per_sentence, len(words), "words", where=where)
    check_most(limits.words, sum(map(len, sentences)), "words")


def check_values(service: Service, values: int) -> None:
    """Raise for too many numbers in a response."""
    most = service.limits.answer_values
    if values > most:
        raise RequestError(
            "response_too_long",
            f"the response would be {values:,} numbers, {most:,} at most; "
            "send fewer words, or ask for fewer layers or for a pool",
            count=values,
            most=most,
        )
    service.check_room(LEAST_BYTES * values)  # before it is computed and written


async def compute_vectors(
    service: Service, kind: Embedding, sentences: Sequence[Sequence[str]]
) -> list[Vectors]:
    """The vectors of sentences, unless they are too many numbers for a response."""
    values = kind.values(sentences)
    check_values(service, values)
    return await service.gatherer.compute(kind, sentences, values)
