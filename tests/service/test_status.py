from __future__ import annotations

import asyncio
import json
import logging
import threading

import httpx
import pytest
import torch
from small_models import small_saved_model

from elmokit import __version__
from elmokit.service import state
from elmokit.service.middleware import Limits
from elmokit.service.monitoring import LOGGER, JsonLines
from elmokit.service.server import create_application
from elmokit.service.state import ServedModel, Service
from elmokit.text.vocabulary import Vocabulary

SECRET = "xylophone-of-mine"


@pytest.fixture
def lines(caplog, monkeypatch):
    """What the service writes down, line by line."""
    monkeypatch.setattr(LOGGER, "propagate", True)
    caplog.set_level(logging.INFO, LOGGER.name)
    return lambda: [
        JsonLines().format(record) for record in caplog.records if hasattr(record, "fields")
    ]


def test_until_the_model_is_loaded_it_is_up_but_not_ready(model):
    load = threading.Event()

    def slowly():
        load.wait(10)
        return model

    async def run():
        service = Service(slowly, Limits())
        application = create_application(service)
        transport = httpx.ASGITransport(application)
        async with (
            service.running() as loading,
            httpx.AsyncClient(transport=transport, base_url="http://t") as client,
        ):
            before = [await client.get(path) for path in ("/health", "/ready", "/model")]
            before.append(await client.post("/embed", json={"texts": ["a"]}))
            load.set()
            await loading
            return before, await client.get("/ready")

    (health, ready, facts, embed), after = asyncio.run(run())
    assert health.json() == {"status": "up"}
    assert [response.status_code for response in (ready, facts, embed)] == [503, 503, 503]
    assert embed.headers["retry-after"] == "1"
    assert after.json() == {"status": "ready"}


def test_the_model_tells_its_real_shapes(converse, model):
    facts = converse(lambda client: client.get("/model")).json()
    assert facts["config"]["cell_size"] == 10
    assert facts["config"]["encoder"]["filters"] == [[1, 4], [2, 6], [3, 8]]
    assert (facts["layers"], facts["vector_size"]) == (3, 12)
    assert facts["limits"]["sentences"] == 2048
    assert facts["version"] is None
    assert facts["predicts_words"] is True


@pytest.mark.parametrize(
    ("tokenizer", "words", "script"),
    [
        ("kiwi", None, "HANGUL"),
        ("whitespace", ["<S>", "</S>", "<UNK>", ".", "눈이", "많이", "내렸다"], "HANGUL"),
        ("default", ["<S>", "</S>", "<UNK>", ".", "the", "쌀"], "LATIN"),
        ("default", None, None),
    ],
)
def test_the_model_tells_the_script_of_its_words(tokenizer, words, script):
    vocabulary = None if words is None else Vocabulary(words)
    served = ServedModel.of(small_saved_model(tokenizer, vocabulary), "small")
    assert served.facts()["script"] == script


@pytest.mark.parametrize("vocabulary", [None, Vocabulary(["<S>", "</S>", "<UNK>", ".", "a", "b"])])
def test_a_bundled_model_tells_its_version(vocabulary):
    saved = small_saved_model("default", vocabulary)._replace(version="tiny 3")
    assert ServedModel.of(saved, "tiny").facts()["version"] == "tiny 3"


def test_metrics_count_requests_and_batches(converse):
    async def talk(client):
        await client.post("/embed", json={"sentences": [["a", "b"]]})
        await client.post("/embed", json={})
        await client.get("/nowhere")
        return (await client.get("/metrics")).text

    lines = converse(talk).splitlines()
    assert 'elmo_requests_total{route="/embed",status="200"} 1.0' in lines
    assert 'elmo_requests_total{route="/embed",status="400"} 1.0' in lines
    assert 'elmo_requests_total{route="other",status="404"} 1.0' in lines
    assert "elmo_turn_requests_count 1.0" in lines
    assert "elmo_items_total 1.0" in lines
    assert "elmo_words_total 4.0" in lines
    assert "elmo_waiting_words 0.0" in lines
    described = {line.split()[2] for line in lines if line.startswith("# HELP")}
    assert described == {line.split()[2] for line in lines if line.startswith("# TYPE")}


