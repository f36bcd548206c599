"""Routes: what is computed of the sentences, texts and words of a request."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from functools import cache, partial
from hashlib import sha256
from importlib.resources import files
from itertools import combinations
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from fastapi import APIRouter, Header, Request, Response
from prometheus_client import CONTENT_TYPE_LATEST

from elmokit.analysis.comparison import cosines_of, find_occurrence, layers_of
from elmokit.analysis.neighbours.index import NeighbourIndex, find_marked
from elmokit.analysis.senses import Occurrence
from elmokit.errors import ElmoError
from elmokit.inference.embedder import Vectors
from elmokit.inference.language_model import LanguageModel
from elmokit.inference.predictions import find_place
from elmokit.service import schemas
from elmokit.service.batching import Embedding, Predicting, Scoring, WordQuestion
from elmokit.service.errors import RequestError
from elmokit.service.reading import (
    check_most,
    check_values,
    check_words,
    compute_vectors,
    read_one,
    read_sentences,
    read_texts,
    read_unsplit,
)
from elmokit.service.schemas import json_response
from elmokit.service.state import Service, Serving
from elmokit.static.vectors import unit
from elmokit.system import counted

openai_router = APIRouter(prefix="/v1", tags=["OpenAI"])
FIRST_RELEASE = 1767225600
"""When OpenAI's clients are told that the model was made: nobody reads it."""


@openai_router.post("/embeddings", response_model=schemas.Embeddings)
async def create_embeddings(service: Serving, body: schemas.EmbeddingsBody) -> Response:
    """Vectors of texts: the mean over their words, of layer 0."""
    size = service.model.embedder.vector_size
    if body.dimensions is not None and body.dimensions != size:
        raise RequestError(
            "wrong_dimensions",
            f"dimensions is {body.dimensions}, this model's vectors have {size}; leave it out",
            parameter="dimensions",
            size=size,
        )
    texts = await read_texts(service, body.input, "input")
    means = await mean_vectors(service, texts)
    packed = body.encoding_format == "base64"
    words = sum(len(sentence) for text in texts for sentence in text)
    return json_response(
        {
            "object": "list",
            "data": [
                {
                    "object": "embedding",
                    "index": number,
                    "embedding": schemas.base64_of(mean) if packed else mean,
                }
                for number, mean in enumerate(means)
            ],
            "model": service.model.name,
            "usage": {"prompt_tokens": words, "total_tokens": words},
        },
        [means],
    )


async def mean_vectors(service: Service, texts: Sequence[Sequence[Sequence[str]]]) -> Vectors:
    """The vectors (texts, size) that `Embedder.encode` gives of split texts."""
    sentences = [words for text in texts for words in text]
    kind = Embedding(service.model.embedder, layers=0, pool="mean")
    check_values(service, len(texts) * service.model.embedder.vector_size)
    means = await service.gatherer.compute(kind, sentences, kind.values(sentences))
    return kind.choice.of_texts(texts, means, service.model.embedder.config)


@openai_router.get("/models", response_model=schemas.ModelList)
async def list_models(service: Serving) -> Response:
    """The models that there are: one."""
    return json_response({"object": "list", "data": [entry(service)]})


@openai_router.get("/models/{model}", response_model=schemas.ModelEntry)
async def retrieve_model(service: Serving, model: str) -> Response:
    """The model of a name, if it is this one."""
    found = entry(service)
    if model != found["id"]:
        problem = f"there is no such model here; the one that is: {found['id']}"
        raise RequestError("model_not_found", problem, model=found["id"])
    return json_response(found)


def entry(service: Service) -> dict[str, object]:
    """The model, as OpenAI describes one."""
    return {
        "id": service.model.name,
        "object": "model",
        "created": FIRST_RELEASE,
        "owned_by": "elmokit",
    }


