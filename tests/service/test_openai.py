from __future__ import annotations

import base64

import httpx
import numpy as np
import openai
import pytest
from closeness import assert_close

TEXTS = ["The cat sat. It sat on the mat.", "the river bank", "bank", ""]


@pytest.fixture
def client(address):
    with openai.OpenAI(base_url=f"{address}/v1", api_key="unused", max_retries=0) as client:
        yield client


def test_the_openai_client_gets_the_librarys_vectors(client, model):
    response = client.embeddings.create(input=TEXTS, model="text-embedding-3-small")
    vectors = np.array([entry.embedding for entry in response.data], np.float32)
    assert_close(vectors, model.embedder.encode(TEXTS))
    assert [entry.index for entry in response.data] == [0, 1, 2, 3]
    assert response.model == "small"
    assert response.usage.prompt_tokens == response.usage.total_tokens == 14


def test_floats_and_base64_are_the_same_numbers(address):
    vectors = []
    for encoding in ("base64", "float", None):
        body = {"input": "the bank", "model": "", "encoding_format": encoding}
        response = httpx.post(f"{address}/v1/embeddings", json=body).json()
        vectors.append(response["data"][0]["embedding"])
    packed, plain, usual = vectors
    decoded = np.frombuffer(base64.b64decode(packed), "<f4")
    np.testing.assert_array_equal(np.array(plain, np.float32), decoded)
    assert plain == usual


@pytest.mark.parametrize("tokens", [[1, 2, 3], [[1, 2], [3]]])
def test_token_ids_are_an_error_in_words(client, tokens):
    with pytest.raises(openai.BadRequestError, match="token ids, which mean nothing") as error:
        client.embeddings.create(input=tokens, model="")
    assert error.value.param == "input"


def test_too_many_texts_are_called_texts(address):
    body = {"input": ["a"] * 2049, "model": ""}
    response = httpx.post(f"{address}/v1/embeddings", json=body)
    assert response.json()["error"]["message"] == "2,049 texts; send 2,048 at most"


def test_another_size_is_an_error(client):
    assert client.embeddings.create(input="a", model="", dimensions=12).data
    with pytest.raises(openai.BadRequestError, match="vectors have 12"):
        client.embeddings.create(input="a", model="", dimensions=8)


def test_the_model_is_listed_and_found_by_its_name(client):
    assert [model.id for model in client.models.list()] == ["small"]
    assert client.models.retrieve("small").owned_by == "elmokit"
    with pytest.raises(openai.NotFoundError, match="the one that is: small"):
        client.models.retrieve("large")
