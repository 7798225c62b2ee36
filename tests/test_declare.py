"""What is read of a method's file without importing it."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from clbench.declare import cannot_forget, declared
from clbench.errors import UserError
from clbench.reading import read_declaration
from clbench.registry import import_class

HEAD = "from clbench import *\n\n\nclass Mine(Method):\n"
BODY = '''"""What it does.

    More of it."""

    title = "Mine!"
    version = 3
    tuned = {"split-mnist-5k": {"a": 2}}
    helper = open

    a: PositiveInt = 4
    """how many
    of them"""
    b: float = 0.5
    c: bool = False
    d: Literal["x", "y"] = "x"
    e: Fraction | None = None
    f: str = "text"
    g: NonNegativeInt = 0
    h: clbench.PositiveFloat = 1
'''


@pytest.fixture
def mine(method_file: Callable[..., Path]) -> Callable[[str], Path]:
    return lambda body: method_file("mine", HEAD + "    " + body)


def test_fields_meta_and_docs_are_read(mine: Callable[[str], Path]) -> None:
    d = read_declaration(mine(BODY), "method")
    assert (d.name, d.class_name, d.title, d.version) == ("mine", "Mine", "Mine!", 3)
    assert d.doc.startswith("What it does.")
    assert d.meta["tuned"] == {"split-mnist-5k": {"a": 2}}
    assert "helper" not in d.meta
    defaults = {"a": 4, "b": 0.5, "c": False, "d": "x", "e": None, "f": "text", "g": 0, "h": 1.0}
    assert d.defaults == defaults
    assert type(d.defaults["h"]) is float
    assert d.fields["a"].doc == "how many of them"
    assert d.fields["a"].expected == "a whole number of at least 1"
    assert d.fields["e"].expected == "a number of at least 0 and at most 1 or none"
    assert d.fields["h"].expected == "a number above 0"


@pytest.mark.parametrize(
    ("key", "text", "value"),
    [
        ("a", "7", 7),
        ("b", "1e-3", 1e-3),
        ("b", "-2", -2.0),
        ("c", "yes", True),
        ("c", "OFF", False),
        ("d", "y", "y"),
        ("e", "none", None),
        ("e", "1", 1.0),
        ("f", "none", "none"),
        ("g", "0", 0),
    ],
)
def test_text_becomes_a_typed_value(
    mine: Callable[[str], Path], key: str, text: str, value: object
) -> None:
    got = read_declaration(mine(BODY), "method").values({key: text})[key]
    assert got == value
    assert type(got) is type(value)


@pytest.mark.parametrize(
    ("key", "text"),
    [
        ("a", "0"),
        ("a", "2.5"),
        ("a", "many"),
        ("a", "none"),
        ("b", "nan"),
        ("b", "inf"),
        ("b", ""),
        ("c", "maybe"),
        ("d", "z"),
        ("e", "1.01"),
        ("e", "-0.1"),
        ("g", "-1"),
        ("h", "0"),
    ],
)
def test_a_wrong_value_is_quoted_with_what_is_allowed(
    mine: Callable[[str], Path], key: str, text: str
) -> None:
    d = read_declaration(mine(BODY), "method")
    with pytest.raises(UserError) as error:
        d.values({key: text})
    assert str(error.value).startswith(f"mine: {key}={text}")
    assert str(error.value).endswith(f" is not {d.fields[key].expected}.")


def test_a_whole_number_has_at_most_64_bits(mine: Callable[[str], Path]) -> None:
    found = read_declaration(mine(BODY), "method")
    assert found.values({"a": str(2**63 - 1)})["a"] == 2**63 - 1
    for number in (str(2**63), "9" * 400):
        with pytest.raises(UserError, match="a is a number of more than 64 bits"):
            found.values({"a": number})


def test_an_unknown_parameter_gets_a_suggestion(mine: Callable[[str], Path]) -> None:
    with pytest.raises(UserError, match="Unknown parameter of mine 'alpha'"):
        read_declaration(mine(BODY), "method").values({"alpha": "1"})
    d = read_declaration(mine("strength: float = 1.0"), "method")
    with pytest.raises(UserError, match="Did you mean 'strength'"):
        d.values({"strenght": "1"})
    with pytest.raises(UserError, match="It has none"):
        read_declaration(mine("pass"), "method").values({"x": "1"})


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("a: PositiveInt = 0", "mine.py:5: a=0 is not a whole number of at least 1"),
        ("a: float", "needs a default that is a plain value"),
        ("a: float = max(1, 2)", "needs a default that is a plain value"),
        ("a: list = []", "the type of a must be one of int, float"),
        ("a: Literal['x'] = 'y'", "is not one of x"),
        ("version = '2'", "version must be a plain int"),
        ("protocol = dict(lr=1)", "protocol must be a plain dict, written out"),
        ("title = 'A' + 'B'", "title must be a plain str"),
        ("name = 'Bad Name'", "'Bad Name' cannot be the name of a method"),
        ("x: int = (", "is not valid Python: line"),
    ],
)
def test_a_wrong_declaration_says_where_and_what(
    mine: Callable[[str], Path], body: str, words: str
) -> None:
    with pytest.raises(UserError) as error:
        read_declaration(mine(body), "method")
    assert words in str(error.value)
    assert "mine.py" in str(error.value)


def test_a_file_holds_one_class_of_its_kind(method_file: Callable[..., Path]) -> None:
    two = method_file("two", "class A(Method): pass\nclass B(Method): pass\n")
    with pytest.raises(UserError, match="one class derived from Method; found A, B"):
        read_declaration(two, "method")
    with pytest.raises(UserError, match="one class derived from Benchmark; found none"):
        read_declaration(two, "benchmark")
    helper = method_file("helper", "class _Base(Method): x: int = 1\nclass A(_Base): pass\n")
    d = read_declaration(helper, "method")
    assert (d.class_name, d.defaults) == ("A", {"x": 1})


def test_a_missing_file_and_one_that_is_no_text(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="There is no file"):
        read_declaration(tmp_path / "nowhere.py", "method")
    (tmp_path / "bytes.py").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(UserError, match="UTF-8"):
        read_declaration(tmp_path / "bytes.py", "method")


def test_fields_are_inherited_across_files(method_file: Callable[..., Path]) -> None:
    method_file("base", HEAD + '    title = "Base"\n    a: int = 1\n    b: int = 1\n')
    child = method_file(
        "child", "from .base import Mine as Other\n\nclass Child(Other):\n    b: int = 2\n"
    )
    d = read_declaration(child, "method")
    assert (d.name, d.title, d.defaults) == ("child", "Base", {"a": 1, "b": 2})


def test_a_method_may_derive_from_one_of_clbench(method_file: Callable[..., Path]) -> None:
    child = method_file(
        "stronger",
        "from clbench.methods.ewc import EWC\n\nclass EWC(EWC):\n    strength: float = 9.0\n",
    )
    d = read_declaration(child, "method")
    assert (d.name, d.title, d.defaults) == ("stronger", "EWC", {"strength": 9.0})


def test_a_class_may_have_the_name_of_its_base(mine: Callable[[str], Path]) -> None:
    path = mine("pass")
    path.write_text("from clbench import Method\n\nclass Method(Method):\n    x: int = 1\n")
    assert read_declaration(path, "method").defaults == {"x": 1}


def test_a_default_changed_without_its_type_is_refused(method_file: Callable[..., Path]) -> None:
    """A dataclass would ignore it silently."""
    path = method_file("child", "class _A(Method): x: int = 1\nclass B(_A): x = 2\n")
    with pytest.raises(UserError, match="x is a parameter"):
        read_declaration(path, "method")


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("backbones = ['mlp']", "backbones must be a plain tuple"),
        ("backbones = (1,)", "backbones: "),
        ("replay_size = 3", "replay_size must be a plain str"),
        ("upper_bound = 1", "upper_bound must be a plain bool"),
        ("zero_forgetting_if = {'rate': 0}", "zero_forgetting_if: 'rate' is no parameter"),
        ("a: bool = True\n    zero_forgetting_if = {'a': 3}", "a=3 is not true or false"),
        ("fixed = {'momentum': 'why'}", "'momentum' must have its value in `protocol`"),
        ("lays_open = {'a': 1}", "lays_open['a']: expected object"),
        ("lays_open = {'a': {'title': 'A'}}", "lays_open['a']: it lacks kind"),
        ("lays_open = {'a': {'title': 'A', 'kind': 'pie'}}", "kind: "),
        (
            "lays_open = {'a': {'title': 'A', 'kind': 'number', 'below': '1'}}",
            "below: expected float",
        ),
        ("lays_open = {'a': {'titel': 'A', 'kind': 'number'}}", "titel"),
        ("lays_open = {'a': {'title': 'A', 'kind': 'layers', 'below': 1.0}}", "only a number"),
    ],
)
def test_a_wrong_fact_says_where_and_what(
    mine: Callable[[str], Path], body: str, words: str
) -> None:
    with pytest.raises(UserError) as error:
        read_declaration(mine(body), "method")
    assert words in str(error.value)
    assert "mine.py" in str(error.value)


def test_facts_of_every_kind_are_read(mine: Callable[[str], Path]) -> None:
    facts = {
        "backbones": ("mlp",),
        "protocol": {"momentum": 0.0},
        "fixed": {"momentum": "why"},
        "upper_bound": True,
        "replay_size": "a",
        "lays_open": {
            "used": {"title": "Used", "kind": "number", "unit": "%", "below": 1, "warning": "!",
                     "names": ["a"]}
        },
    }  # fmt: skip
    body = "\n    ".join(f"{key} = {value!r}" for key, value in facts.items())
    assert read_declaration(mine(body), "method").meta == facts


def test_a_guarantee_can_depend_on_the_parameters() -> None:
    facts = {"zero_forgetting_if": {"rate": 0.0, "shared": False}}
    assert cannot_forget(facts, {"rate": 0.0, "shared": True})
    assert cannot_forget(facts, {"rate": 0.1, "shared": False})
    assert not cannot_forget(facts, {"rate": 0.1, "shared": True})
    assert not cannot_forget({}, {})
    assert cannot_forget({"zero_forgetting": True}, {})


def test_every_type_is_read_from_the_file_as_from_the_live_class(
    mine: Callable[[str], Path],
) -> None:
    head = "from typing import Literal\nimport clbench\nfrom clbench import Fraction\n"
    path = mine(BODY)
    path.write_text(head + path.read_text())
    read = read_declaration(path, "method")
    live = declared(import_class(read))
    assert live.fields == {name: replace(f, doc="") for name, f in read.fields.items()}
