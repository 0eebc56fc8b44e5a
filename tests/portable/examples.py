"""Run the programs in the given pages and files that need no packages except this one and NumPy.

`python -I examples.py README.md examples/apex.py`: a page's programs are its Python blocks that import this package.
"""

from __future__ import annotations

import ast
import re
import runpy
import sys
import tempfile
from pathlib import Path

BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
AT_HAND = sys.stdlib_module_names | {"cpprb_impl", "numpy"}
OPTIONAL = {"cleanrl", "hosts", "ray", "sb3", "torch", "torchrl"}  # need more, and may be imported by name


def imported(source: str) -> set[str]:
    """Return top-level packages, and `cpprb_impl.x` if that module needs more packages."""
    names = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            names += [alias.name.split(".") for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            names += [f"{node.module}.{alias.name}".split(".") for alias in node.names]
    more = {f"cpprb_impl.{parts[1]}" for parts in names if parts[0] == "cpprb_impl" and set(parts[1:2]) & OPTIONAL}
    return {parts[0] for parts in names} | more


def programs(path: Path) -> list[str]:
    text = path.read_text(encoding="utf-8")
    found = BLOCK.findall(text) if path.suffix == ".md" else [text]
    return [program for program in found if "cpprb_impl" in imported(program)]


def main(paths: list[str]) -> int:
    done = 0
    with tempfile.TemporaryDirectory() as folder:
        for path in map(Path, paths):
            for number, program in enumerate(programs(path), 1):
                if missing := imported(program) - AT_HAND:
                    print(f"{path}, program {number}: not run, it imports {', '.join(sorted(missing))}")
                    continue
                file = Path(folder, "program.py")
                file.write_text(program, encoding="utf-8")
                print(f"{path}, program {number}", flush=True)
                runpy.run_path(str(file), run_name="__main__")
                done += 1
    if not done:
        print("no program was run")
    return 0 if done else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
