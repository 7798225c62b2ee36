"""Names, globs, groups, files and entry points."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from clbench.errors import UserError
from clbench.grid import make_grid
from clbench.registry import declarations, import_class, read_again, select, split_list


def names(text: str, kind: str = "method") -> list[str]:
    return [declaration.name for declaration, _ in select(kind, text)]


def test_commas_inside_brackets_do_not_split() -> None:
    assert split_list("a, b[x=1,y=2],c[]") == ["a", "b[x=1,y=2]", "c[]"]
    assert split_list(",, ") == []


def test_brackets_give_typed_values() -> None:
    chosen = select("method", "ewc[strength=500],er-res[ per_class = 3 , replay_batch=none]")
    assert [given for _, given in chosen] == [
        {"strength": 500.0},
        {"per_class": 3, "replay_batch": None},
    ]


def test_order_is_kept_and_repeats_are_dropped() -> None:
    assert names("joint,ewc,joint") == ["joint", "ewc"]
    assert names("ewc,ewc[strength=1]") == ["ewc", "ewc"]


def test_globs() -> None:
    assert "agem" in names("*gem*")
    assert names("e?c") == ["ewc"]
    with pytest.raises(UserError, match=r"No method matches 'zzz\*'"):
        select("method", "zzz*")


def test_groups() -> None:
    assert {"agem", "er-res"} <= set(names("@memory"))
    assert "ewc" not in names("@memory")
    assert set(names("@all")) == set(declarations("method"))
    assert names("@all", "benchmark") == list(declarations("benchmark"))
    with pytest.raises(UserError, match="Did you mean '@memory'"):
        select("method", "@memroy")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("ewcc", "Unknown method 'ewcc'. Did you mean 'ewc'"),
        ("ewc[strenght=1]", "Did you mean 'strength'"),
        ("ewc[strength=a]", "ewc: strength=a is not a number of at least 0"),
        ("ewc[strength=-1]", "ewc: strength=-1.0 is not a number of at least 0"),
        ("ewc[strength]", "'strength' is not of the form key=value"),
        ("ewc[strength=1", "cannot read"),
        ("ewc[strength=1,strength=2]", "strength twice"),
        ("ewc]x[", "cannot read"),
        ("", "--methods names nothing"),
        ("./nowhere.py", "There is no file nowhere.py"),
        ("finetune[x=1]", "It has none"),
    ],
)
def test_a_wrong_list_says_what_is_wrong(text: str, words: str) -> None:
    with pytest.raises(UserError) as error:
        select("method", text)
    assert words in str(error.value)


def test_a_file_is_a_method(method_file: Callable[..., Path]) -> None:
    path = method_file("my_method")
    [(declaration, given)] = select("method", str(path))
    assert (declaration.name, declaration.module, given) == ("my-method", "", {})
    assert import_class(declaration).title == "My_Method"


def test_a_benchmark_file_too(tiny: Path) -> None:
    [(declaration, given)] = select("benchmark", f"{tiny}[tasks=2]")
    assert (declaration.name, given) == ("tiny", {"tasks": 2})


def test_the_path_of_an_installed_method_is_that_method() -> None:
    ewc = declarations("method")["ewc"]
    assert [d for d, _ in select("method", str(ewc.path))] == [ewc]


def test_two_methods_of_one_name_are_an_error(method_file: Callable[..., Path]) -> None:
    taken = method_file("ewc")
    with pytest.raises(UserError, match=r"Two methods are named 'ewc'.*Rename one"):
        select("method", str(taken))
    a, b = method_file("a/same"), method_file("b/same")
    with pytest.raises(UserError, match="Two methods are named 'same'"):
        select("method", f"{a},{b}")


def test_a_file_with_a_syntax_error_and_one_that_does_not_import(
    method_file: Callable[..., Path],
) -> None:
    with pytest.raises(UserError, match=r"wrong\.py is not valid Python: line 2"):
        select("method", str(method_file("wrong", "\nclass (")))
    for name, line in {"a": "import no_such_module", "b": "1 / 0", "c": "raise SystemExit"}.items():
        path = method_file(name, f"{line}\nclass X(Method): pass\n")
        [(declaration, _)] = select("method", str(path))
        with pytest.raises(UserError, match=f"{name}.py does not import"):
            import_class(declaration)


@pytest.fixture
def offer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str, str], None]]:
    """Install a package that offers one method by an entry point."""
    site = tmp_path / "site"

    def install(entry: str, source: str) -> None:
        (site / "offered").mkdir(parents=True)
        (site / "offered" / "__init__.py").write_text("")
        (site / "offered" / "some_methods.py").write_text(source)
        info = site / "offered-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text("Metadata-Version: 2.1\nName: offered\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text(f"[clbench.methods]\n{entry}\n")
        monkeypatch.syspath_prepend(site)
        read_again()

    yield install
    read_again()


TWO = """
from clbench import Method
class One(Method):
    title = "One"
    a: int = 1
class Two(Method):
    title = "Two"
"""


def test_a_package_offers_methods_by_entry_points(offer: Callable[[str, str], None]) -> None:
    offer("super-one = offered.some_methods:One", TWO)
    [(declaration, given)] = select("method", "super-one[a=5]")
    assert (declaration.title, declaration.module) == ("One", "offered.some_methods")
    assert given == {"a": 5}
    assert import_class(declaration).__name__ == "One"


def test_a_method_without_a_family_is_still_listed(
    offer: Callable[[str, str], None], clbench: Callable[..., object]
) -> None:
    offer("super-one = offered.some_methods:One", TWO)
    result = clbench("ls methods")
    assert "super-one" in result.out  # type: ignore[attr-defined]


def test_a_group_leaves_out_what_cannot_learn_in_the_scenario(tiny: Path) -> None:
    def trained(methods: Any, scenario: str) -> list[str]:
        return [c.method.name for c in make_grid(methods, f"{tiny}[scenario={scenario}]", [0], {})]

    assert {"icarl", "er-ace"} & set(trained("@memory", "task")) == set()
    assert {"acl", "hat"} <= set(trained("@all", "task"))
    assert {"acl", "hat"} & set(trained("@all,ewc", "class")) == set()
    assert {"icarl", "ewc"} <= set(trained("@memory,ewc", "class"))
    assert "acl" in trained("@all,acl", "class")  # to be refused in words
    assert "acl" in trained(["*ac*", "acl[per_class=2]"], "class")
    assert trained("acl*", "class") == ["acl", "acl-joint"]  # so that there is something to say
