"""Schemas of requests and responses, as the OpenAPI document shows them."""

from __future__ import annotations

import asyncio
import base64
import io
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from difflib import get_close_matches
from functools import partial
from typing import Annotated, Any, Literal

import numpy as np
from fastapi import Response
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, WithJsonSchema, model_validator
from pydantic.types import FailFast
from pydantic_core import PydanticCustomError, to_json
from safetensors.numpy import save
from starlette.types import Receive, Scope, Send

from elmokit.inference.embedder import Vectors
from elmokit.model.scalar_mix import DirectionalMix, ScalarMix
from elmokit.service.errors import LONGEST_NAME, STATUS_OF
from elmokit.service.middleware import PIECE


def check_input(value: Any) -> list[Any]:
    """A text or a list of texts, as a list; token ids are an error."""
    texts = [value] if isinstance(value, str) else value
    if not isinstance(texts, list) or not texts:
        raise PydanticCustomError("texts", "Input should be a text or a list of texts")
    if any(isinstance(text, int | list) for text in texts):
        problem = "Input has token ids, which mean nothing to this model; send the texts themselves"
        raise PydanticCustomError("token_ids", problem)
    return texts


TEXTS_SCHEMA = {
    "anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}, "minItems": 1}]
}
LAYERS_SCHEMA = {
    "anyOf": [{"type": "string", "enum": ["average", "top", "all"]}, {"type": "integer"}]
}


class FirstError(FailFast):
    """Ends at the first error: a million wrong entries are else a million errors in memory."""

    __hash__ = object.__hash__  # so that it can stand in a union


Text = Annotated[str, Field(min_length=0)]
"""Any text but one with a lone surrogate: pydantic looks for these where there is a bound."""
Texts = Annotated[list[Text], FirstError()]
Sentences = Annotated[list[Texts], FirstError()]
Input = Annotated[Texts, BeforeValidator(check_input), WithJsonSchema(TEXTS_SCHEMA)]
Number = Annotated[float, Field(allow_inf_nan=False, ge=-1e6, le=1e6)]


class Body(BaseModel):
    """What a client sends; an unknown field is an error."""

    model_config = ConfigDict(extra="forbid", strict=True, hide_input_in_errors=True)

    @model_validator(mode="before")
    @classmethod
    def name_nearest(cls, values: Any) -> Any:
        """Of an unknown field, tell which one was meant."""
        known = list(cls.model_fields)
        unknown = set(values) - {*known} if isinstance(values, dict) else ()
        if unknown and cls.model_config["extra"] == "forbid":
            name = min(unknown)
            near = get_close_matches(name[:LONGEST_NAME], known, 1)
            advice = f"did you mean {near[0]}?" if near else f"there are {', '.join(known)}"
            about = {"field": (name,), "advice": advice}
            raise PydanticCustomError("unknown_field", "there is no such field; {advice}", about)
        return values


class EmbeddingsBody(Body):
    """OpenAI's request for embeddings."""

    model_config = ConfigDict(extra="ignore", strict=True, hide_input_in_errors=True)

    input: Input = Field(description="A text, or several; no token ids.")
    model: str = Field("", description="Any name: there is one model, and the response names it.")
    encoding_format: Literal["float", "base64"] | None = "float"
    dimensions: int | None = Field(None, description="Only the size that the model has.")
    user: str | None = Field(None, description="Not read.")


class MixWeights(Body):
    """A mix of layers: equation 1 of the paper, or weights for each direction."""

    weights: Annotated[list[Number], FirstError()] = Field(
        description="w before the softmax, one per layer; or, with directions, i f_1 … b_1 … as is."
    )
    gamma: Number = 1.0
    directions: bool = False

    def mix(self, layers: int) -> ScalarMix | DirectionalMix:
        """The mix itself, of so many layers."""
        kind = DirectionalMix if self.directions else ScalarMix
        mix = kind(layers, weights=self.weights, trainable=False)
        mix.gamma.fill_(self.gamma)
        return mix


