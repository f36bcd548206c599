from __future__ import annotations

from pathlib import Path

import pytest
from analysis.probes.small_texts import INDEX, SEMCOR, TEST_DATA, TEST_KEYS, conllu, write

from elmokit.analysis.probes.files import (
    FIVE,
    SenseOccurrence,
    SenseSentence,
    SenseTestFiles,
    TaggedWords,
    find_sense_tests,
    read_semcor,
    read_sense_index,
    read_sense_test,
    read_tagged,
)
from elmokit.errors import ElmoError


def refusal(function, *arguments) -> str:
    """What is said, in one line, about what is refused."""
    with pytest.raises(ElmoError) as caught:
        function(*arguments)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def sense_test(folder: Path, data: str = TEST_DATA, keys: str = TEST_KEYS) -> SenseTestFiles:
    paths = write(folder / "a.data.xml", data), write(folder / "a.gold.key.txt.gz", keys)
    return SenseTestFiles(*paths)


def test_semcor_units_are_split_and_names_have_no_sense(tmp_path):
    both = ("bank%1:17:01::", "bank%1:14:00::")
    assert read_semcor([write(tmp_path / "a.tsv.gz", SEMCOR)]) == [
        SenseSentence(
            ("Mary", "Ann", "took", "place", '"', "banks", '"'),
            (
                SenseOccurrence(2, 4, "take_place%2", ("take_place%2:30:00::",)),
                SenseOccurrence(5, 6, "bank%1", both),
            ),
        ),
        SenseSentence(("#", "odd"), (SenseOccurrence(1, 2, "odd%3", ("odd%5:00:00:strange:00",)),)),
    ]


def test_of_each_file_of_semcor_the_first_sentences_can_be_taken(tmp_path):
    files = [write(tmp_path / name, SEMCOR) for name in ("a.tsv", "b.tsv")]
    assert [len(one.words) for one in read_semcor(files, 1)] == [7, 7]


@pytest.mark.parametrize(
    ("bad", "said"),
    [
        ("odd\tJJ\todd", "line 10: 'odd\\tJJ\\todd' is not 4 values with tabs between"),
        ("odd\tJJ\todd\tstrange", "line 10: 'strange' is no sense key"),
        ("odd\tJJ\todd\todd%9:00:00::", "line 10: 'odd%9:00:00::' is no sense key"),
    ],
)
def test_a_bad_line_of_semcor_is_named(tmp_path, bad, said):
    contents = SEMCOR.replace("odd\tJJ\todd\todd%5:00:00:strange:00", bad)
    assert said in refusal(read_semcor, [write(tmp_path / "a.tsv", contents)])


def test_semcor_without_a_sense_is_refused(tmp_path):
    path = write(tmp_path / "a.tsv", "The\tDT\t-\t-\n")
    assert refusal(read_semcor, [path]) == f"{path}: no word has a sense; name files of SemCor"


def test_a_sense_test_has_its_answers_at_their_places(tmp_path):
    assert read_sense_test(sense_test(tmp_path)) == [
        SenseSentence(
            ("The", "banks", "belong", "to", "(", "odd"),
            (
                SenseOccurrence(1, 2, "bank%1", ("bank%1:14:00::",)),
                SenseOccurrence(
                    2, 4, "belong_to%2", ("belong_to%2:42:00::", "belong_to%2:42:02::")
                ),
                SenseOccurrence(5, 6, "odd%3", ("odd%3:00:00::",)),
            ),
        )
    ]


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("</sentence>", "", "a.data.xml, line 8: is not well-formed XML (mismatched tag)"),
        (
            'encoding="UTF-8"',
            'encoding="klingon"',
            "a.data.xml, line 1: is XML in an unknown encoding",
        ),
        ('pos="VERB"', 'pos="PRON"', "instance 'd.s.1' needs words, a lemma and a pos of NOUN"),
        (">banks<", "> <", "instance 'd.s.0' needs words"),
        ('id="d.s.1"', 'id="d.s.9"', "a.gold.key.txt.gz: answers 'd.s.1', which "),
    ],
)
def test_a_bad_test_set_is_told_in_one_line(tmp_path, old, new, said):
    files = sense_test(tmp_path, TEST_DATA.replace(old, new))
    assert said in refusal(read_sense_test, files)


