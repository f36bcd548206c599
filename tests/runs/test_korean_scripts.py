"""The scripts for Korean, on a few sentences; Kiwi is asked, or the data are split already."""

from collections import Counter

import pytest
from helpers import write

from elmokit.io.text_files import paragraphs, read_lines
from runs import korean_data, nsmc_tfidf

KLUE = """\
## header
## id\t<서울:LC>에 <갔:DT>다 <한:OG>국
서\tB-LC
울\tI-LC
에\tO
 \tO
갔\tB-DT
다\tO
 \tO
한\tB-OG
국\tO
"""
KLP = """\
; 이만섭 의원은
$<이만섭:PS> 의원은
1\t이만섭\tNNP\tB_PS
1\t의원\tNNG\tI
1\tㄴ\tETM\tO
1\t았\tEP\tO
"""


def test_entities_of_characters_become_those_of_morphemes_or_are_lost(tmp_path, monkeypatch):
    pytest.importorskip("kiwipiepy", reason="Kiwi is an extra: elmokit[korean]")
    (tmp_path / "ko-klue").mkdir()
    write(tmp_path / "ko-klue/klue-ner-v1.1_dev.tsv.gz", KLUE)
    monkeypatch.setattr(korean_data, "DATA", tmp_path)
    counts = Counter[str]()
    (sentence,) = (list(words) for words in korean_data.klue_sentences(counts))
    assert sentence[:2] == [("서울", "B-LC"), ("에", "O")]
    assert sentence[2:] == [("가", "B-DT"), ("었", "O"), ("다", "O"), ("한국", "O")]
    assert counts == {"all": 3, "lost": 1}


def test_the_inside_of_an_entity_has_the_type_of_its_beginning(tmp_path):
    lines = paragraphs(read_lines(write(tmp_path / "ner", KLP)))
    (sentence,) = (list(korean_data.klp_sentence(each)) for each in lines)
    assert sentence == [("이만섭", "B-PS"), ("의원", "I-PS"), ("\u11ab", "O"), ("었", "O")]


def test_of_ten_articles_two_are_for_the_test_and_one_is_dev():
    parts = korean_data.cut(range(20))
    assert (parts["test"], parts["dev"]) == ([0, 1, 10, 11], [2, 12])
    assert sorted(number for part in parts.values() for number in part) == list(range(20))


def test_tfidf_chooses_c_on_dev_and_has_a_row_for_each_part(tmp_path, monkeypatch, capsys):
    pytest.importorskip("sklearn", reason="scikit-learn is an extra: elmokit[sklearn]")
    reviews = [("정말 재미있다", 1), ("너무 지루하다", 0)] * 20
    rows = [f"{number}\t{text}\t{label}\n" for number, (text, label) in enumerate(reviews)]
    file = write(tmp_path / "reviews.tsv", "id\tdocument\tlabel\n" + "".join(rows))
    monkeypatch.setattr(nsmc_tfidf, "NSMC", [str(file)] * 3)
    monkeypatch.setattr(nsmc_tfidf, "morphemes", str.split)
    nsmc_tfidf.main([])
    lines = capsys.readouterr().out.splitlines()
    assert lines[2].startswith("| characters, 1 to 4 | 40 | ")
    assert lines[5].startswith("| morphemes, 1 and 2 | 6 | ")
    assert all("| 100.00 | 100.00 |" in line for line in lines[2:6])