class SentencesBody(Body):
    """Either sentences of words, or raw texts."""

    sentences: Sentences | None = Field(None, description="Lists of words.")
    texts: Texts | None = Field(
        None, description="Raw texts, split into sentences and words as the model's own text was."
    )


class SplitBody(Body):
    """Raw texts."""

    texts: Texts


class EmbedBody(SentencesBody):
    """Which vectors are wanted of which words."""

    layers: Annotated[Any, WithJsonSchema(LAYERS_SCHEMA)] = Field(  # the model knows which it has
        "average", description="Or a layer's number; 0 is the token layer."
    )
    mix: MixWeights | None = Field(None, description="Instead of layers: a mix of them.")
    pool: Literal["none", "mean", "max"] = Field(
        "none", description="A vector per word, or one per sentence."
    )


class CompareBody(Body):
    """A word in several sentences, by its name or by its positions."""

    sentences: Texts = Field(description="Two or more raw sentences.")
    word: Text | None = Field(None, description="Its first occurrence in each sentence is taken.")
    positions: Annotated[list[int], FirstError()] | None = Field(
        None, description="Or: which word of each sentence, from 0."
    )
    maps: bool = Field(False, description="Also every word with every word, for each pair.")


class PredictBody(Body):
    """A sentence that lacks a word: at its ___, or else at its end."""

    text: Text
    previous: bool = Field(False, description="The word before the text is wanted.")
    missing: bool = Field(
        False, description="The text is all but its ___, also where that begins or ends it."
    )
    candidates: Texts | None = Field(None, description="Which of these fits best.")
    top: int = Field(10, ge=1, le=1000)
    sample: int | None = Field(
        None, ge=1, le=200, description="Go on with up to so many words drawn at random."
    )
    temperature: float = Field(1.0, ge=0, le=100, allow_inf_nan=False)
    seed: int | None = Field(None, ge=0, lt=2**63)
    among: int | None = Field(None, ge=1, description="Sample among so many likeliest words only.")


class NeighboursBody(Body):
    """A word in a sentence: marked with stars, or by its position."""

    text: Text | None = Field(
        None, description="A sentence with stars around the word: a river *bank*."
    )
    sentence: Text | None = Field(None, description="Or: the sentence, and the word's position.")
    position: int | None = Field(None, ge=0, description="From 0.")
    top: int = Field(10, ge=1, le=200)
    same_word: bool = Field(False, description="Only occurrences of the same word.")


class SensesBody(Body):
    """A word."""

    word: Text = Field(min_length=1)
    senses: int | None = Field(None, ge=1, le=20, description="How many; found where not given.")


Pair = Annotated[list[Text | Texts], Field(min_length=2, max_length=2), FirstError()]
"""Two texts, or the words of each."""


class TaskBody(Body):
    """What a trained task is asked about: texts, words or pairs."""

    texts: Texts | None = Field(None, description="Raw texts; of each there is one answer.")
    sentences: Sentences | None = Field(None, description="Or: lists of words.")
    pairs: Annotated[list[Pair], FirstError()] | None = Field(
        None,
        description="Or, for tasks on pairs: two texts, or their words, each; for a reader a "
        "question and the text that it is about.",
    )
    predicates: Texts | None = Field(
        None, description="Of roles: these words are the predicates, wherever they occur."
    )
    probabilities: bool = Field(
        False, description="All that is known of each answer, with probabilities to four digits."
    )


class TaskEntry(BaseModel):
    """A trained task, and how good it is."""

    name: str = Field(description="By which it is asked: POST /tasks/{name}.")
    task: str
    kind: str
    bilm: str | None = Field(description="What the model is called that it was trained with.")
    labels: list[str]
    scores: dict[str, dict[str, float]] = Field(description="On dev and test, when it was trained.")


class TaskList(BaseModel):
    """The trained tasks that are served."""

    tasks: list[TaskEntry]


