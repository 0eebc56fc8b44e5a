"""Paths, make targets, modules and numbered steps named in documents and comments exist."""

from __future__ import annotations

import re
import subprocess
from fnmatch import fnmatch
from importlib.util import find_spec
from pathlib import Path

import pytest

from adapters import registry

ROOT = Path(__file__).resolve().parents[1]
ROOMS = ("adapters", "cpprb_impl", "examples", "reports", "results", "suites", "tests")
# Not in the repository, since make or a run writes these.
MADE = ("reports/out", "results/runs", "build/", ".venv", ".peers", ".cache", ".gate", "dist/")
# Names that readers choose or tests make up, and a file of another project.
EXAMPLES = {
    "adapters/x.py",
    "adapters/peers/x.py",
    "adapters/pins/y.txt",
    "adapters/pins/NAME.txt",
    "adapters/ring_of_ours.py",
    "adapters/peers/ring_of_ours.py",
    "docs/b.md",
    "NAME.html.j2",
    "NAME.md.j2",
    "examples/anakin_prioritised_dqn_example.ipynb",
    "results/....json",
    "results/machines/x.json",
    "results/reference/NAME.json",
    "results/reference/a-quick.json",
    "suites/a.py",
    "suites/c.py",
    "reports/sections/NAME.py",
    "suites/x.py",
    "suites/x/measure.py",
    "suites/x/spec.py",
    "tests/torture/records/x.json",
}

SUFFIXES = "py|pyi|cpp|hpp|md|toml|txt|json|jsonl|svg|pml|yml|j2|css"
IN_ROOM = re.compile(rf"(?<![\w./:-])((?:\.ci|\.github|docs|{'|'.join(ROOMS)})/[\w.*/-]*[\w*/])(?![\w/])")
FILE_IN_CODE = re.compile(rf"`([\w./*-]*[\w*]\.(?:{SUFFIXES}))`")
MAKE = re.compile(r"`make ([a-z][a-z0-9-]*)")
BLOCK = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
MAKE_LINE = re.compile(r"^make ([a-z][a-z0-9-]*)", re.MULTILINE)
MODULE = re.compile(rf"-m ((?:{'|'.join(ROOMS)})\.[\w.]*\w)")
STEP = re.compile(r"^\| ([A-Z]\d+) \|", re.MULTILINE)
FAILPOINT = re.compile(r"RB_\w*POINT\((\w+)\)")


def tracked() -> list[str]:
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"], cwd=ROOT, capture_output=True, text=True
    )
    if listed.returncode:
        pytest.skip("no git checkout")
    return [name for name in listed.stdout.splitlines() if (ROOT / name).exists()]


FILES = tracked()
PAGES = [name for name in FILES if name.endswith(".md")]
SOURCES = [
    name
    for name in FILES
    if name.endswith((".py", ".cpp", ".hpp", ".toml", ".yml", ".pml", ".j2"))
    or name.startswith((".ci/", "Makefile", "CMakeLists"))
]
TARGETS = set(re.findall(r"^([a-z][a-z0-9-]*):", (ROOT / "Makefile").read_text(), re.MULTILINE))


def exists(path: str) -> bool:
    """Return whether a path exists, relative to the root or, as in the tables of ARCHITECTURE, to a folder in it."""
    path = path.removesuffix("/")
    if path in EXAMPLES or path.startswith(MADE):
        return True
    return any(f"/{name}/".endswith(f"/{path}/") or f"/{path}/" in f"/{name}/" for name in FILES) or any(
        fnmatch(name, f"{start}{path}") for name in FILES for start in ("", "*/") if "*" in path
    )


def missing(text: str, *, page: bool) -> list[str]:
    """Return the names in a text that do not exist."""
    paths = set(IN_ROOM.findall(text)) | (set(FILE_IN_CODE.findall(text)) if page else set())
    targets = set(MAKE.findall(text)).union(*(MAKE_LINE.findall(block) for block in BLOCK.findall(text)))
    return [
        *(path for path in sorted(paths) if not exists(path)),
        *(f"make {target}" for target in sorted(targets - TARGETS)),
        *(f"-m {module}" for module in sorted(set(MODULE.findall(text))) if not found(module)),
    ]


def found(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:
        return False


@pytest.mark.parametrize("name", PAGES)
def test_paths_and_names_on_pages_exist(name):
    assert missing((ROOT / name).read_text(encoding="utf-8"), page=True) == []


def test_paths_and_names_in_sources_and_comments_exist():
    left_out = ("tests/test_documents.py", "tests/suites/added/")  # the latter is copied to suites/ by a test
    sources = [name for name in SOURCES if not name.startswith(left_out)]
    text = {name: (ROOT / name).read_text(encoding="utf-8") for name in sources}
    wrong = {name: missing(each, page=False) for name, each in text.items()}
    assert {name: names for name, names in wrong.items() if names} == {}


def test_each_step_of_the_protocol_is_a_failpoint_and_each_failpoint_is_explained():
    page = (ROOT / "docs/protocol.md").read_text(encoding="utf-8")
    core = [name for name in FILES if name.startswith("cpprb_impl/") and name.endswith((".cpp", ".hpp"))]
    failpoints = set().union(*(FAILPOINT.findall((ROOT / name).read_text()) for name in core)) - {"name"}
    assert set(STEP.findall(page)) - failpoints == set()
    assert {name for name in failpoints if not re.search(rf"\b{name}\b", page)} == set()


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("see suites/run.py and `make test`, `record.py`, docs/*.md", []),
        ("see suites/no_such.py", ["suites/no_such.py"]),
        ("see `no_such.py`", ["no_such.py"]),
        ("see .ci/no-such", [".ci/no-such"]),
        ("`make no-such`", ["make no-such"]),
        ("```\nmake no-such  # a comment\n```", ["make no-such"]),
        ("```\nmake test\n```\nmake a test of it", []),
        ("python -m suites.no_such", ["-m suites.no_such"]),
        ("python -m no_such_room.x; python -m suites.run", []),
    ],
)
def test_a_name_of_something_missing_is_detected(text, wrong):
    assert missing(text, page=True) == wrong


def test_the_numbers_of_libraries_and_peers_match_the_registry():
    libraries = {registry.family(name).removesuffix("-style") for name in registry.every()} - {"cpprb_impl"}
    readme = (ROOT / "README.md").read_text().lower()
    assert f"{len(libraries)} libraries" in readme
    assert all(re.search(rf"\b{name.replace('seed-rl', 'seed rl')}\b", readme) for name in libraries)
    numbers = f"- {len(registry.every())} peers: our buffer, the buffers of {len(libraries)} libraries"
    assert numbers in (ROOT / "CHANGELOG.md").read_text()


def test_the_readme_has_at_most_600_words():
    assert len((ROOT / "README.md").read_text().split()) <= 600  # including code and tables