vector_router = APIRouter(tags=["vectors"])
MOST_COMPARED = 16  # sentences: every one is compared with every other
ARRAYS: dict[int | str, dict[str, Any]] = {
    200: {
        "content": {
            name: {"schema": {"type": "string", "format": "binary"}}
            for name in (schemas.NPY, schemas.SAFETENSORS)
        }
    }
}


@vector_router.post("/split", response_model=schemas.Split)
async def split(service: Serving, body: schemas.SplitBody) -> Response:
    """Sentences and words of raw texts, as the model's own text was split."""
    texts = await read_texts(service, body.texts, "texts")
    return json_response({"texts": texts})


@vector_router.post("/embed", response_model=schemas.Embedded, responses=ARRAYS)
async def embed(
    service: Serving, body: schemas.EmbedBody, accept: Annotated[str | None, Header()] = None
) -> Response:
    """Vectors of words, or of sentences; as JSON, or as arrays where `Accept` names them."""
    sentences = await read_sentences(service, body)
    words = [sentence.words for sentence in sentences]
    kind = embedding_of(service, body)
    wanted, pooled = schemas.wanted_type(accept), body.pool != "none"
    if wanted == schemas.NPY and len(words) != 1 and not (pooled and words):
        accept = f"accept {schemas.SAFETENSORS}"
        problem = f"{wanted} is one array; send one sentence, or pool, or {accept}"
        raise RequestError("several_arrays", problem)
    arrays = await compute_vectors(service, kind, words)
    if wanted == schemas.NPY:
        return schemas.npy_response(np.stack(arrays) if pooled else arrays[0])
    if wanted == schemas.SAFETENSORS:
        return schemas.safetensors_response(arrays, words)
    rows = [
        {"words": sentence.words, "vectors": array, "text": sentence.text}
        for sentence, array in zip(sentences, arrays, strict=True)
    ]
    return json_response({"model": service.model.name, "sentences": rows}, arrays)


def embedding_of(service: Service, body: schemas.EmbedBody) -> Embedding:
    """What a body asks for, if the model has such layers."""
    if body.mix is not None and body.layers != "average":
        problem = "layers and mix are given; send one of them"
        raise RequestError("wrong_fields", problem, parameter="mix")
    kind = Embedding(service.model.embedder, body.mix or body.layers, body.pool)
    try:
        kind.choice  # noqa: B018 - raises where the model has no such layers
    except ElmoError as error:
        wrong = "layers" if body.mix is None else "mix.weights"
        raise RequestError("wrong_layers", str(error), parameter=wrong) from error
    return kind


@vector_router.post("/compare", response_model=schemas.Compared, response_model_exclude_none=True)
async def compare(service: Serving, body: schemas.CompareBody) -> Response:
    """A word in several sentences: how near its vectors are, layer by layer."""
    occurrences = await find_occurrences(service, body)
    kind = Embedding(service.model.embedder, "all")
    words = [occurrence.words for occurrence in occurrences]
    embedded = await compute_vectors(service, kind, words)
    pairs = list(combinations(range(len(occurrences)), 2))
    content: dict[str, Any] = {
        "sentences": words,
        "positions": [occurrence.position for occurrence in occurrences],
        "pairs": pairs,
        "cosines": cosines_of(
            service.model.embedder, occurrences, embedded, pairs, service.model.static
        ),
    }
    maps = similarity_maps(service, embedded, pairs) if body.maps else []
    content |= {"maps": maps} if maps else {}
    return json_response(content, [array for one in maps for array in one.values()])


