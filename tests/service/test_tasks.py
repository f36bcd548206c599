from __future__ import annotations

import asyncio
import threading
from dataclasses import replace

import pytest
from closeness import assert_close
from helpers import error_of
from tasks.small_tasks import embedder, plain_values, train, write_bilm

from elmokit import TrainedTask, WithPredicates
from elmokit.service import reading
from elmokit.service.batching import COST_PER_BATCH
from elmokit.service.middleware import Limits
from elmokit.service.state import ServedModel, ServedTask, load_model
from elmokit.tasks.folder import TaskFolder

TEXT = "we see Jim Lee \N{GRINNING FACE} at Oslo. Ann was 777 MOTHER"
ASKED = {
    "spam": {"texts": [TEXT, "see MOTHER"]},
    "ner": {"texts": [TEXT, ""]},
    "pos": {"sentences": [["the", "dog"], ["a"]]},
    "nli": {"pairs": [["a dog", ["a", "cat"]]]},
    "squad": {"pairs": [["who", TEXT], ["HOW MUCH", TEXT], ["who", "the MOTHER"]]},
    "srl": {"texts": [TEXT, "we go"]},
    "coref": {"texts": ["Zo\xeb Ek sees it. And she sees QQQ", TEXT]},
}


def items_of(body):
    [items] = (body.get(name) for name in ("texts", "sentences", "pairs") if name in body)
    return [tuple(item) for item in items] if "pairs" in body else items


def assert_same_answers(found, expected):
    one, other = list(plain_values(found)), list(plain_values(expected))
    numbers = [[v for v in some if type(v) is float] for some in (one, other)]
    assert [v for v in one if type(v) is not float] == [v for v in other if type(v) is not float]
    assert_close(*numbers, 2e-4)  # the last of four digits may be rounded the other way


@pytest.mark.parametrize("probabilities", [False, True])
def test_answers_are_the_librarys_though_vectors_and_tasks_are_asked_for_at_once(
    converse, answering: ServedModel, probabilities
) -> None:
    async def talk(client):
        bodies = [(f"/tasks/{name}", body) for name, body in ASKED.items()] * 2
        posts = [
            client.post(path, json=body | {"probabilities": probabilities}) for path, body in bodies
        ]
        posts.append(client.post("/embed", json={"texts": [TEXT]}))
        return await asyncio.gather(*posts)

    *responses, vectors = converse(talk, model=answering)
    assert vectors.status_code == 200
    for name, response in zip([*ASKED, *ASKED], responses, strict=True):
        trained = answering.tasks[name].trained
        expected = [one.to_answer(probabilities) for one in trained.predict(items_of(ASKED[name]))]
        assert response.json()["task"] == name
        assert_same_answers(response.json()["answers"], expected)


def test_places_count_characters_of_the_text_and_words_of_a_list(post, answering) -> None:
    [answer] = post("/tasks/ner", {"texts": [TEXT]}, model=answering).json()["answers"]
    assert {(each["type"], each["text"]) for each in answer["entities"]} >= {("LOC", "Oslo")}
    for each in answer["entities"]:
        assert TEXT[each["start"] : each["end"]] == each["text"]
    body = {"sentences": [["at", "New", "York"]]}
    [answer] = post("/tasks/ner", body, model=answering).json()["answers"]
    assert answer == {
        "entities": [{"type": "LOC", "text": "New York", "first_word": 1, "end_word": 3}]
    }


def test_predicates_may_be_named(post, answering) -> None:
    body = {"texts": [TEXT], "predicates": ["jim"]}
    [answer] = post("/tasks/srl", body, model=answering).json()["answers"]
    assert [each["text"] for each in answer["predicates"]] == ["Jim"]
    [expected] = answering.tasks["srl"].trained.predict([WithPredicates(TEXT, ["jim"])])
    assert_same_answers(answer, expected.to_answer())


def test_tasks_are_listed_with_labels_and_scores(converse, answering) -> None:
    listed = converse(lambda client: client.get("/tasks"), model=answering).json()["tasks"]
    tasks = {task.pop("name"): task for task in listed}
    assert list(tasks) == ["spam", "ner", "pos", "nli", "squad", "srl", "coref"]
    assert (tasks["ner"]["kind"], tasks["ner"]["labels"]) == ("tags", ["LOC", "PER"])
    assert tasks["spam"]["bilm"] == "a model without a name"  # never the place of its folder
    assert tasks["srl"]["labels"] == ["ARG0", "ARG1", "ARG2"]
    assert 0.5 < tasks["spam"]["scores"]["dev"]["accuracy"] <= 1
    assert converse(lambda client: client.get("/tasks")).json() == {"tasks": []}


