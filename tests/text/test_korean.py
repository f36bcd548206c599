import lzma
import pickle
import sys
import time
import unicodedata
from concurrent.futures import ThreadPoolExecutor
from itertools import islice, pairwise

import pytest
from helpers import ROOT, error_of, loaded_by
from hypothesis import given, settings
from hypothesis import strategies as st

from elmokit.errors import InputError
from elmokit.text import korean
from elmokit.text.korean import LONGEST_PART, KiwiTokenizer, _load_kiwi
from elmokit.text.tokenizer import Token, load_tokenizer

pytest.importorskip("kiwipiepy", reason="the extra [korean] is not installed")

DATA = ROOT.parent / "shared" / "data" / "pretrain-ko"
KIWI = KiwiTokenizer()
LETTERS = ["ㅋㅋㅋ", "ㅠ", "봤", "엌", "네요", "영화", "漢字", "싶대", "ᆫ다", "ᄒ", "ᅡ", "ᆫ", "각"]
MARKS = ['"', "”", "(", ".", "1919.3.1. 3", "a@b.co", "#tag", "😀", "👨‍👩‍👧", "é", "か", "\u0301"]
STRANGE = [" ", "\n", "\n\n", "\ud800", "\0", "\u3000", "\x1c", "\x85", "\u200d", "\xa0", "\u3164"]
AWKWARD = st.sampled_from(LETTERS + MARKS + STRANGE)
ANY_TEXT = st.lists(AWKWARD | st.characters() | st.text(max_size=8), max_size=20).map("".join)


def words(text: str) -> list[str]:
    return [token.text for token in KIWI.words(text)]


def check_places(text: str, tokens: list[Token]) -> None:
    """All that is promised of the places of words."""
    assert all(0 <= token.start < token.end <= len(text) for token in tokens)
    assert all(one.start <= next.start and one.end <= next.end for one, next in pairwise(tokens))
    assert all(token.text.split() == [token.text] for token in tokens)
    covered = {place for token in tokens for place in range(token.start, token.end)}
    assert not [c for place, c in enumerate(text) if place not in covered and not c.isspace()]


@given(text=ANY_TEXT)
@settings(max_examples=100, deadline=None)
def test_every_character_but_whitespace_is_in_the_place_of_a_word(text: str):
    sentences = KIWI.sentences(text)

    assert all(sentences)
    assert [token for sentence in sentences for token in sentence] == KIWI.words(text)
    check_places(text, KIWI.words(text))


@pytest.mark.skipif(not DATA.exists(), reason="needs the Korean text")
@pytest.mark.parametrize("name", ["reviews", "kowiki"])
def test_real_text_loses_nothing_and_has_the_known_number_of_morphemes(name: str):
    with lzma.open(DATA / f"{name}.heldout.txt.xz", "rt", encoding="utf-8") as file:
        lines = list(islice(file, 150 if name == "kowiki" else 500))
    tokens = [KIWI.words(line) for line in lines]

    for line, found in zip(lines, tokens, strict=True):
        check_places(line, found)
    of_each_word = sum(map(len, tokens)) / sum(len(line.split()) for line in lines)
    assert of_each_word == pytest.approx(2.29 if name == "kowiki" else 2.54, abs=0.05)


def test_forms_are_words_and_have_the_place_of_what_is_written():
    assert KIWI.words("배가 고파서 갔다.") == [
        Token("배", 0, 1),
        Token("가", 1, 2),
        Token("고프", 3, 5),
        Token("어서", 4, 6),
        Token("가", 7, 8),
        Token("었", 7, 8),
        Token("다", 8, 9),
        Token(".", 9, 10),
    ]


def test_morpheme_that_is_left_out_in_writing_has_the_place_before_it():
    assert KIWI.words("좋은 영화네요")[-3:] == [
        Token("영화", 3, 5),
        Token("이", 4, 5),
        Token("네요", 5, 7),
    ]


def test_places_count_characters_where_utf_16_needs_two():
    assert KIWI.words("😀 𠀀 갔다")[2] == Token("가", 4, 5)


def test_decomposed_hangul_gives_the_same_words_in_their_raw_places():
    text = "한국어를 공부했다 ㅋㅋ. 카페 café는"
    decomposed = unicodedata.normalize("NFD", text)

    assert len(decomposed) > 1.5 * len(text)
    assert words(decomposed) == words(text)
    for composed, raw in zip(KIWI.words(text), KIWI.words(decomposed), strict=True):
        shown = decomposed[raw.start : raw.end]
        assert unicodedata.normalize("NFC", shown) == text[composed.start : composed.end]


