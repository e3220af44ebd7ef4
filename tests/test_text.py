"""Text that leaves the process: legal, bounded, and marked where it was cut."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gym_failures import limits
from gym_failures.text import clean, cut, is_cut_of, text_of, type_name, was_cut, wire_id
from tests.strategies import texts

ANY_TEXT = texts(limits.REASON_LENGTH, surrogates=True)
LEGAL_TEXT = texts(limits.REASON_LENGTH)


class TestClean:
    """`clean` makes any text legal Unicode."""

    @pytest.mark.parametrize(
        ("text", "expected"),
        [
            pytest.param("a\ud800b", "a\ufffdb", id="lone high surrogate"),
            pytest.param("\udc00", "\ufffd", id="lone low surrogate"),
            pytest.param("\udc00\ud800", "\ufffd\ufffd", id="halves in the wrong order"),
            pytest.param("\ud83d\udd25", "🔥", id="both halves of a character"),
        ],
    )
    def test_replaces_what_is_not_unicode(self, text, expected):
        """A lone surrogate becomes U+FFFD, and a pair the character that it stands for (mlflow#24123)."""
        assert clean(text) == expected

    @pytest.mark.parametrize("text", ["", "plain", "模型🔥", "\0\r\n\x7f\u2028"])
    def test_returns_legal_text_itself(self, text):
        """Text with nothing wrong is not copied."""
        assert clean(text) is text

    @given(ANY_TEXT)
    def test_result_can_be_encoded(self, text):
        """What is cleaned encodes as UTF-8, is never longer, and stays as it is when cleaned again."""
        cleaned = clean(text)
        cleaned.encode()
        assert len(cleaned) <= len(text)
        assert clean(cleaned) is cleaned


class TestCut:
    """`cut` bounds text and says how much is missing."""

    @pytest.mark.parametrize(
        ("text", "limit", "expected"),
        [
            pytest.param("abcdef", 6, "abcdef", id="fits exactly"),
            pytest.param("abcdefg", 6, "a…[+6]", id="one too many"),
            pytest.param("x" * 100, 10, "xxxx…[+96]", id="two digits"),
            pytest.param("x" * 104, 10, "xxx…[+101]", id="the mark itself needs a digit more"),
            pytest.param("模型服务超时了", 6, "模…[+6]", id="characters, not bytes"),
            pytest.param("abcdefg", 4, "abcd", id="no room for a mark"),
            pytest.param("abcdefg", 0, "", id="no room at all"),
            pytest.param("abcdefg", -1, "", id="less than no room"),
            pytest.param("abcdefgh…[+7]", 8, "ab…[+13]", id="cut before: one mark with the sum"),
        ],
    )
    def test_marks_what_is_missing(self, text, limit, expected):
        """The result has at most `limit` characters and ends in the number of characters that are gone."""
        assert cut(text, limit) == expected

    @given(LEGAL_TEXT, st.integers(0, 2 * limits.REASON_LENGTH), st.integers(0, 2 * limits.REASON_LENGTH))
    def test_counts_every_missing_character(self, text, first, second):
        """However often text is cut, what is kept plus the number in the mark is the length of the whole."""
        text = text.replace("…[+", "")
        once = cut(text, first)
        for short in (once, cut(once, second)):
            mark = re.search(r"…\[\+([0-9]+)\]\Z", short)
            assert was_cut(short) == (mark is not None)
            if mark is not None:
                kept = short[: mark.start()]
                assert text.startswith(kept)
                assert len(kept) + int(mark[1]) == len(text)
        assert len(once) <= first

    @given(LEGAL_TEXT, st.integers(0, limits.REASON_LENGTH))
    def test_what_was_cut_is_recognised(self, text, limit):
        """A cut copy is told to be one, so that two records of one failure can be compared."""
        assert is_cut_of(cut(text, limit), text)

    @pytest.mark.parametrize(
        ("short", "whole"),
        [
            pytest.param("xyz…[+6]", "abcdefghi", id="another beginning"),
            pytest.param("a long beginning", "a long beginning without a mark", id="a long prefix without a mark"),
            pytest.param("b", "abc", id="no prefix"),
        ],
    )
    def test_other_text_is_no_cut_copy(self, short, whole):
        """Text that `cut` cannot have made of another is not taken for its copy."""
        assert not is_cut_of(short, whole)

    @pytest.mark.parametrize("count", [1, 10**9 - 1, 10**9, 10**12])
    def test_a_mark_from_elsewhere_is_bounded(self, count):
        """A mark that a peer made up neither grows without end nor makes the text longer than its bound."""
        assert len(cut(f"{'x' * 50}…[+{count}]", 40)) <= 40


class TestWireId:
    """`wire_id` makes any text an identifier of 1 to 128 characters."""

    @given(texts(limits.WIRE_ID_LENGTH, min_size=1))
    def test_legal_ids_stay(self, value):
        """An id of another system that fits is not changed."""
        assert wire_id(value) == value

    @given(texts(3 * limits.WIRE_ID_LENGTH, surrogates=True))
    def test_every_id_becomes_legal_and_stays_so(self, value):
        """The result has 1 to 128 legal characters, and making it twice changes nothing more."""
        made = wire_id(value)
        made.encode()
        assert 1 <= len(made) <= limits.WIRE_ID_LENGTH
        assert wire_id(made) == made

    def test_long_ids_stay_apart_and_agree_with_themselves(self):
        """Two references to one long id still agree, and ids that differ only past the bound still differ."""
        one, other = "x" * 200 + "1", "x" * 200 + "2"
        assert wire_id(one) == wire_id("x" * 200 + "1") != wire_id(other)


class _RaisingError(Exception):
    def __str__(self):
        raise AttributeError("request_info is None")


class _BytesError(Exception):
    def __str__(self):
        return b"bytes"  # noqa: PLE0307 - that is what is tested


class _Text(str):
    __slots__ = ()

    def __str__(self):
        return "not what it holds"


class _OwnTextError(Exception):
    def __str__(self):
        return _Text("held\ud800")


class TestTextOf:
    """`text_of` never raises, whatever an object's `__str__` does."""

    @pytest.mark.parametrize(
        ("value", "expected"),
        [
            pytest.param(RuntimeError("a\udfffb"), "a\ufffdb", id="text that is not Unicode"),
            pytest.param(RuntimeError(), "", id="nothing"),
            pytest.param(_RaisingError(), "<no text: AttributeError in _RaisingError.__str__>", id="it raises"),
            pytest.param(_BytesError(), "<no text: TypeError in _BytesError.__str__>", id="it returns bytes"),
            pytest.param(_OwnTextError(), "held\ufffd", id="it returns a subclass of str"),
            pytest.param(
                RuntimeError(_RaisingError()), "<no text: AttributeError in RuntimeError.__str__>", id="args raise"
            ),
        ],
    )
    def test_gives_text_or_a_stand_in(self, value, expected):
        """The text, or a stand-in that names what went wrong (ray#44878)."""
        text = text_of(value)
        assert (type(text), text) == (str, expected)


class _ModuleRaises(type):
    @property
    def __module__(cls):
        raise RuntimeError


class TestTypeName:
    """`type_name` names any class of exceptions."""

    class NestedError(Exception):
        """An exception class inside another class."""

    @pytest.mark.parametrize(
        ("error", "expected"),
        [
            pytest.param(ValueError("x"), "ValueError", id="builtin"),
            pytest.param(ValueError, "ValueError", id="the class itself"),
            pytest.param(re.error("x"), f"{re.error.__module__}.{re.error.__qualname__}", id="standard library"),
            pytest.param(NestedError(), "tests.test_text.TestTypeName.NestedError", id="nested"),
            pytest.param(type("Odd", (Exception,), {"__module__": 5})(), "Odd", id="a number for a module"),
            pytest.param(type("Odd", (Exception,), {"__module__": []})(), "Odd", id="a list for a module"),
            pytest.param(type("Odd", (Exception,), {"__module__": None})(), "Odd", id="no module"),
            pytest.param(_ModuleRaises("Odd", (Exception,), {})(), "Odd", id="a module that raises"),
            pytest.param(type("", (Exception,), {"__module__": ""})(), "?", id="no name at all"),
            pytest.param(type("Odd", (Exception,), {"__module__": "m\ud800"})(), "m\ufffd.Odd", id="not Unicode"),
        ],
    )
    def test_names_the_class(self, error, expected):
        """The name has its module, except for builtins and where the class does not say one."""
        assert type_name(error) == expected

    def test_a_long_name_keeps_its_end(self):
        """Of a name over 256 characters the end is kept, where the class itself is named."""
        name = type_name(type("Last", (Exception,), {"__module__": "m" * 300})())
        assert (len(name), name[-5:]) == (limits.TYPE_NAME_LENGTH, ".Last")
