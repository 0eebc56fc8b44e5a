"""Build the report of a run from its record alone.  python -m reports.build [RUN.json] [--out reports/out]

Writes report.html (a single file that loads nothing else), report.md, and the pictures that report.md shows.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import webbrowser
from collections.abc import Sequence
from pathlib import Path

from reports.page import page_of
from results import BadRecord, Run, latest, load

HERE = Path(__file__).resolve().parent
OUT = HERE / "out"


def build(run: Run, out: Path) -> list[Path]:
    """Write the report into `out`; return the paths of its two pages."""
    page = page_of(run)
    shutil.rmtree(out / "plots", ignore_errors=True)  # pictures of an earlier report
    (out / "plots").mkdir(parents=True)
    for name, content in page.files.items():
        (out / name).write_bytes(content)
    written = [out / "report.html", out / "report.md"]
    for path, text in zip(written, (page.html, page.markdown), strict=True):
        path.write_text(text, encoding="utf-8")
    return written


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m reports.build", description="Make the report of a run.")
    parser.add_argument(
        "run", nargs="?", type=Path, help="a run file (default: your newest, else the newest reference)"
    )
    parser.add_argument("--out", type=Path, default=OUT, help="folder to write into (default: reports/out)")
    parser.add_argument("--show", action="store_true", help="open the page if this is a terminal with a screen")
    options = parser.parse_args(arguments)
    path = options.run or latest()
    if path is None:
        print("there is no run to report on yet; run `make bench` first", file=sys.stderr)
        return 1
    try:
        written = build(load(path), options.out)
    except BadRecord as error:
        print(f"bad run file: {error}", file=sys.stderr)
        return 1
    print(f"report of {os.path.relpath(path)}: {', '.join(map(os.path.relpath, written))}")
    if options.show and _has_display():
        webbrowser.open(written[0].resolve().as_uri())
    return 0


def _has_display() -> bool:
    """Whether the output goes to a terminal on this machine's own screen."""
    screen = os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")
    return sys.stdout.isatty() and bool(screen) and "SSH_CONNECTION" not in os.environ


if __name__ == "__main__":
    sys.exit(main())
