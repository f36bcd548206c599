"""Routes for what the language model expects: predict and score."""

from __future__ import annotations

from functools import partial

from fastapi import APIRouter, Request, Response

from elmokit.language_model import LanguageModel
from elmokit.service.answers import json_answer
from elmokit.service.reading import check_characters, check_words, read_sentences
from elmokit.service.refusals import Refusal
from elmokit.service.schemas import PredictBody, Predicted, ScoreBody, Scored
from elmokit.service.state import Service, service_of
from elmokit.service.work import Predicting, Question, Scoring

router = APIRouter(tags=["words"])
MOST_CANDIDATES = 1000


@router.post("/predict", response_model=Predicted, response_model_exclude_none=True)
async def predict(request: Request, body: PredictBody) -> Response:
    """The words that fit a place: the next one, the previous one, the missing one."""
    service = service_of(request)
    language_model = language_model_of(service)
    question = await read_question(service, language_model, body)
    kind = Predicting(language_model)
    (words,) = await service.gatherer.compute(kind, [question])
    if question.sample is not None:
        return json_answer(question.place._asdict() | {"sampled": words})
    return json_answer(question.place._asdict() | {"words": [word.to_dict() for word in words]})


async def read_question(
    service: Service, language_model: LanguageModel, body: PredictBody
) -> Question:
    """What a body asks, within the limits."""
    if body.candidates is not None and body.sample is not None:
        raise Refusal(400, "candidates and sample are given; send one of them")
    if body.candidates is not None and len(body.candidates) > MOST_CANDIDATES:
        raise Refusal(
            413,
            f"{len(body.candidates):,} candidates; send {MOST_CANDIDATES:,} at most",
            parameter="candidates",
        )
    check_characters(service, [body.text], "text")
    find = partial(
        language_model.find_place, body.text, previous=body.previous, missing=body.missing
    )
    place = await service.read(len(body.text), find)
    check_words(service, [[*(place.before or ()), *(place.after or ())]])
    return Question(
        place,
        body.top,
        None if body.candidates is None else tuple(body.candidates),
        body.sample,
        body.temperature,
        body.seed,
        body.among,
    )


@router.post("/score", response_model=Scored, response_model_exclude_none=True)
async def score(request: Request, body: ScoreBody) -> Response:
    """Log probability of sentences, word by word, each sentence by itself."""
    service = service_of(request)
    kind = Scoring(language_model_of(service))
    sentences = await read_sentences(service, body)
    scores = await service.gatherer.compute(kind, [sentence.words for sentence in sentences])
    rows = [
        one.to_dict() | {"text": sentence.text}
        for one, sentence in zip(scores, sentences, strict=True)
    ]
    return json_answer({"sentences": rows})


def language_model_of(service: Service) -> LanguageModel:
    """The language model, where the model has the words of its softmax."""
    if service.model.language_model is None:
        raise Refusal(404, service.model.why_no_words)
    return service.model.language_model