async def find_occurrences(service: Service, body: schemas.CompareBody) -> list[Occurrence]:
    """Where the word is in each sentence."""
    if not 2 <= len(body.sentences) <= MOST_COMPARED:
        raise RequestError(
            "sentence_count",
            f"{counted(len(body.sentences), 'sentence')}; compare a word in 2 to {MOST_COMPARED}",
            parameter="sentences",
            most=MOST_COMPARED,
        )
    if (body.word is None) == (body.positions is None):
        raise RequestError("wrong_fields", "send either the word, or its position in each sentence")
    read = await read_unsplit(service, body.sentences, "sentences")
    if body.positions is None:
        assert body.word is not None
        name = service.model.embedder.tokenizer.name
        return [find_occurrence(body.word, words, n, name) for n, words in enumerate(read, start=1)]
    if len(body.positions) != len(read):
        problem = "send one position for each sentence"
        raise RequestError("wrong_fields", problem, parameter="positions")
    places = zip(read, body.positions, strict=True)
    return [
        occurrence_at(words, place, f"sentence {number}", "positions")
        for number, (words, place) in enumerate(places, start=1)
    ]


def occurrence_at(words: Sequence[str], position: int, name: str, parameter: str) -> Occurrence:
    """The word at a position of the sentence of a name, if there is one."""
    if not 0 <= position < len(words):
        raise RequestError(
            "position_out_of_range",
            f"position is {position}, but {name} has {counted(len(words), 'word')}; "
            "the first is at 0",
            parameter=parameter,
            count=len(words),
        )
    return Occurrence(tuple(words), position)


def similarity_maps(
    service: Service, embedded: Sequence[Vectors], pairs: Sequence[tuple[int, int]]
) -> list[dict[str, Vectors]]:
    """For each pair and layer, the cosine of every word of one sentence with every other's."""
    layers = layers_of(service.model.embedder)
    cells = sum(embedded[one].shape[1] * embedded[other].shape[1] for one, other in pairs)
    check_values(service, cells * len(layers))
    units = [{name: unit(layer(vectors)) for name, layer in layers} for vectors in embedded]
    return [
        {name: units[one][name] @ units[other][name].T for name, _ in layers}
        for one, other in pairs
    ]


@vector_router.post("/neighbours")
async def neighbours(service: Serving, body: schemas.NeighboursBody) -> Response:
    """Occurrences in the index that are nearest to a word in its sentence."""
    asked = await asked_occurrence(service, body)
    words, position = asked.words, asked.position

    def search(index: NeighbourIndex) -> list[dict[str, Any]]:
        found = index.query(words, position, top=body.top, same_word=body.same_word)
        return [one.to_dict() for one in found]

    neighbours = await service.search(search)
    return json_response({"words": words, "position": position, "neighbours": neighbours})


async def asked_occurrence(service: Service, body: schemas.NeighboursBody) -> Occurrence:
    """The word that a body marks, or whose position it gives."""
    if body.text is not None and body.sentence is None and body.position is None:
        find = partial(find_marked, body.text)
        occurrence = await read_one(service, body.text, "text", find)
        check_words(service, [occurrence.words])
        return occurrence
    if body.text is not None or body.sentence is None or body.position is None:
        problem = "send a text with stars around a word, or a sentence and a position"
        raise RequestError("wrong_fields", problem)
    (words,) = await read_unsplit(service, [body.sentence], "sentence")
    return occurrence_at(words, body.position, "the sentence", "position")


@vector_router.post("/senses")
async def senses(service: Serving, body: schemas.SensesBody) -> Response:
    """The senses of a word in the index."""
    found = await service.search(
        lambda index: index.senses(body.word, senses=body.senses).to_dict()
    )
    return json_response(found)


word_router = APIRouter(tags=["words"])
MOST_CANDIDATES = 1000


@word_router.post("/predict", response_model=schemas.Predicted, response_model_exclude_none=True)
async def predict(service: Serving, body: schemas.PredictBody) -> Response:
    """The words that fit a place: the next one, the previous one, the missing one."""
    language_model = language_model_of(service)
    question = await read_question(service, body)
    kind = Predicting(language_model)
    (words,) = await service.gatherer.compute(kind, [question])
    if body.sample is not None:
        return json_response(question.place._asdict() | {"sampled": words})
    return json_response(question.place._asdict() | {"words": [word.to_dict() for word in words]})