def test_what_clients_send_is_not_written_down(converse, lines):
    async def talk(client):
        headers = {"authorization": f"Bearer {SECRET}"}
        await client.post("/embed", json={"texts": [SECRET]}, headers=headers)
        await client.post("/score", json={"sentences": [[SECRET]], SECRET: 1})
        await client.post("/predict", json={"text": f"{SECRET} ___ ___"})
        await client.get(f"/{SECRET}?{SECRET}={SECRET}")

    converse(talk)
    written = lines()
    assert [json.loads(line)["status"] for line in written] == [200, 400, 400, 404]
    assert SECRET not in "".join(written)
    assert json.loads(written[0])["route"] == "/embed"


def test_a_failure_is_told_by_its_number_alone(converse, lines, monkeypatch):
    def fail(*arguments, **named):
        raise RuntimeError(f"/a/path and {SECRET}")

    monkeypatch.setattr(state.Service, "read_all", fail)
    response = converse(lambda client: client.post("/embed", json={"texts": [SECRET]}))
    assert response.status_code == 500
    number = response.headers["x-request-id"]
    assert number in response.json()["error"]["message"]
    assert "path" not in response.text
    failure = json.loads(lines()[0])
    assert (failure["request"], failure["error"]) == (number, "RuntimeError")
    assert any("fail" in place for place in failure["trace"])
    assert SECRET not in "".join(lines())


def test_every_response_has_headers_that_keep_it_safe(converse):
    async def talk(client):
        return [await client.get("/"), await client.get("/nowhere"), await client.put("/embed")]

    for response in converse(talk):
        policy = response.headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        assert response.headers["x-content-type-options"] == "nosniff"
        assert "access-control-allow-origin" not in response.headers


def test_the_page_is_asked_for_again_only_when_it_changed(converse):
    async def talk(client):
        first = await client.get("/page/app.js")
        again = await client.get("/page/app.js", headers={"if-none-match": first.headers["etag"]})
        return first, again, await client.get("/page/..%2Fstate.py")

    first, again, other = converse(talk)
    assert first.headers["content-type"] == "text/javascript; charset=utf-8"
    assert (first.status_code, again.status_code, other.status_code) == (200, 304, 404)
    assert again.content == b""


def test_behind_a_prefix_it_responds_whether_a_proxy_takes_it_away_or_not(converse):
    async def talk(client):
        paths = ("/model", "/elmo/model", "/elmo/elmo/model", "/elmofoo", "/elmo")
        found = [await client.get(path) for path in paths]
        return found, await client.get("/elmo/openapi.json"), await client.get("/page/app.js")

    found, document, page = converse(talk, root_path="/elmo/")
    assert [response.status_code for response in found] == [200, 200, 404, 404, 307]
    assert found[-1].headers["location"].endswith("/elmo/")
    assert document.json()["servers"] == [{"url": "/elmo"}]
    assert page.status_code == 200


def test_what_serves_is_a_metric(converse):
    lines = converse(lambda client: client.get("/metrics")).text.splitlines()
    assert "# HELP elmo_build_info Versions of what serves." in lines
    (build,) = [line for line in lines if line.startswith("elmo_build_info{")]
    assert f'version="{__version__}"' in build
    assert f'torch="{torch.__version__}"' in build


@pytest.mark.parametrize(
    ("path", "body", "field", "said"),
    [
        ("/embed", {"sentnces": [["a"]]}, "sentnces", "did you mean sentences?"),
        (
            "/embed",
            {"texts": ["a"], "mix": {"weigths": [1]}},
            "mix.weigths",
            "did you mean weights?",
        ),
        ("/split", {"texts": ["a"], "q": 1}, "q", "there are texts"),
    ],
)
def test_a_mistyped_field_is_told_its_near_name(refusal, path, body, field, said):
    assert refusal(path, body) == f"{field}: there is no such field; {said}"