class TaskAnswers(BaseModel):
    """An answer for each text, list of words, or pair.

    Of texts and pairs it has `label`; of entities `entities`; of other tags `words` and `tags`; of
    a reader `answer`, `start`, `end`; of coreference `clusters`; of roles `predicates`. Places
    count characters of a raw text, words of a list.
    """

    task: str
    answers: list[dict[str, Any]]


class ErrorDetail(BaseModel):
    """What went wrong, in one line."""

    message: str
    type: str
    param: str | None
    code: str = Field(json_schema_extra={"enum": list(STATUS_OF)})
    values: dict[str, Any] = Field(description="What the message names: numbers, limits, words.")


class Error(BaseModel):
    """An HTTP error, as OpenAI writes it."""

    error: ErrorDetail


class Usage(BaseModel):
    """Words that were read."""

    prompt_tokens: int
    total_tokens: int


class EmbeddingEntry(BaseModel):
    """The vector of one text."""

    object: Literal["embedding"]
    index: int
    embedding: list[float] | str = Field(description="base64: float32, little-endian.")


class Embeddings(BaseModel):
    """Vectors of texts, as OpenAI writes them."""

    object: Literal["list"]
    data: list[EmbeddingEntry]
    model: str
    usage: Usage


class ModelEntry(BaseModel):
    """A model, as OpenAI writes it."""

    id: str
    object: Literal["model"]
    created: int
    owned_by: str


class ModelList(BaseModel):
    """The models that there are: one."""

    object: Literal["list"]
    data: list[ModelEntry]


class ModelFacts(BaseModel):
    """What the loaded model is."""

    id: str
    version: str | None = Field(description='Of a bundled model: "english-small 2".')
    layers: int
    vector_size: int
    parameters: int
    tokenizer: str
    precision: str
    predicts_words: bool
    has_index: bool
    script: str | None = Field(description="Of most of its words, as Unicode calls it: LATIN.")
    config: dict[str, Any]
    limits: dict[str, float]


class Split(BaseModel):
    """The sentences of each text, as lists of words."""

    texts: list[list[list[str]]]


class EmbeddedSentence(BaseModel):
    """A sentence and its vectors: (words, size), with an axis of layers first where all are asked.

    Pooled, the axis of words is gone.
    """

    words: list[str]
    vectors: list[Any]
    text: int | None = Field(None, description="Which of the texts it is from.")


class Embedded(BaseModel):
    """Vectors of sentences."""

    model: str
    sentences: list[EmbeddedSentence]


class Compared(BaseModel):
    """Cosines between occurrences; sentences and words are numbered from 0."""

    sentences: list[list[str]]
    positions: list[int]
    pairs: list[tuple[int, int]]
    cosines: dict[str, list[float | None]] = Field(
        description="For each layer, that of each pair; before them a row of static vectors where "
        "there are such, with null for words that have none."
    )
    maps: list[dict[str, list[list[float]]]] | None = Field(
        None, description="For each pair and layer: words of the first by words of the second."
    )


class PredictedWord(BaseModel):
    """A word, and how well it fits."""

    word: str
    probability: float
    score: float | None = None
    forward: float | None = None
    backward: float | None = None
    log_prior: float | None = None
    known: bool = True


class Predicted(BaseModel):
    """What fits a place, the best first."""

    before: list[str] | None
    after: list[str] | None
    words: list[PredictedWord] | None = None
    sampled: list[str] | None = None


class SentenceScored(BaseModel):
    """Natural log probabilities of a sentence; None where JSON has no number."""

    words: list[str]
    forward: list[float | None]
    forward_end: float | None
    backward: list[float | None]
    backward_end: float | None
    unknown: list[bool]
    total: float | None
    total_forward: float | None
    total_backward: float | None
    text: int | None = None


class Scored(BaseModel):
    """Scores of sentences, in order."""

    sentences: list[SentenceScored]


