"""Routes for the vectors of words: embed, compare, and the neighbours that an index knows."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from itertools import combinations
from typing import Annotated, Any

import numpy as np
from fastapi import APIRouter, Header, Request, Response

from elmokit.analysis.comparison import (
    Occurrence,
    cosine,
    find_occurrence,
    layers_of,
    static_cosines,
)
from elmokit.analysis.neighbours.marked import find_marked
from elmokit.embedder import Vectors
from elmokit.plurals import counted
from elmokit.service.answers import (
    NPY,
    SAFETENSORS,
    check_one_array,
    json_answer,
    npy_answer,
    safetensors_answer,
    wanted_type,
)
from elmokit.service.index import Index
from elmokit.service.reading import (
    check_characters,
    check_values,
    check_words,
    read_sentences,
    read_texts,
    read_whole,
)
from elmokit.service.refusals import Refusal
from elmokit.service.schemas import (
    CompareBody,
    Compared,
    EmbedBody,
    Embedded,
    NeighboursBody,
    SensesBody,
    Split,
    SplitBody,
)
from elmokit.service.state import Service, service_of
from elmokit.service.work import Embedding, LayerChoice, MixChoice

router = APIRouter(tags=["vectors"])
NAMED_LAYERS = ("average", "top", "all")
MOST_COMPARED = 16
"""Sentences: every one is compared with every other."""
ARRAYS: dict[int | str, dict[str, Any]] = {
    200: {
        "content": {
            name: {"schema": {"type": "string", "format": "binary"}} for name in (NPY, SAFETENSORS)
        }
    }
}


@router.post("/split", response_model=Split)
async def split(request: Request, body: SplitBody) -> Response:
    """Sentences and words of raw texts, as the model's own text was split."""
    texts = await read_texts(service_of(request), body.texts, "texts")
    return json_answer({"texts": texts})


@router.post("/embed", response_model=Embedded, responses=ARRAYS)
async def embed(
    request: Request, body: EmbedBody, accept: Annotated[str | None, Header()] = None
) -> Response:
    """Vectors of words, or of sentences; as JSON, or as arrays where `Accept` names them."""
    service = service_of(request)
    sentences = await read_sentences(service, body)
    words = [sentence.words for sentence in sentences]
    kind = Embedding(service.model.embedder, layer_choice(service, body), body.pool)
    values = kind.values(words)
    check_values(service, values)
    wanted, pooled = wanted_type(accept), body.pool != "none"
    if wanted == NPY:
        check_one_array(len(words), pooled)
    arrays = await service.gatherer.compute(kind, words, values)
    if wanted == NPY:
        return npy_answer(np.stack(arrays) if pooled else arrays[0])
    if wanted == SAFETENSORS:
        return safetensors_answer(arrays, words)
    rows = [
        {"words": sentence.words, "vectors": array.tolist(), "text": sentence.text}
        for sentence, array in zip(sentences, arrays, strict=True)
    ]
    return json_answer({"model": service.model.name, "sentences": rows})


def layer_choice(service: Service, body: EmbedBody) -> LayerChoice:
    """The layers that a body asks for, if the model has them."""
    config = service.model.embedder.config
    if body.mix is None:
        numbers = range(config.layer_count)
        if body.layers not in NAMED_LAYERS and not is_one_of(numbers, body.layers):
            raise Refusal(
                400,
                "layers should be 'average', 'top', 'all' or a number from 0 to "
                f"{config.lstm_layers}",
                parameter="layers",
            )
        return body.layers
    if body.layers != "average":
        raise Refusal(400, "layers and mix are given; send one of them", parameter="mix")
    count = 2 * config.layer_count - 1 if body.mix.directions else config.layer_count
    if len(body.mix.weights) != count:
        given = counted(len(body.mix.weights), "weight")
        raise Refusal(400, f"{given}; this mix has {count}", parameter="mix.weights")
    return MixChoice(tuple(body.mix.weights), body.mix.gamma, body.mix.directions)


def is_one_of(numbers: range, value: Any) -> bool:
    """Whether a value is one of some numbers; true and 1.0, which Python takes for 1, are not."""
    return type(value) is int and value in numbers


