"""`make wheels` runs every program that a bare environment can run, and fails if any program fails."""

from __future__ import annotations

import pytest

from . import examples

PAGE = """
```python
{}

print("ran")
```

```python
a_fragment()
```
"""


def run(tmp_path, capfd, first_line: str) -> tuple[int, str]:
    page = tmp_path / "page.md"
    page.write_text(PAGE.format(first_line), encoding="utf-8")
    return examples.main([str(page)]), capfd.readouterr().out


@pytest.mark.parametrize("line", ["import cpprb_impl, numpy", "from cpprb_impl.HER import HindsightReplayBuffer"])
def test_a_program_of_the_page_runs(line, tmp_path, capfd):
    status, out = run(tmp_path, capfd, line)
    assert status == 0 and out.endswith("program 1\nran\n")


@pytest.mark.parametrize(
    "line",
    [
        "import cpprb_impl, gymnasium",
        "import cpprb_impl.ray",
        "from cpprb_impl import sb3",
        "from cpprb_impl.sb3 import ReplayBuffer",
    ],
)
def test_programs_with_other_requirements_are_skipped_but_at_least_one_must_run(line, tmp_path, capfd):
    status, out = run(tmp_path, capfd, line)
    assert status == 1 and "not run, it imports" in out and out.endswith("no program was run\n")


def test_a_program_that_fails_is_an_error(tmp_path, capfd):
    with pytest.raises(ImportError, match="no_such_name"):
        run(tmp_path, capfd, "from cpprb_impl import no_such_name")
