"""Bodies to sentences of words, within the limits."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from elmokit.service.refusals import Refusal
from elmokit.service.schemas import SentencesBody
from elmokit.service.state import Service


class ReadSentence(NamedTuple):
    """A sentence of a request."""

    words: list[str]
    text: int | None  # the number of the raw text that it is from, if it is from one


async def read_sentences(service: Service, body: SentencesBody) -> list[ReadSentence]:
    """The sentences that a client sends, or those of its raw texts."""
    if body.sentences is None and body.texts is None:
        raise Refusal(400, "nothing to read; send texts (raw) or sentences (lists of words)")
    if body.sentences is not None and body.texts is not None:
        raise Refusal(400, "texts and sentences are given; send one of them")
    if body.sentences is not None:
        check_count(service, len(body.sentences), "sentences")
        check_words(service, body.sentences)
        return [ReadSentence(words, None) for words in body.sentences]
    assert body.texts is not None
    split = await read_texts(service, body.texts, "texts")
    return [ReadSentence(words, number) for number, text in enumerate(split) for words in text]


async def read_texts(
    service: Service, texts: Sequence[str], parameter: str
) -> list[list[list[str]]]:
    """The sentences of each text, as lists of words."""
    check_count(service, len(texts), parameter)
    check_characters(service, texts, parameter)
    split = await service.split(texts)
    check_words(service, [words for text in split for words in text])
    return split


async def read_whole(service: Service, texts: Sequence[str], parameter: str) -> list[list[str]]:
    """All words of each text, which is one sentence however it would be split."""
    split = await read_texts(service, texts, parameter)
    sentences = [[word for words in text for word in words] for text in split]
    check_words(service, sentences)
    return sentences


def check_characters(service: Service, texts: Sequence[str], parameter: str) -> None:
    """Refuse more raw text than can be split in a moment."""
    characters, most = sum(map(len, texts)), service.limits.characters
    if characters > most:
        raise Refusal(413, f"{characters:,} characters; send {most:,} at most", parameter=parameter)


def check_count(service: Service, count: int, parameter: str) -> None:
    """Refuse too many sentences, or none."""
    most = service.limits.sentences
    if not count:
        raise Refusal(400, "the list is empty; send at least one", parameter=parameter)
    if count > most:
        noun = "texts" if parameter == "input" else parameter
        raise Refusal(413, f"{count:,} {noun}; send {most:,} at most", parameter=parameter)


def check_words(service: Service, sentences: Sequence[Sequence[str]]) -> None:
    """Refuse sentences that are too long, each or all of them."""
    limits = service.limits
    for number, words in enumerate(sentences, start=1):
        if len(words) > limits.words_per_sentence:
            raise Refusal(
                413,
                f"sentence {number} has {len(words):,} words; "
                f"send {limits.words_per_sentence:,} at most",
            )
    words_in_all = sum(map(len, sentences))
    if words_in_all > limits.words:
        raise Refusal(413, f"{words_in_all:,} words; send {limits.words:,} at most")


def check_values(service: Service, values: int) -> None:
    """Refuse what would be answered with too many numbers."""
    most = service.limits.answer_values
    if values > most:
        raise Refusal(
            413,
            f"the answer would be {values:,} numbers, {most:,} at most; "
            "send fewer words, or ask for fewer layers or for a pool",
        )
