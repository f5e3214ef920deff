import re
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from poet_mcu.cnames import Names, board_name, board_names, c_string, comment_text, identifier

VALID = re.compile(r"^[A-Za-z][A-Za-z0-9]*(_[A-Za-z0-9]+)*$")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("conv1.weight", "conv1_weight"),
        ("/layer/Conv_output_0", "layer_Conv_output_0"),
        ("1x1", "n_1x1"),
        ("", "unnamed"),
        ("___", "unnamed"),
        ("重み", "unnamed"),
        ("größe", "gr_e"),
        ("int", "n_int"),
        ("class", "n_class"),
        ("nullptr", "n_nullptr"),
        ("uint8_t", "n_uint8_t"),
        ("a__b", "a_b"),
    ],
)
def test_identifier_examples(text, expected):
    assert identifier(text) == expected


def test_prefix_makes_reserved_words_harmless():
    assert identifier("int", prefix="poet_w") == "poet_w_int"
    assert identifier("7", prefix="v") == "v_7"


@given(st.text(max_size=300), st.sampled_from(["", "poet", "w3"]))
def test_identifier_is_valid_short_and_stable(text, prefix):
    name = identifier(text, prefix)
    assert VALID.match(name)
    assert len(name) <= 63
    assert name == identifier(text, prefix)


def test_long_names_keep_their_difference():
    first, second = identifier("x" * 300), identifier("x" * 299 + "y")
    assert first != second
    assert len(first) == len(second) == 63


@given(st.lists(st.text(alphabet="aA1._é", max_size=70), max_size=30))
def test_names_are_unique_and_repeatable(texts):
    names, again = Names(), Names()
    made = [names.unique(t, "v") for t in texts]
    assert len(set(made)) == len(made)
    assert all(VALID.match(n) and len(n) <= 63 for n in made)
    assert made == [again.unique(t, "v") for t in texts]


def test_names_respect_what_is_taken():
    names = Names(taken=("a_b", "a_b_2"))
    assert names.unique("a.b") == "a_b_3"


def test_numbered_name_does_not_hit_a_later_plain_one():
    names = Names()
    assert [names.unique(t) for t in ("a", "a", "a_2")] == ["a", "a_2", "a_2_2"]


def test_c_string_survives_the_compiler(tmp_path: Path):
    """Every byte but NUL, trigraphs, and a digit behind an octal escape come out unchanged."""
    texts = [
        bytes(range(1, 256)),
        b"??=??/??'??(??)??!??<??>??-",
        b'\x011 \\? %s "q" \'',
        b"????",
        "größe 重み".encode(),
    ]
    prints = "\n".join(
        f"{{ static const char t[] = {c_string(t)}; fwrite(t, 1, sizeof t - 1, stdout); }}"
        for t in texts
    )
    source = tmp_path / "s.c"
    source.write_text(f"#include <stdio.h>\nint main(void) {{\n{prints}\nreturn 0; }}\n", "ascii")
    program = tmp_path / "s"
    flags = ["-std=c11", "-Wall", "-Wextra", "-Wpedantic", "-Werror"]
    subprocess.run(["cc", *flags, str(source), "-o", str(program)], check=True)
    out = subprocess.run([str(program)], capture_output=True, check=True).stdout
    assert out == b"".join(texts)


@given(st.text(max_size=60))
def test_c_string_is_ascii_on_one_line(text):
    literal = c_string(text)
    assert literal.isascii()
    assert literal.isprintable()
    assert "??" not in literal


@given(st.text(alphabet=st.sampled_from("*/\\?\n\r\t =a\u202e\u2028é"), max_size=40))
def test_comment_text_cannot_end_or_continue_the_comment(text):
    line = comment_text(text)
    assert line.isascii()
    assert line.isprintable() or not line
    for bad in ("*/", "/*", "//", "??", "\\"):
        assert bad not in line


def test_comment_text_shows_what_was_there():
    assert comment_text("a*/b\nc \u202e") == "a* /b c <U+202E>"
    assert comment_text("*//*") == "* / / *"


LONG = st.text(min_size=0, max_size=3).map(lambda tail: "ü" * 210 + tail)


@given(st.lists(st.one_of(st.text(max_size=8), LONG), max_size=12))
def test_names_on_the_board_are_short_and_differ(texts):
    told = board_names(texts)
    assert len(set(told)) == len(texts)
    assert all(len(name.encode()) <= 400 for name in told)
    for text, name in zip(texts, told, strict=True):
        assert name.startswith(text[:150])
    kept = [text for text in dict.fromkeys(texts) if len(text.encode()) <= 400]
    assert board_names(kept) == kept


def test_a_name_that_looks_like_a_cut_one_gets_another():
    long = "n" * 500
    assert board_names([board_name(long), long])[1] not in (long, board_name(long))
    assert len(board_name("n" * 400)) == 400 == len(board_name("n" * 401))