class Health(BaseModel):
    """Whether the service is there."""

    status: str


JSON = "application/json"
ROWS = (list, np.ndarray)
NPY = "application/x-npy"
SAFETENSORS = "application/x-safetensors"
ARRAY_TYPES = (NPY, "application/npy", SAFETENSORS, "application/safetensors")


class BoundedResponse(Response):
    """A response, or an HTTP error where clients have not taken too much of others yet."""

    def __init__(self, content: bytes | Iterator[bytes], media_type: str, size: int = 0) -> None:
        super().__init__(content if isinstance(content, bytes) else b"", media_type=media_type)
        self.parts, self.size = (
            iter(partial(io.BytesIO(self.body).read, PIECE), b""),
            len(self.body),
        )
        if not isinstance(content, bytes):
            self.parts, self.size = content, size  # what they are made of
            del self.headers["content-length"]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send it in pieces; others have their turn in between, however fast its client reads."""
        service, more = scope["app"].state.service, True
        service.check_room(self.size)
        service.unsent_bytes += self.size
        try:
            await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
            while more:
                body = bytearray()
                while len(body) < PIECE and (more := (part := next(self.parts, None)) is not None):
                    body += part
                await send({"type": "http.response.body", "body": bytes(body), "more_body": more})
                await asyncio.sleep(0)
        finally:
            service.unsent_bytes -= self.size


def json_response(content: Mapping[str, Any], arrays: Iterable[Vectors] = ()) -> Response:
    """Plain values, and some arrays among them, as JSON."""
    if (size := sum(array.nbytes for array in arrays)) > PIECE:
        return BoundedResponse(json_parts(content), JSON, size)
    return BoundedResponse(to_json(content, fallback=np.ndarray.tolist), JSON)


def json_parts(value: Any) -> Iterator[bytes]:
    """Plain values and arrays as JSON, of arrays one vector at a time."""
    if isinstance(value, dict):
        marks, inside = b"{}", ((to_json(name) + b":", part) for name, part in value.items())
    elif isinstance(value, ROWS) and isinstance((*value[:1], 0)[0], (*ROWS, dict)):
        marks, inside = b"[]", ((b"", part) for part in value)
    else:
        yield to_json(value, fallback=np.ndarray.tolist)
        return
    yield marks[:1]
    for number, (name, part) in enumerate(inside):
        yield b"," + name if number else name
        yield from json_parts(part)
    yield marks[1:]


def base64_of(vector: Vectors) -> str:
    """A vector (size,) as OpenAI writes it: float32, little-endian.

    >>> base64_of(np.array([1.0, -2.0], np.float32))
    'AACAPwAAAMA='
    """
    return base64.b64encode(vector.astype("<f4", copy=False).tobytes()).decode("ascii")


def wanted_type(accept: str | None) -> str:
    """The first of the types that a client names and we can write; JSON otherwise.

    >>> wanted_type("application/x-npy, */*;q=0.1"), wanted_type(None)
    ('application/x-npy', 'application/json')
    """
    for part in (accept or "").split(","):
        name = part.partition(";")[0].strip().lower()
        if name in ARRAY_TYPES:
            return NPY if name.endswith("npy") else SAFETENSORS
        if name in (JSON, "*/*", "application/*"):
            return JSON
    return JSON


def npy_response(array: Vectors) -> Response:
    """One array."""
    file = io.BytesIO()
    np.save(file, array, allow_pickle=False)
    return BoundedResponse(file.getvalue(), media_type=NPY)


def safetensors_response(arrays: Sequence[Vectors], sentences: Sequence[Sequence[str]]) -> Response:
    """Arrays named "0", "1", …, with the words as JSON in the metadata."""
    named = {str(number): np.ascontiguousarray(array) for number, array in enumerate(arrays)}
    contents = save(named, metadata={"words": json.dumps(sentences)})
    return BoundedResponse(contents, media_type=SAFETENSORS)
