"""Each thing has one word, as docs/words.md says."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "words.md"
PACKAGES = ("cpprb_impl", "adapters", "suites", "results", "reports")
#: Classes that replace a class of the same name, so that users change only an import.
DROP_IN = {"ReplayBuffer", "PrioritizedReplayBuffer"}
MOST_WORDS = 30
#: retired word -> the word to use instead
RETIRED = {
    r"crowds?": "fleet",
    r"crews?": "fleet",
    r"process run": "launch",
    r"virtualenvs?": "venv",
    r"learners suite": "paired_training",
    r"learning suite": "solve_time",
}
WRITTEN = (".py", ".md", ".j2", ".toml", ".sh", ".yml", ".hpp", ".cpp", ".pml", ".pyi", ".js")


def test_each_class_name_is_used_once() -> None:
    found = defaultdict(list)
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("*.py")):
            for node in ast.parse(path.read_text(encoding="utf-8")).body:
                if isinstance(node, ast.ClassDef):
                    found[node.name].append(str(path.relative_to(ROOT)))
    twice = {name: paths for name, paths in found.items() if len(paths) > 1}
    assert set(twice) <= DROP_IN, {name: paths for name, paths in twice.items() if name not in DROP_IN}
    assert all(path.startswith("cpprb_impl/") for name in DROP_IN for path in found[name])


def test_the_glossary_has_at_most_thirty_words() -> None:
    words = re.findall(r"^\| (?!word|---)([^|]+) \|", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    assert 0 < len(words) <= MOST_WORDS, len(words)
    assert len(set(words)) == len(words)


def test_retired_words_are_not_used() -> None:
    retired = re.compile(rf"(?<![A-Za-z])(?:{'|'.join(RETIRED)})(?![a-z])", re.IGNORECASE)
    found = []
    for path in _written():
        lines = [path.name, *path.read_text(encoding="utf-8").splitlines()]
        found += [f"{path.relative_to(ROOT)}: {line.strip()}" for line in lines if retired.search(line)]
    assert not found, "\n".join(found)


def _written() -> Iterator[Path]:
    """Yield what people write here: sources, templates, pages and scripts."""
    yield from ROOT.glob("*.md")
    yield from (ROOT / "Makefile", ROOT / "pyproject.toml")
    for folder in (*PACKAGES, "tests", "docs", "examples", ".ci", ".github"):
        for path in (ROOT / folder).rglob("*"):
            if (path.suffix in WRITTEN or folder == ".ci") and path.is_file() and path != Path(__file__):
                yield path
