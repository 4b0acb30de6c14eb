"""The EDN reader: what forms become, and what damage becomes."""

import io

import pytest

from checkers.recordings import edn
from checkers.recordings.edn import EdnError, Form, forms, parse


def read(content: str | bytes) -> list[Form]:
    return list(forms(io.BytesIO(content.encode() if isinstance(content, str) else content)))


def values(content: str | bytes) -> list[object]:
    found = read(content)
    assert [form.error for form in found] == [""] * len(found)
    return [form.value for form in found]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("{:type :ok, :f :send}", {"type": "ok", "f": "send"}),
        ("[1 -2 +3 4N 123456789012345678901]", [1, -2, 3, 4, 123456789012345678901]),
        ("[1.5 2.0M 1e3 -0.5]", [1.5, 2.0, 1000.0, -0.5]),
        ("[nil true false]", [None, True, False]),
        (r'["a\"b" "\\" "\n" "\u00e9" "plain"]', ['a"b', "\\", "\n", "é", "plain"]),
        (r'["\ud83d\uDE00" "\uD83D\uDE00\u00e9" "\n😀"]', ["😀", "😀é", "\n😀"]),
        ('{"k" [1], 2 #{3}}', {"k": [1], 2: [3]}),
        ("#jepsen.history.Op{:index 0}", {"index": 0}),
        ('{:time #inst "2026-01-01", :ns/name sym}', {"time": "2026-01-01", "ns/name": "sym"}),
        ("[1 #_2 3 #_#_4 5 ^:meta 6]", [1, 3, 6]),
        ("(1 ; comment ]\n 2)", [1, 2]),
        ("[\\a \\newline ##Inf]", ["a", "newline", float("inf")]),
        ("{}", {}),
    ],
)
def test_values(text: str, value: object) -> None:
    assert parse(text + " ")[0] == value


@pytest.mark.parametrize(
    "content",
    [
        "{:a 1}\n{:b 2}\n",
        "[{:a 1} {:b 2}]",
        "[{:a 1}\n {:b 2}]\n",
        "({:a 1},\n{:b\n 2})",
        "{:a 1} {:b 2}",
        "\ufeff{:a 1}\r\n{:b 2}\r\n",
        "; head\n\n{:a 1} ; tail\n#_{:c 3}\n{:b 2}\n; end",
        "{:a\n ; inside }\n 1}\n\n  {:b 2}",
    ],
)
def test_layouts_of_a_file(content: str) -> None:
    assert values(content) == [{"a": 1}, {"b": 2}]


def test_forms_are_found_wherever_a_piece_of_the_file_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    content = '[{:a "é\\"]}", :b [1 2]} #x {:c 3}\n{:d :e}]'
    for size in range(1, 20):
        monkeypatch.setattr(edn, "PIECE", size)
        assert values(content) == [{"a": 'é"]}', "b": [1, 2]}, {"c": 3}, {"d": "e"}]


@pytest.mark.parametrize(
    ("content", "errors", "kept"),
    [
        ("{:a 1\n{:b 2}\n", [(1, "does not end before")], [{"b": 2}]),
        ('{:a "1}\n{:b 2}\n', [(1, "does not end before")], [{"b": 2}]),
        ("{:b 2}\n{:a ", [(2, "the file ends inside this form")], [{"b": 2}]),
        ("[{:b 2}", [(2, "the file ends inside its vector")], [{"b": 2}]),
        ("{:a}\n{:b 2}", [(1, "a key that has no value")], [{"b": 2}]),
        ("{:a 1 :a 2}\n{:b 2}", [(1, "the same key twice")], [{"b": 2}]),
        ("{[1] 2}\n{:b 2}", [(1, "a key that is a collection")], [{"b": 2}]),
        ("{:a ]}\n{:b 2}", [(1, "closes nothing")], [{"b": 2}]),
        ("{:a ` 1}\n{:b 2}", [(1, "not EDN")], [{"b": 2}]),
        ("{:a [#_]}\n{:b 2}", [(1, "without a form after it")], [{"b": 2}]),
        ("{:a " + "[" * 200 + "\n{:b 2}", [(1, "deep")], [{"b": 2}]),
        ("{:a " + "9" * 50 + "}\n{:b 2}", [(1, "50 digits")], [{"b": 2}]),
    ],
)
def test_damage_is_named_by_its_line_and_reading_continues(
    content: str, errors: list[tuple[int, str]], kept: list[object]
) -> None:
    found = read(content)
    assert [form.value for form in found if not form.error] == kept
    named = [(form.line, form.error) for form in found if form.error]
    assert [line for line, _ in named] == [line for line, _ in errors]
    assert all(words in error for (_, error), (_, words) in zip(named, errors, strict=True))


def test_a_form_without_end_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(edn, "FORM_MOST", 1000)
    found = read("{:a 1}\n[" + "1 " * 2000 + "]\n" + "{:b 2}\n")
    assert [form.value for form in found if not form.error] == [{"a": 1}, {"b": 2}]
    assert ["more than 1000" in form.error for form in found if form.error] == [True]


def test_parse_refuses_what_is_cut() -> None:
    with pytest.raises(EdnError, match="ends inside"):
        parse("{:a ")


@pytest.mark.parametrize("text", [r"\ud83d", r"\ude00\ud83d", r"\ud83d\n\ude00", r"a\uDE00"])
def test_half_a_character_is_damage_of_its_form(text: str) -> None:
    found = read(f'{{:a "{text}"}}\n{{:b 2}}')
    assert [(form.line, form.value, form.error) for form in found] == [
        (1, None, "text with half of a surrogate pair"),
        (2, {"b": 2}, ""),
    ]
