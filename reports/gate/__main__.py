"""The gate's verdict on a run file:  python -m reports.gate RUN.json [--strict] [--markdown FILE]

Exit status: 0 pass, 1 a regression, 2 can't tell (1 with --strict), 3 harness error.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

from reports.gate import table
from reports.gate.again import commands
from results import BadRecord, load
from results.analysis.verdict import HarnessError, Status, Word, check_kind, incomplete, judge_what_can_be, status_of


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        """Exit with HARNESS_ERROR: argparse's 2 would mean "can't tell"."""
        self.exit(Status.HARNESS_ERROR, f"{self.prog}: {message}\n")


def main(arguments: Sequence[str] | None = None) -> int:
    parser = _Parser(prog="python -m reports.gate", description="Judge whether head is slower than base.")
    parser.add_argument("run", type=Path, help="a gate run file")
    parser.add_argument("--strict", action="store_true", help="exit with 1 if the gate can't tell for a benchmark")
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="also write the verdict as Markdown")
    parser.add_argument("--html", type=Path, metavar="FILE", help="also write a page with every pair's change")
    options = parser.parse_args(arguments)
    try:
        run = load(options.run)
        check_kind(run)
        verdicts, trouble = judge_what_can_be(run)
        lacking = str(trouble or "") or incomplete(run)
        if lacking:  # the decisions that were made are reported anyway
            verdicts = [verdict for verdict in verdicts if verdict.is_known]
        if lacking and all(verdict.word is Word.NOT_JUDGED for verdict in verdicts):
            raise HarnessError(lacking)
        failed = bool(lacking) and status_of(verdicts) is not Status.REGRESSION
        status = Status.HARNESS_ERROR if failed else status_of(verdicts, options.strict)
        again = commands(run, verdicts)
        answer = f"HARNESS ERROR: {lacking}" if failed else table.sentence(verdicts)
        print("\n".join([table.text(verdicts), *again, *([] if failed else [answer])]))
        if lacking:
            print(answer if failed else lacking, file=sys.stderr)
        if options.markdown:
            options.markdown.write_text(table.markdown(verdicts, again, answer), encoding="utf-8")
        if options.html:
            from reports.gate.page import page  # which loads Matplotlib

            options.html.write_text(page(run, verdicts, again, answer), encoding="utf-8")
            print(f"each benchmark's pairs: {options.html}")
        return status
    except (HarnessError, BadRecord) as error:
        print(f"HARNESS ERROR: {error}", file=sys.stderr)
    except Exception as error:  # Python would exit with 1, which here means "regression"
        print(f"HARNESS ERROR: {type(error).__name__}: {error}", file=sys.stderr)
    return Status.HARNESS_ERROR


if __name__ == "__main__":
    sys.exit(main())
