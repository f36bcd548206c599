"""Answers as bytes: JSON, or arrays as NumPy and safetensors write them."""

from __future__ import annotations

import base64
import io
import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from fastapi import Response
from pydantic_core import to_json
from safetensors.numpy import save

from elmokit.embedder import Vectors
from elmokit.service.refusals import Refusal

JSON = "application/json"
NPY = "application/x-npy"
SAFETENSORS = "application/x-safetensors"
ARRAY_TYPES = (NPY, "application/npy", SAFETENSORS, "application/safetensors")


def json_answer(content: Mapping[str, Any]) -> Response:
    """Plain values as JSON."""
    return Response(to_json(content), media_type=JSON)


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


def check_one_array(sentences: int, pooled: bool) -> None:
    """Refuse what is not one array: several sentences with a vector per word, or none at all."""
    if sentences != 1 and not (pooled and sentences):
        raise Refusal(
            406, f"{NPY} is one array; send one sentence, ask for a pool, or accept {SAFETENSORS}"
        )


def npy_answer(array: Vectors) -> Response:
    """One array."""
    file = io.BytesIO()
    np.save(file, array, allow_pickle=False)
    return Response(file.getvalue(), media_type=NPY)


def safetensors_answer(arrays: Sequence[Vectors], sentences: Sequence[Sequence[str]]) -> Response:
    """Arrays named "0", "1", …, with the words as JSON in the metadata."""
    named = {str(number): np.ascontiguousarray(array) for number, array in enumerate(arrays)}
    contents = save(named, metadata={"words": json.dumps(sentences)})
    return Response(contents, media_type=SAFETENSORS)
