"""The worker of a check: makes the parts of a check in order, and reports each to its watcher.

python -m suites.check.worker BUFFER [--like FAMILY] [--project FOLDER] ... --worker=FD --last-call=FD
"""

from __future__ import annotations

import argparse
import json
import os
import traceback
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from adapters.base import Unavailable, WrongAnswer
from adapters.behaviours import Meaning
from adapters.child_process import exit_with_parent
from suites.check import checks, last_call
from suites.check.functions import BadFunctions, NotApplicable
from suites.check.probes.probing import BufferPool, Overwritten, Refused, Seen, said
from suites.check.probes.tracked import WrongRows
from suites.check.recognise import imported, own_file
from suites.check.reproduction import script
from suites.check.scripts import SCRIPTS
from suites.check.subject import CheckSettings, Subject
from suites.check.target import Target, target
from suites.check.watching import RISK

HOUSE = Path(__file__).resolve().parents[2]
#: Outcomes of a check without an observation.
ABSENT, RAISED, WRONG, BROKEN, BAD = "absent", "raised", "returns wrong rows", "broken", "bad"
FAILED = "{frame.filename}, line {frame.lineno}, in {frame.name}, as a few rows were added and sampled:\n{text}"
RECOGNISED_FAILED = """{called}
{call} raised {error}{where}, as a few rows were added and sampled
If the class is called in another way:
{own_file}"""
WHERE = " ({frame.filename}, line {frame.lineno}, in {frame.name})"
#: What a probe raises if the buffer returned rows that it must not.
WRONG_ROWS = (Overwritten, WrongAnswer, WrongRows)


def work(found: Target, parts: Sequence[checks.CheckPart], tell: Callable[[object], None]) -> None:
    pool = BufferPool(found.kind, found.subject.setting, announce_risk=lambda: tell(RISK))
    for part in parts:
        refused = {check: checks.refusal(check, found.subject.functions) for check in part.checks}
        absent = {check: {"outcome": ABSENT, "reason": reason} for check, reason in refused.items() if reason}
        if len(absent) < len(part.checks):
            absent = _made(part, pool, found.subject) | absent
        tell(absent)
    pool.close()


def _made(part: checks.CheckPart, pool: BufferPool, subject: Subject) -> dict[str, dict[str, Any]]:
    """Return the reports of a part's checks."""
    try:
        seen = part.probe(pool if part.over_adapter else subject)
    except (NotApplicable, NotImplementedError, Refused, Unavailable) as reason:
        return {check: {"outcome": ABSENT, "reason": str(reason)} for check in part.checks}
    except WRONG_ROWS as error:
        return {check: {"outcome": WRONG, "reason": str(error)} for check in part.checks}
    except Exception as error:
        outcome = RAISED if is_the_buffers(error, subject) else BROKEN
        text = said(error) if outcome == RAISED else traceback.format_exc()
        return {check: {"outcome": outcome, "reason": text} for check in part.checks}
    found = {check: replace(each, script=_script(check, each, subject)) for check, each in seen.items()}
    lacking = {check: {"outcome": ABSENT, "reason": "nothing to look at"} for check in set(part.checks) - set(seen)}
    return {check: asdict(each) for check, each in found.items()} | lacking


def _script(check: str, seen: Seen, subject: Subject) -> str:
    """Return a program that repeats what was observed, or "" if it is sound, or no program can call this buffer."""
    if checks.BEHAVIOURS[check](seen.word).meaning is Meaning.SOUND or not subject.functions.source:
        return ""
    body = seen.script.split("\n") if seen.script else SCRIPTS.get(check, lambda _: [])(subject)
    return script(subject.functions, body) if body else ""


def is_the_buffers(error: BaseException, subject: Subject) -> bool:
    """Return whether an exception was raised by the buffer or by the functions that call it, and not by a probe."""
    codes = {function.__code__.co_filename for function in subject.functions.named.values()}
    files = [frame.filename for frame in traceback.extract_tb(error.__traceback__)]
    return any(file in codes and not Path(file).is_relative_to(HOUSE / "suites" / "check" / "probes") for file in files)


def trial(subject: Subject) -> None:
    """Make a buffer, add three rows and sample two, so that a buffer that cannot be called is reported once."""
    import numpy as np

    buffer = subject.make(8)
    for i in range(3):
        obs = np.full(4, i, np.float32)
        buffer.add(obs=obs, act=i, rew=float(i), next_obs=obs + 1, first=i == 0)
    buffer.sample(2)


def failed(error: Exception, found: Target, buffer: str) -> str:
    """Return where in the functions' file the trial failed, and the end of the traceback; for a class that a family
    calls, which of its methods failed, and how to write its calls."""
    frames = traceback.extract_tb(error.__traceback__)
    files = {function.__code__.co_filename for function in found.subject.functions.named.values()}
    through = [number for number, frame in enumerate(frames) if frame.filename in files]
    if not found.subject.functions.family:
        text = "".join(traceback.format_exception(error, limit=-3)).strip()
        return FAILED.format(frame=frames[through[-1]], text=text) if through else text
    called = next(frame.name for frame in frames if frame.filename == Subject.make.__code__.co_filename)
    inner = frames[through[-1] + 1 :] if through else []
    own = [frame for frame in inner if frame.filename == inner[0].filename]  # not those of libraries that it calls
    return RECOGNISED_FAILED.format(
        called=found.called,
        call=called,
        error=said(error),
        where=WHERE.format(frame=own[-1]) if own else "",
        own_file=own_file(buffer, imported(buffer)),
    )


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m suites.check.worker")
    parser.add_argument("buffer")
    parser.add_argument("--like")
    parser.add_argument("--project", type=Path)
    parser.add_argument("--through", help="the Python that runs the functions of a file")
    parser.add_argument("--settings", required=True, help="a CheckSettings as JSON")
    parser.add_argument("--only", default="")
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--worker", type=int, required=True)
    parser.add_argument("--last-call", type=int, required=True)
    args = parser.parse_args()
    exit_with_parent(os.getppid())
    last_call.write_to(args.last_call)
    with os.fdopen(args.worker, "w") as pipe:

        def tell(said: object) -> None:
            print(json.dumps(said), file=pipe, flush=True)

        try:
            settings = CheckSettings(**json.loads(args.settings))
            found = target(args.buffer, args.like, args.project, settings, args.through)
        except BadFunctions as error:
            tell({BAD: str(error)})
            return 2
        except Exception as error:
            tell({BAD: "".join(traceback.format_exception(error, limit=-3)).strip()})
            return 2
        try:
            trial(found.subject)
        except Exception as error:
            tell({BAD: failed(error, found, args.buffer)})
            return 2
        tell({"called": found.called})
        work(found, checks.selected(checks.named(args.only))[args.first :], tell)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
