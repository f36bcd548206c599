import json
from pathlib import Path

import pytest
from analysis.probes.small_texts import INDEX, SEMCOR, TEST_KEYS, conllu
from helpers import write
from small_models import small_embedder, write_language_model

from elmokit.analysis.probes.files import TaggedWords
from runs.layer_probes import FILES, main, probe_tags

CONLLU = conllu("I/PRON do/AUX n't/PART", "#/SYM cats/NOUN")
CONLL = """\
-DOCSTART- -X- O O

Peter NNP I-NP I-PER
Spain NNP I-NP B-LOC
# # O O

cats NNS I-NP O
"""
TEST_DATA = """\
<?xml version="1.0" encoding="UTF-8" ?>
<corpus lang="en"><text id="d"><sentence id="d.s">
<wf lemma="the" pos="DET">The</wf>
<instance id="d.s.0" lemma="Bank" pos="NOUN">banks</instance>
<instance id="d.s.1" lemma="belong_to" pos="VERB">belong to</instance>
<wf lemma="``" pos=".">``</wf>
<instance id="d.s.2" lemma="odd" pos="ADJ">odd</instance>
</sentence></text></corpus>
"""


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A folder for each data set, all files small."""
    contents = {
        "ewt": [CONLLU, CONLLU],
        "conll": [CONLL, CONLL],
        "wsd": [SEMCOR, SEMCOR, TEST_DATA, TEST_KEYS, INDEX],
    }
    for folder, texts in contents.items():
        for name, text in zip(FILES[folder], texts, strict=True):
            write(tmp_path / folder / name, text)
    return tmp_path


def test_a_tag_that_context_decides_is_known_to_the_contextual_layers_only():
    # The tag of x is that of the word before it: layer 0 can only guess.
    def sentence(first: str) -> TaggedWords:
        return TaggedWords((first, "x"), (f"{first}-itself", f"after-{first}"))

    sentences = [sentence("aa" if number % 2 else "b") for number in range(800)]
    columns = probe_tags(small_embedder(), "toy", sentences, sentences[:100])
    baseline, *layers = columns["accuracy"]
    assert baseline == pytest.approx(0.75)
    assert layers[0] == pytest.approx(0.75)
    assert layers[1] == 1.0
    assert len(layers) == 4


def test_the_table_has_a_line_for_each_layer_and_their_average(data, tmp_path, capsys):
    output = tmp_path / "probes.json"
    options = ["--model", write_language_model(tmp_path / "model"), "--json", str(output)]
    folders = [f"--{name}={data / name}" for name in ("ewt", "conll", "wsd")]
    main([*options, *folders])
    header, _, *lines, blank, machine = capsys.readouterr().out.splitlines()
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in lines]
    assert [row[0] for row in rows] == ["baseline", "0", "1", "2", "average"]
    columns = json.loads(output.read_text())["columns"]
    assert [cell.strip() for cell in header.split("|")[2:-1]] == list(columns)
    assert list(columns) == [
        "POS accuracy",
        "entity accuracy",
        "entity micro F1",
        "entity macro F1",
        "sense F1",
    ]
    assert rows[0][1:] == ["100.0", "100.0", "100.0", "100.0", "33.3"]
    assert (blank, machine.startswith("`python -m runs.layer_probes --model ")) == ("", True)