@router.post("/compare", response_model=Compared, response_model_exclude_none=True)
async def compare(request: Request, body: CompareBody) -> Response:
    """A word in several sentences: how near its vectors are, layer by layer."""
    service = service_of(request)
    occurrences = await find_occurrences(service, body)
    kind = Embedding(service.model.embedder, "all")
    words = [occurrence.words for occurrence in occurrences]
    values = kind.values(words)
    check_values(service, values)
    embedded = await service.gatherer.compute(kind, words, values)
    pairs = list(combinations(range(len(occurrences)), 2))
    places = [one[:, each.position] for one, each in zip(embedded, occurrences, strict=True)]
    static = service.model.static
    content: dict[str, Any] = {
        "sentences": words,
        "positions": [occurrence.position for occurrence in occurrences],
        "pairs": pairs,
        "cosines": ({} if static is None else static_cosines(static, occurrences, pairs))
        | {
            name: [cosine(layer(places[first]), layer(places[second])) for first, second in pairs]
            for name, layer in layers_of(service.model.embedder)
        },
    }
    if body.maps:
        content["maps"] = similarity_maps(service, embedded, pairs)
    return json_answer(content)


async def find_occurrences(service: Service, body: CompareBody) -> list[Occurrence]:
    """Where the word is in each sentence."""
    if not 2 <= len(body.sentences) <= MOST_COMPARED:
        raise Refusal(
            400,
            f"{counted(len(body.sentences), 'sentence')}; compare a word in 2 to {MOST_COMPARED}",
            parameter="sentences",
        )
    if (body.word is None) == (body.positions is None):
        raise Refusal(400, "send either the word, or its position in each sentence")
    read = await read_whole(service, body.sentences, "sentences")
    if body.positions is None:
        assert body.word is not None
        return [find_occurrence(body.word, words, n) for n, words in enumerate(read, start=1)]
    if len(body.positions) != len(read):
        raise Refusal(400, "send one position for each sentence", parameter="positions")
    places = zip(read, body.positions, strict=True)
    return [
        occurrence_at(words, place, f"sentence {number}", "positions")
        for number, (words, place) in enumerate(places, start=1)
    ]


def occurrence_at(words: Sequence[str], position: int, name: str, parameter: str) -> Occurrence:
    """The word at a position of the sentence of a name, if there is one."""
    if not 0 <= position < len(words):
        raise Refusal(
            400,
            f"position is {position}, but {name} has {counted(len(words), 'word')}; "
            "the first is at 0",
            parameter=parameter,
        )
    return Occurrence(tuple(words), position)


def similarity_maps(
    service: Service, embedded: Sequence[Vectors], pairs: Sequence[tuple[int, int]]
) -> list[dict[str, list[list[float]]]]:
    """For each pair and layer, the cosine of every word of one sentence with every other's."""
    layers = layers_of(service.model.embedder)
    cells = sum(embedded[one].shape[1] * embedded[other].shape[1] for one, other in pairs)
    check_values(service, cells * len(layers))
    unit = [{name: unit_vectors(layer(vectors)) for name, layer in layers} for vectors in embedded]
    return [
        {name: (unit[one][name] @ unit[other][name].T).tolist() for name, _ in layers}
        for one, other in pairs
    ]


def unit_vectors(vectors: Vectors) -> Vectors:
    """Vectors (words, size) of length 1; zeros stay zeros."""
    lengths = np.linalg.norm(vectors, axis=-1, keepdims=True)
    return np.divide(vectors, lengths, out=np.zeros_like(vectors), where=lengths > 0)


@router.post("/neighbours")
async def neighbours(request: Request, body: NeighboursBody) -> Response:
    """Occurrences in the index that are nearest to a word in its sentence."""
    service = service_of(request)
    index = index_of(service)
    words, position = await asked_occurrence(service, body)
    found = await service.search(index.query, words, position, body.top, body.same_word)
    return json_answer({"words": words, "position": position, "neighbours": found})


async def asked_occurrence(service: Service, body: NeighboursBody) -> Occurrence:
    """The word that a body marks, or whose position it gives."""
    if body.text is not None and body.sentence is None and body.position is None:
        check_characters(service, [body.text], "text")
        find = partial(find_marked, body.text, service.model.embedder.tokenizer)
        occurrence = await service.read(len(body.text), find)
        check_words(service, [occurrence.words])
        return occurrence
    if body.text is not None or body.sentence is None or body.position is None:
        raise Refusal(400, "send a text with stars around a word, or a sentence and a position")
    (words,) = await read_whole(service, [body.sentence], "sentence")
    return occurrence_at(words, body.position, "the sentence", "position")


@router.post("/senses")
async def senses(request: Request, body: SensesBody) -> Response:
    """The senses of a word in the index."""
    service = service_of(request)
    return json_answer(await service.search(index_of(service).senses, body.word, body.senses))


def index_of(service: Service) -> Index:
    """The index, where one was given."""
    if service.model.index is None:
        raise Refusal(404, "no index is loaded; start with --index")
    return service.model.index