def test_an_instance_without_an_answer_is_named(tmp_path):
    files = sense_test(tmp_path, keys=TEST_KEYS.replace("d.s.2 odd%3:00:00::\n", ""))
    assert "instance 'd.s.2' has no answer in " in refusal(read_sense_test, files)


@pytest.mark.parametrize(
    ("keys", "said"),
    [("d.s.0\n", "line 1: 'd.s.0' has no sense key"), ("\nd.s.0 x\n", "line 2: 'x' is no sense")],
)
def test_a_bad_line_of_answers_is_named(tmp_path, keys, said):
    assert said in refusal(read_sense_test, sense_test(tmp_path, keys=keys))


def test_all_is_passed_over_where_the_five_sets_are_there(tmp_path):
    for name in (*reversed(FIVE), "ALL", "other"):
        write(tmp_path / f"{name}.data.xml.gz", "")
        write(tmp_path / f"{name}.gold.key.txt", "")
    assert list(find_sense_tests(tmp_path)) == [*FIVE, "other"]
    (tmp_path / "senseval3.data.xml.gz").unlink()
    assert list(find_sense_tests(tmp_path)) == [*(n for n in FIVE if n != FIVE[1]), "ALL", "other"]


def test_a_folder_without_whole_test_sets_is_refused(tmp_path):
    assert "is no folder that can be read" in refusal(find_sense_tests, tmp_path / "nowhere")
    assert "holds no test set" in refusal(find_sense_tests, tmp_path)
    write(tmp_path / "x.data.xml", "")
    assert "has no x.gold.key.txt beside it" in refusal(find_sense_tests, tmp_path)


def test_the_first_sense_of_an_adjective_may_be_a_satellite(tmp_path):
    index = read_sense_index(write(tmp_path / "index.gz", INDEX))
    assert index.first["odd%3"] == "odd%5:00:00:strange:00"
    assert index.first["bank%1"] == "bank%1:17:01::"
    assert index.numbers["bank%1:14:00::"] == 2


@pytest.mark.parametrize("bad", ["bank%1:14:00:: 08420278 2", "bank%1:14:00:: 0 two 3", "a 0 1 2"])
def test_a_bad_line_of_the_index_is_named(tmp_path, bad):
    path = write(tmp_path / "index", f"{INDEX}{bad}\n")
    assert refusal(read_sense_index, path).startswith(f"{path}, line 6: ")


def test_an_empty_index_is_refused(tmp_path):
    assert "holds no sense" in refusal(read_sense_index, write(tmp_path / "index", "\n"))


def test_words_have_universal_tags_or_the_language_s_own(tmp_path):
    contents = "# text = a b\n1-2\tab" + "\t_" * 8 + "\n" + conllu("a/DET b/NOUN", "#/SYM")
    path = write(tmp_path / "a.conllu.gz", contents.replace("\n", "\r\n"))
    assert read_tagged(path) == [
        TaggedWords(("a", "b"), ("DET", "NOUN")),
        TaggedWords(("#",), ("SYM",)),
    ]
    assert read_tagged(path, "xpos")[0].tags == ("XDET", "XNOUN")


def test_a_bad_file_of_tags_is_told_in_one_line(tmp_path):
    short = write(tmp_path / "a", conllu("a/DET") + "\n2\tb\n")
    assert refusal(read_tagged, short).startswith(f"{short}, line 3: has 2 values")
    assert "holds no sentence" in refusal(read_tagged, write(tmp_path / "b", "# nothing\n"))
    open_tags = write(tmp_path / "c", conllu("a/_"))
    assert "try --tag xpos" in refusal(read_tagged, open_tags)