async def read_question(service: Service, body: schemas.PredictBody) -> WordQuestion:
    """What a body asks, within the limits."""
    if body.candidates is not None and body.sample is not None:
        raise RequestError("wrong_fields", "candidates and sample are given; send one of them")
    check_most(MOST_CANDIDATES, len(body.candidates or ()), "candidates", field="candidates")
    find = partial(find_place, body.text, previous=body.previous, missing=body.missing)
    place = await read_one(service, body.text, "text", find)
    check_words(service, [[*(place.before or ()), *(place.after or ())]])
    return WordQuestion(place, body)


@word_router.post("/score", response_model=schemas.Scored, response_model_exclude_none=True)
async def score(service: Serving, body: schemas.SentencesBody) -> Response:
    """Log probability of sentences, word by word, each sentence by itself."""
    kind = Scoring(language_model_of(service))
    sentences = await read_sentences(service, body)
    scores = await service.gatherer.compute(kind, [sentence.words for sentence in sentences])
    rows = [
        one.to_dict() | {"text": sentence.text}
        for one, sentence in zip(scores, sentences, strict=True)
    ]
    return json_response({"sentences": rows})


def language_model_of(service: Service) -> LanguageModel:
    """The language model, where the model has the words of its softmax."""
    if service.model.language_model is None:
        raise RequestError("no_words", service.model.why_no_words)
    return service.model.language_model


status_router = APIRouter(tags=["service"])


@status_router.get("/health", response_model=schemas.Health)
async def health() -> Response:
    """Whether the service is up."""
    return json_response({"status": "up"})


@status_router.get("/ready", response_model=schemas.Health)
async def ready(service: Serving) -> Response:
    """Whether the model is loaded."""
    service.model  # noqa: B018 - raises until it is there
    return json_response({"status": "ready"})


@status_router.get("/model", response_model=schemas.ModelFacts)
async def model(service: Serving) -> Response:
    """What the loaded model is, and what a request may cost."""
    return json_response(service.model.facts() | {"limits": asdict(service.limits)})


@status_router.get(
    "/metrics",
    response_class=Response,
    responses={200: {"content": {"text/plain": {"schema": {"type": "string"}}}}},
)
async def metrics(service: Serving) -> Response:
    """Counts and times for Prometheus."""
    gatherer = service.gatherer
    gauges = {
        "ready": int(service.ready),
        "waiting_requests": gatherer.requests,
        "waiting_words": gatherer.waiting_cost,
        "waiting_values": gatherer.waiting_values,
    }
    return Response(service.metrics.text(gauges), media_type=CONTENT_TYPE_LATEST)


PAGE_TYPES = {
    ".css": "text/css; charset=utf-8",
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}


page_router = APIRouter(include_in_schema=False)


@cache
def read_page() -> dict[str, bytes]:
    """All files of the page, by name: a client can only name what is in memory."""
    page = (files("elmokit.service") / "page").iterdir()
    return {file.name: file.read_bytes() for file in page if Path(file.name).suffix in PAGE_TYPES}


@page_router.get("/page/{name}")
async def page_file(request: Request, name: str) -> Response:
    """A file of the page; browsers ask each time whether it has changed."""
    contents = read_page().get(name)
    if contents is None:
        raise RequestError("unknown_route", "there is no such page")
    tag = f'"{sha256(contents).hexdigest()[:16]}"'
    media_type = PAGE_TYPES[Path(name).suffix]
    headers = {"content-type": media_type, "cache-control": "no-cache", "etag": tag}
    if request.headers.get("if-none-match") == tag:
        return Response(status_code=304, headers=headers)
    return Response(contents, headers=headers)


@page_router.get("/")
async def explorer(request: Request) -> Response:
    """The page itself."""
    return await page_file(request, "index.html")


@page_router.get("/docs")
async def docs(request: Request) -> Response:
    """All routes and their fields."""
    return await page_file(request, "docs.html")


routers = (openai_router, vector_router, word_router, status_router, page_router)
