"""Each negative control is in the table of tests/controls.py, with a quick test that uses it."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

from tests import controls

ROOT = Path(__file__).resolve().parents[1]


@cache
def parsed(file: str) -> tuple[str, ast.Module]:
    text = (ROOT / file).read_text(encoding="utf-8")
    return text, ast.parse(text)


def classes(file: str) -> set[str]:
    return {node.name for node in parsed(file)[1].body if isinstance(node, ast.ClassDef)}


@cache
def definitions(file: str) -> dict[str, ast.stmt]:
    """Return name -> definition, at the top level of the module."""
    found: dict[str, ast.stmt] = {}
    for node in parsed(file)[1].body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            found[node.name] = node
        elif isinstance(node, ast.Assign):
            found |= {
                name.id: node for target in node.targets for name in ast.walk(target) if isinstance(name, ast.Name)
            }
    return found


def words(node: ast.AST) -> set[str]:
    """Return names, arguments, and the words in strings."""
    found = set()
    for each in ast.walk(node):
        match each:
            case ast.Name(id=name) | ast.arg(arg=name) | ast.FunctionDef(name=name):
                found.add(name)
            case ast.Constant(value=str(text)):
                found |= set(re.findall(r"[\w-]+", text))
    return found


def used(file: str, test: str) -> set[str]:
    """Return the words of a test and of what it uses in its module: tables, fixtures, helpers, base classes."""
    known, found, due = definitions(file), set(), [test]
    while due:
        new = words(known[due.pop()]) - found
        found |= new
        due += [name for name in new if name in known and name != test]
    return found


def is_slow(file: str, test: str, control: str) -> bool:
    """Return whether the test, or its case for this control, is marked slow."""
    known = definitions(file)
    marks = [*known[test].decorator_list, *([known["pytestmark"]] if "pytestmark" in known else [])]
    whole = [
        each for each in marks if not (isinstance(each, ast.Call) and ast.unparse(each.func).endswith("parametrize"))
    ]
    cases = [
        each
        for mark in marks
        for each in ast.walk(mark)
        if isinstance(each, ast.Call) and ast.unparse(each.func) == "pytest.param" and control in words(each)
    ]
    return any("mark.slow" in ast.unparse(each) for each in [*whole, *cases])


@pytest.mark.parametrize(("control", "test"), controls.QUICK.items())
def test_a_quick_test_catches_each_control(control, test):
    file, _, name = test.partition("::")
    assert name in definitions(file) and control in used(file, name)
    assert not is_slow(file, name, control)


@pytest.mark.parametrize(("control", "test"), controls.SLOW.items())
def test_a_slow_test_uses_each_of_the_other_controls(control, test):
    file, _, name = test.partition("::")
    assert control in used(file, name) and is_slow(file, name, control)


def test_no_control_is_missing_from_the_table():
    assert set(controls.ANSWERS) == classes("tests/suites/odd_answers.py") - {"Sound"}
    assert set(controls.PLANTED) == classes("tests/check/planted.py") - {"Increments"}
    text, _ = parsed("tests/suites/shim/faulty_peers.py")
    peers = set(re.findall(r'^    name = "(.+)"$', text, re.MULTILINE)) - {"plain"}
    assert set(controls.PEERS) | set(controls.SLOW) == peers
    assert set(controls.MUTANTS) == words(definitions("tests/cpprb_impl/test_model.py")["MUTANTS"]) - {"MUTANTS"}
    fuzz = (
        classes("tests/fuzz/test_add.py") | classes("tests/fuzz/test_construct.py") | classes("tests/fuzz/test_file.py")
    )
    assert set(controls.FUZZED) == fuzz | {"loads_half"}
    assert set(controls.WRONG) == classes("tests/adapters/test_checks.py")


@pytest.mark.parametrize(
    ("mark", "slow"),
    [
        ("pytest.mark.slow", True),
        ("pytest.mark.parametrize('kind', [pytest.param('Broken', marks=pytest.mark.slow)])", True),
        ("pytest.mark.parametrize('kind', ['Broken', pytest.param('Other', marks=pytest.mark.slow)])", False),
    ],
)
def test_slow_tests_and_slow_cases_are_distinguished_from_quick_ones(mark, slow, tmp_path):
    file = tmp_path / "test_it.py"
    file.write_text(f"import pytest\n@{mark}\ndef test_it(kind): use('Broken')\n")
    assert is_slow(str(file), "test_it", "Broken") == slow and "Broken" in used(str(file), "test_it")


def test_a_test_that_does_not_name_a_control_does_not_use_it():
    assert "Rounding" not in used(
        "tests/suites/test_conformance.py", "test_a_seed_may_do_more_than_promised_but_not_less"
    )
