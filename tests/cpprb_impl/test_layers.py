"""docs/inside.md states the order of the package's folders: each imports only from folders above it."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "cpprb_impl"
PAGE = (ROOT / "docs" / "inside.md").read_text(encoding="utf-8")
#: folder or module -> its row in the table
LEVEL = {
    name.removesuffix(".py"): level
    for level, row in enumerate(re.findall(r"^\| (`.*?) \|", PAGE, re.MULTILINE))
    for name in re.findall(r"`([\w.]+)/?`", row)
}
(OF_CORE,) = re.findall(r"^\| `core/` \|(.*)", PAGE, re.MULTILINE)
CORE = re.findall(r"`(\w+)/`", OF_CORE)


def _imports(tree: ast.AST) -> Iterator[str]:
    """Yield the names that are imported from this package, also within functions and for type checkers."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("cpprb_impl"):
            yield from (f"{node.module}.{each.name}" for each in node.names)
        elif isinstance(node, ast.Import):
            yield from (each.name for each in node.names if each.name.startswith("cpprb_impl."))


def test_each_python_module_imports_only_from_folders_above_it() -> None:
    found = []
    for path in PACKAGE.rglob("*.py"):
        room = path.relative_to(PACKAGE).parts[0].removesuffix(".py")
        for name in _imports(ast.parse(path.read_text(encoding="utf-8"))):
            other = name.split(".")[1]
            if room != "__init__" and other != room and other in LEVEL and LEVEL[other] >= LEVEL[room]:
                found.append(f"{path.relative_to(ROOT)} imports {name}")
    assert not found, "\n".join(found)


def test_each_source_of_the_core_includes_only_from_folders_before_it() -> None:
    found = []
    for path in (PACKAGE / "core").rglob("*.?pp"):
        for include in re.findall(r'#include "\.\./(\w+)/', path.read_text(encoding="utf-8")):
            if CORE.index(include) >= CORE.index(path.parent.name):
                found.append(f"{path.relative_to(ROOT)} includes {include}")
    assert not found, "\n".join(found)


def test_the_page_lists_every_folder_and_module() -> None:
    rooms = {path.name.removesuffix(".py") for path in PACKAGE.iterdir() if path.is_dir() or path.suffix == ".py"}
    assert rooms - {"__init__", "__pycache__", "built"} == set(LEVEL)
    assert {path.name for path in (PACKAGE / "core").iterdir()} == set(CORE)
