import gzip
import json
from pathlib import Path

import pytest
from analysis.probes.small_texts import INDEX, TEST_KEYS
from small_language_models import write_language_model
from small_models import small_embedder

from elmokit.analysis.probes.files import TaggedWords
from runs.layer_probes import FILES, macro_f1, main, micro_f1, probe_tags

CONLLU = """\
# sent_id = 1
# text = I don't
1	I	I	PRON	PRP	_	2	nsubj	_	_
2-3	don't	_	_	_	_	_	_	_	_
2	do	do	AUX	VBP	_	0	root	_	_
3	n't	not	PART	RB	_	2	advmod	_	_
3.1	know	know	VERB	VB	_	_	_	_	_

# sent_id = 2
1	#	#	SYM	NN	_	0	root	_	_
2	cats	cat	NOUN	NNS	_	1	dep	_	_
"""
CONLL = """\
-DOCSTART- -X- O O

Peter NNP I-NP I-PER
Spain NNP I-NP B-LOC
# # O O

cats NNS I-NP O
"""
SEMCOR = """\
# sent_id = a.1
Mary_Ann	NNP	person	person%1:03:00::
took_place	VB	take_place	take_place%2:30:00::
``	PUNC	-	-
banks	NN	bank	bank%1:17:01::;bank%1:14:00::
''	PUNC	-	-

# sent_id = a.2
odd	JJ	odd	odd%5:00:00:strange:00
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


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(gzip.compress(text.encode()))
    return path


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


@pytest.fixture
def model(tmp_path: Path) -> str:
    return write_language_model(tmp_path / "model")


def folders(data: Path, *names: str) -> list[str]:
    return [part for name in names for part in (f"--{name}", str(data / name))]


def test_f1_leaves_out_words_that_are_no_entity():
    wanted = ["PER", "PER", "LOC", "O", "O", "O"]
    given = ["PER", "LOC", "LOC", "O", "O", "PER"]
    assert micro_f1(given, wanted) == pytest.approx(2 * 2 / (4 + 3))
    assert macro_f1(given, wanted) == pytest.approx((2 * 1 / 4 + 2 * 1 / 3) / 2)


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


def test_the_table_has_a_line_for_each_layer_and_their_average(model, data, tmp_path, capsys):
    output = tmp_path / "probes.json"
    options = ["--model", model, "--json", str(output)]
    main([*options, *folders(data, "ewt", "conll", "wsd")])
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
