"""OpenAI's routes: clients written for them work with only their address changed."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
from fastapi import APIRouter, Request, Response

from elmokit.embedder import Vectors
from elmokit.service.answers import base64_of, json_answer
from elmokit.service.reading import check_values, read_texts
from elmokit.service.refusals import Refusal
from elmokit.service.schemas import Embeddings, EmbeddingsBody, ModelEntry, ModelList
from elmokit.service.state import Service, service_of
from elmokit.service.work import Embedding

router = APIRouter(prefix="/v1", tags=["OpenAI"])
FIRST_RELEASE = 1767225600
"""When OpenAI's clients are told that the model was made: nobody reads it."""


@router.post("/embeddings", response_model=Embeddings)
async def create_embeddings(request: Request, body: EmbeddingsBody) -> Response:
    """Vectors of texts: the mean over their words, of the average of the layers."""
    service = service_of(request)
    size = service.model.embedder.vector_size
    if body.dimensions is not None and body.dimensions != size:
        raise Refusal(
            400,
            f"dimensions is {body.dimensions}, this model's vectors have {size}; leave it out",
            parameter="dimensions",
        )
    texts = await read_texts(service, body.input, "input")
    check_values(service, len(texts) * size)
    means = await mean_vectors(service, texts)
    packed = body.encoding_format == "base64"
    words = sum(len(sentence) for text in texts for sentence in text)
    return json_answer(
        {
            "object": "list",
            "data": [
                {
                    "object": "embedding",
                    "index": number,
                    "embedding": base64_of(mean) if packed else mean.tolist(),
                }
                for number, mean in enumerate(means)
            ],
            "model": service.model.name,
            "usage": {"prompt_tokens": words, "total_tokens": words},
        }
    )


async def mean_vectors(service: Service, texts: Sequence[Sequence[Sequence[str]]]) -> Vectors:
    """The mean (texts, size) over the words of all sentences of each text; zeros without words."""
    sentences = [words for text in texts for words in text]
    kind = Embedding(service.model.embedder, pool="mean")
    means = await service.gatherer.compute(kind, sentences, kind.values(sentences))
    vectors = np.zeros((len(texts), service.model.embedder.vector_size), np.float32)
    bounds = np.cumsum([0, *map(len, texts)]).tolist()
    for vector, (start, end) in zip(vectors, pairwise(bounds), strict=True):
        if end == start + 1:
            vector[:] = means[start]
        elif end > start:
            counts = np.array([len(words) for words in sentences[start:end]], np.float32)
            vector[:] = np.average(means[start:end], axis=0, weights=counts)
    return vectors


@router.get("/models", response_model=ModelList)
async def list_models(request: Request) -> Response:
    """The models that there are: one."""
    return json_answer({"object": "list", "data": [entry(service_of(request))]})


@router.get("/models/{model}", response_model=ModelEntry)
async def retrieve_model(request: Request, model: str) -> Response:
    """The model of a name, if it is this one."""
    found = entry(service_of(request))
    if model != found["id"]:
        raise Refusal(404, f"there is no such model here; the one that is: {found['id']}")
    return json_answer(found)


def entry(service: Service) -> dict[str, object]:
    """The model, as OpenAI describes one."""
    return {
        "id": service.model.name,
        "object": "model",
        "created": FIRST_RELEASE,
        "owned_by": "elmokit",
    }