def test_lone_jamo_hanja_and_other_scripts_are_words():
    assert words("ㅋㅋㅋ 漢字 Text 3,000 :) か ㅠㅠ") == [
        *("ㅋㅋㅋ", "漢字", "Text", "3,000", ":", ")", "か", "ㅠㅠ"),
    ]


def test_serial_number_with_spaces_is_several_words():
    assert KIWI.words("1919.3.1. 3") == [Token("1919.3.1.", 0, 9), Token("3", 10, 11)]


def test_names_of_several_words_have_no_spaces():
    assert words("다크나이트 러셀 크로우") == ["다크나이트", "러셀", "크로우"]


def test_quotation_is_one_sentence_with_what_says_it():
    text = '"나는 학교에 간다. 너도 가자."라고 말했다. 그는 웃었다.'

    assert [sentence[-1].end for sentence in KIWI.sentences(text)] == [26, len(text)]


def test_blank_line_ends_a_sentence_and_a_line_break_does_not():
    assert len(KIWI.sentences("오늘은 날씨가\n아주 좋은\n\n내일의 날씨")) == 2


@pytest.mark.parametrize("text", ["", " ", "\n", " \n\t\r\n \u3000"])
def test_text_without_a_word_has_no_sentence(text: str):
    assert KIWI.sentences(text) == []


def test_words_do_not_depend_on_the_texts_or_the_thread_before():
    texts = [
        "뷁쉙하다 뷁쉙했다",
        "나는 갔다. 너는 왔니?",
        "그걸 봤엌ㅋㅋ 재밌닼ㅋ",
        "난 널 뷁쉙했다",
    ] * 5
    with ThreadPoolExecutor(4) as threads:
        together = list(threads.map(KIWI.sentences, texts))

    assert together == [KIWI.sentences(text) for text in texts]
    assert together[:4] == [KIWI.sentences(text) for text in texts[:4]][::1]
    assert together == list(reversed([KIWI.sentences(text) for text in reversed(texts)]))


def test_sentences_of_a_long_line_are_those_of_a_short_one():
    sentence = "나는 어제 학교에 가서 친구를 만났다. "
    count = 3 * LONGEST_PART // len(sentence)
    sentences = KIWI.sentences(sentence * count)

    assert len(sentences) == count
    assert {" ".join(token.text for token in one) for one in sentences} == {
        " ".join(words(sentence))
    }
    check_places(sentence * count, [token for one in sentences for token in one])


@pytest.mark.parametrize("unit", ["가나다라", "갔다 ", '"가자. ', "ㅋ", "1.", "漢", "("])
def test_time_is_linear_in_the_text(unit: str):
    def seconds(length: int) -> float:
        text, taken = unit * (length // len(unit)), []
        for _ in range(2):  # the first also warms up
            begin = time.process_time()
            assert KIWI.words(text)[-1].end >= len(text) - 1
            taken.append(time.process_time() - begin)
        return min(taken)

    assert seconds(32_000) < 24 * max(0.03, seconds(LONGEST_PART))  # quadratic would be 64


@pytest.mark.slow
def test_a_line_of_ten_megabytes_takes_ten_times_as_long_as_one_of_a_megabyte():
    sentence = "나는 어제 학교에 가서 오랜 친구를 만났다. "

    def seconds(size: int) -> float:
        count = size // len(sentence.encode())
        begin = time.process_time()
        assert len(KIWI.sentences(sentence * count)) == count
        return time.process_time() - begin

    assert seconds(10_000_000) < 20 * seconds(1_000_000)


def test_tokenizer_is_chosen_by_name_and_is_loaded_when_text_is_split():
    assert type(load_tokenizer("kiwi")) is KiwiTokenizer
    assert type(pickle.loads(pickle.dumps(KIWI))) is KiwiTokenizer
    code = "from elmokit.text.tokenizer import load_tokenizer; load_tokenizer('kiwi')"
    assert not loaded_by(code, {"kiwipiepy", "_kiwipiepy"})


def test_a_long_line_of_whitespace_or_without_any_is_read():
    assert KIWI.sentences(" " * 3 * LONGEST_PART) == []
    check_places("가나다라" * LONGEST_PART, KIWI.words("가나다라" * LONGEST_PART))


def test_kiwi_that_is_not_installed_is_one_line(monkeypatch):
    monkeypatch.setitem(sys.modules, "kiwipiepy", None)
    monkeypatch.setattr(korean, "_load_kiwi", _load_kiwi.__wrapped__)
    tokenizer = load_tokenizer("kiwi")  # which words that are given do not need
    message = error_of(tokenizer.words, "배가 고파서", kind=InputError)
    assert message == 'kiwipiepy is not installed; run: pip install "elmokit[korean]"'