@pytest.mark.parametrize(
    ("name", "body", "status", "code"),
    [
        ("other", {"texts": ["a"]}, 404, "task_not_found"),
        ("spam", {}, 400, "wrong_fields"),
        ("spam", {"pairs": [["a", "b"]]}, 400, "wrong_fields"),
        ("spam", {"texts": ["a"], "sentences": [["a"]]}, 400, "wrong_fields"),
        ("spam", {"texts": ["a"], "predicates": ["a"]}, 400, "wrong_fields"),
        ("nli", {"texts": ["a"]}, 400, "wrong_fields"),
        ("nli", {"pairs": [["a"]]}, 400, "invalid_field"),
        ("nli", {"pairs": []}, 400, "empty_list"),
        ("spam", {"texts": []}, 400, "empty_list"),
        ("spam", {"texts": [" "]}, 400, "empty_text"),
        ("squad", {"pairs": [["who", ""]]}, 400, "empty_text"),
        ("squad", {"pairs": [["", "who"]]}, 400, "empty_text"),
        ("squad", {"pairs": [["who", ["a"]]]}, 400, "invalid_input"),
        ("ner", {"sentences": [["a", ""]]}, 400, "invalid_input"),
        ("ner", {"sentences": [["a"] * 3000]}, 413, "sentence_too_long"),
        ("coref", {"texts": ["go . " * 8200]}, 413, "too_many_words"),
        ("srl", {"texts": ["go"], "predicates": ["a"] * 600}, 413, "too_many_words"),
        ("srl", {"texts": ["go " * 130]}, 413, "sentence_too_long"),
        ("srl", {"texts": ["go " * 300], "predicates": ["go"]}, 413, "too_many_words"),
    ],
)
def test_what_is_wrong_has_a_code(post, answering, name, body, status, code) -> None:
    response = post(f"/tasks/{name}", body, model=answering)
    error = response.json()["error"]
    assert (response.status_code, error["code"]) == (status, code), error


def test_an_answer_has_a_bound(post, answering) -> None:
    body = {"sentences": [["a"] * 300], "probabilities": True}
    limits = Limits(answer_values=1000)
    response = post("/tasks/ner", body, model=answering, limits=limits)
    assert response.json()["error"]["code"] == "response_too_long"
    body["probabilities"] = False
    assert post("/tasks/ner", body, model=answering, limits=limits).status_code == 200


def test_a_task_reads_with_the_served_model_if_that_is_its_own(tmp_path) -> None:
    bilm = write_bilm(tmp_path / "bilm")
    spam = train(tmp_path, "spam", {"training.epochs": 1}, bilm=embedder()).folder
    other = tmp_path / "of-another"
    other.mkdir()
    other = train(other, "spam", {"training.epochs": 1}, bilm=embedder(1)).folder
    served = load_model(bilm, tasks=[spam])
    assert served.tasks["spam"].trained.bilm.embedder is served.embedder
    assert "made in memory and not saved" in error_of(load_model, bilm, tasks=[other])
    again = error_of(load_model, bilm, tasks=[spam, other])
    assert "another task is called 'spam' too" in again


def test_static_vectors_are_read_once_and_not_for_each_request(tmp_path) -> None:
    words = [
        "the",
        "a",
        "we",
        "you",
        "it",
        "is",
        "was",
        "see",
        "go",
        "at",
        "on",
        "$$$",
        "MOTHER",
        "unseen",
    ]
    vectors = tmp_path / "glove.txt"
    vectors.write_text("".join(f"{w} {n} {-n} 1\n" for n, w in enumerate(words)))
    settings = {"inputs.elmo": "none", "inputs.static": str(vectors), "training.epochs": 1}
    folder = TaskFolder(train(tmp_path, "spam", settings, bilm=None).folder)
    served = ServedTask.load(folder, [], None, None)
    expected = TrainedTask.load(folder).predict(["unseen $$$"])
    vectors.unlink()
    trained = served.trained
    found = trained.predict_parsed([trained.parse("unseen $$$", "here")])
    assert_same_answers([one.to_dict() for one in found], [one.to_dict() for one in expected])
    assert "unseen" in trained.model.inputs.static
    gone = ServedTask.load(folder, [], None, None)
    assert "unseen" not in gone.trained.model.inputs.static
    assert gone.trained.predict(["unseen"])


def test_without_its_tokenizer_a_task_answers_who_sends_words(
    without_kiwi, post, answering
) -> None:
    spam = answering.tasks["spam"]
    korean = TrainedTask(spam.trained.task, spam.trained.model, spam.trained.bilm, "kiwi")
    model = replace(answering, tasks={"spam": ServedTask(korean, spam.facts)})
    assert post("/tasks/spam", {"sentences": [["go"]]}, model=model).status_code == 200
    error = post("/tasks/spam", {"texts": ["go"]}, model=model).json()["error"]
    assert error["code"] == "missing_library"


def test_texts_are_split_once_in_slices_and_no_further_than_the_words_allowed(
    converse, answering, monkeypatch
) -> None:
    ask, split = "/tasks/ner", reading.each_sentence
    waiting, seen = threading.Event(), []

    def each_sentence(text, tokenizer):
        seen.append(text)
        if text == "long":
            while not waiting.wait(0.03):
                yield from split("go", tokenizer)
        while text == "endless":
            yield ["a"]
        yield from split(text, tokenizer)

    async def talk(client):
        long = asyncio.create_task(client.post(ask, json={"texts": ["long", TEXT, TEXT]}))
        await asyncio.sleep(0.1)
        short = await client.post(ask, json={"texts": ["we go"]})
        early = not long.done()
        waiting.set()
        endless = await client.post(ask, json={"texts": ["endless"]})
        marked = await client.post("/neighbours", json={"text": "a *cat* "})
        return early, short, await long, endless, marked

    monkeypatch.setattr(reading, "each_sentence", each_sentence)
    talk_in_time = lambda client: asyncio.wait_for(talk(client), 60)  # noqa: E731
    found = converse(talk_in_time, model=answering, limits=Limits(words=999))
    early, short, long, endless, marked = found
    assert (early, short.status_code, long.status_code) == (True, 200, 200)
    assert endless.json()["error"]["code"] == "too_many_words"
    assert marked.json()["error"]["code"] == "no_index"
    assert sorted(seen) == sorted(["long", TEXT, "we go", "endless", "a cat "])


@pytest.mark.parametrize(
    ("sentences", "thread"),
    [([["we", "go"]], "MainThread"), ([["go"]] * 50, "splitter_0"), ([["go" * 65]], "splitter_0")],
)
def test_many_words_are_read_in_a_thread_split_or_not(
    post, answering, monkeypatch, sentences, thread
) -> None:
    trained, threads = answering.tasks["spam"].trained, set()

    def parse(item, place, tokenizer):
        threads.add(threading.current_thread().name)
        return TrainedTask.parse(trained, item, place, tokenizer)

    monkeypatch.setattr(trained, "parse", parse)
    body = {"sentences": sentences}
    assert post("/tasks/spam", body, model=answering).status_code == 200
    assert threads == {thread}


@pytest.mark.parametrize(
    ("name", "body"),
    [
        ("srl", {"texts": ["go " * 120 + ". "] * 25}),
        ("srl", {"texts": ["go" + " " * 90_000 + "go " * 120] * 3}),
        ("srl", {"sentences": [["x" * 400_000, *["go"] * 120]]}),
        ("coref", {"sentences": [["x" * 2_000_000, "she"]]}),
    ],
)
def test_what_may_have_too_long_an_answer_is_not_computed(post, answering, name, body) -> None:
    limits = Limits(answer_values=2**18 if name == "coref" else 2**22)
    error = post(f"/tasks/{name}", body, model=answering, limits=limits).json()["error"]
    assert error["code"] == "response_too_long"


def test_every_word_may_be_a_predicate_so_sentences_are_computed_in_pieces(
    converse, answering, monkeypatch
) -> None:
    trained, batches = answering.tasks["srl"].trained, []

    def predict_examples(examples):
        batches.append([len(one.words) for one in examples])
        return TrainedTask.predict_examples(trained, examples)

    text = " ".join(["we go " * 40 + "."] * 12)
    expected = [one.to_answer() for one in trained.predict([text])]
    monkeypatch.setattr(trained, "predict_examples", predict_examples)
    response = converse(
        lambda client: client.post("/tasks/srl", json={"texts": [text]}), model=answering
    )
    assert_same_answers(response.json()["answers"], expected)
    lengths = [length for batch in batches for length in batch]
    assert len(lengths) == 12
    assert all(sum(n * n for n in batch) < 2 * COST_PER_BATCH for batch in batches)
