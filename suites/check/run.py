"""Runs all checks of a buffer in worker processes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import IO, Any

from suites.check import checks
from suites.check.checks import CheckPart
from suites.check.outcome import DIED, HANGS, LATE, CheckOutcome, CheckVerdict, outcome, silent, with_causes
from suites.check.subject import CheckSettings
from suites.check.watching import Limits, Worker, watch
from suites.check.worker import BAD, HOUSE

REPETITIONS = 2  # of a fault with other seeds; it is withdrawn if all of them are free of it
START_SECONDS = 60.0  # for importing the buffer's library
SCRIPT_SECONDS = 60.0  # for a script, which imports the buffer's library
#: Exceptions that mean that a script is incomplete: its imports may depend on the folder in which it is run.
INCOMPLETE = (b"ImportError", b"ModuleNotFoundError", b"NameError")
LOG_LINES = 12  # of what the buffer printed, shown when it cannot be checked


class CouldNotCheck(Exception):  # noqa: N818 (what happened)
    """The buffer cannot be checked at all; the message says why."""


@dataclass(frozen=True)
class Report:
    """The outcomes of a whole check."""

    buffer: str
    called: str  # how the buffer was called, for people
    outcomes: tuple[CheckOutcome, ...]
    seconds: float
    settings: CheckSettings

    def __bool__(self) -> bool:
        """Return whether no fault was found."""
        return not self.of(CheckVerdict.FAULT)

    def of(self, verdict: CheckVerdict) -> list[CheckOutcome]:
        return [each for each in self.outcomes if each.verdict is verdict]


@dataclass(frozen=True)
class Checked:
    """The buffer to check, as the worker's command line names it."""

    buffer: str
    like: str | None = None
    project: Path | None = None
    only: frozenset[str] = frozenset()
    python: str = sys.executable
    through: str | None = None  # the Python that runs the functions of a file, if it is another one

    @property
    def folder(self) -> str:
        """Return the folder from which the buffer is imported; "" for that of Python's path."""
        if self.project is not None:
            return str(self.project.resolve())
        return str(Path(self.buffer).resolve().parent) if self.buffer.endswith(".py") else ""

    @property
    def environment(self) -> dict[str, str]:
        """Return the environment of a worker, which must find this project's code and prints no colours."""
        path = os.pathsep.join(filter(None, [str(HOUSE), os.environ.get("PYTHONPATH", "")]))
        return {**os.environ, "PYTHONPATH": path, "PYTHONHASHSEED": "0", "PYTHONDONTWRITEBYTECODE": "1"}

    def command(self, settings: CheckSettings) -> list[str]:
        options = [f"--settings={json.dumps(asdict(settings))}", f"--only={','.join(sorted(self.only))}"]
        options += [f"--like={self.like}"] if self.like else []
        options += [f"--project={self.project}"] if self.project else []
        options += [f"--through={self.through}"] if self.through else []
        return [self.python, "-m", "suites.check.worker", self.buffer, *options]


def run(
    checked: Checked, settings: CheckSettings, progress: Callable[[int, int, str], None] = lambda *_: None
) -> Report:
    """Check a buffer. `progress` is called with the number of parts done, of all parts, and the next check.

    Raises `CouldNotCheck`.
    """
    try:
        parts, found = checks.selected(checked.only), []
    except ValueError as error:
        raise CouldNotCheck(str(error)) from None
    with tempfile.TemporaryFile() as log:
        starting = _Starting(checked, settings, log)
        for number, (part, reports) in enumerate(starting.observed(parts)):
            progress(number, len(parts), part.checks[0])
            new = [outcome(check, reports[check]) for check in part.checks]
            if any(each.verdict is CheckVerdict.FAULT for each in new):
                new = starting.confirmed(part, new)
            found += new
        progress(len(parts), len(parts), "")
        shown = with_causes([each for each in found if not checked.only or each.check in checked.only])
        repeated = tuple(replace(each, script=starting.repeating(each)) for each in shown)
    return Report(checked.buffer, starting.called, repeated, time.monotonic() - starting.began, settings)


class _Starting:
    """Starts workers for one buffer."""

    def __init__(self, checked: Checked, settings: CheckSettings, log: IO[bytes]) -> None:
        self._checked, self._settings, self._log = checked, settings, log
        self.called, self.began = "", 0.0
        stall = max(settings.patience, settings.seconds / 4)
        part = max(settings.seconds, stall)
        self._limits = Limits(settings.patience, part, START_SECONDS, stall, settings.memory)

    def worker(self, settings: CheckSettings, first: int, only: frozenset[str]) -> Worker:
        command = [*replace(self._checked, only=only).command(settings), f"--first={first}"]
        worker = Worker(command, self._limits, self._log, self._checked.environment)
        if not self.called:
            self._wait_for_first(worker)
        return worker

    def _wait_for_first(self, worker: Worker) -> None:
        try:
            said = worker.ready()
        except (TimeoutError, EOFError, MemoryError) as error:
            ended = worker.end(isinstance(error, TimeoutError), too_much=self._limits.exceeded_by(error))
            how = "it did not finish in time" if ended.hung else ended.how
            where = f", in {ended.last_call}" if ended.last_call else ""
            raise CouldNotCheck("\n".join(filter(None, [self._printed(), f"{how}{where}"]))) from None
        except KeyboardInterrupt:
            worker.end(hung=True)
            raise
        if BAD in said:
            worker.end()
            raise CouldNotCheck(said[BAD])
        self.called, self.began = said["called"], time.monotonic()  # without the import of a large library

    def _printed(self) -> str:
        self._log.seek(0)
        return "\n".join(self._log.read().decode(errors="replace").splitlines()[-LOG_LINES:])

    def observed(self, parts: Sequence[CheckPart]) -> Iterator[tuple[CheckPart, Mapping[str, dict]]]:
        """Yield each part and its reports; parts are not made that would begin when the time is over."""
        start = lambda first: self.worker(self._settings, first, self._checked.only)  # noqa: E731
        reports = watch(start, [part.checks for part in parts], self._limits, silent)
        for number, part in enumerate(parts):
            if number and time.monotonic() > self.began + self._settings.seconds:
                reports.close()
                late = {"outcome": LATE, "reason": "no time was left"}
                yield from ((each, dict.fromkeys(each.checks, late)) for each in parts[number:])
                return
            yield part, next(reports)
        reports.close()

    def repeating(self, found: CheckOutcome) -> str:
        """Return the script of a fault or hazard if it fails, as it must, and "" if it does not."""
        if not found.script or found.cause:
            return ""
        command = [self._checked.python, "-c", found.script]
        path = os.pathsep.join(filter(None, [self._checked.folder, os.environ.get("PYTHONPATH", "")]))
        environment = {**os.environ, "PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1"}
        options = dict.fromkeys(("stdin", "stdout"), subprocess.DEVNULL)
        with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryFile() as errors:
            options |= {"stderr": errors, "cwd": folder, "env": environment, "start_new_session": True}
            process = subprocess.Popen(command, **options)
            try:
                status = process.wait(SCRIPT_SECONDS)
                errors.seek(0)
                last = errors.read().rstrip().rpartition(b"\n")[2]
                return found.script if status and not last.startswith(INCOMPLETE) else ""
            except subprocess.TimeoutExpired:
                return ""
            finally:
                with suppress(ProcessLookupError, PermissionError):
                    os.killpg(process.pid, signal.SIGKILL)  # with children that outlive it
                process.wait()

    def confirmed(self, part: CheckPart, found: list[CheckOutcome]) -> list[CheckOutcome]:
        """Return the outcomes, each fault replaced by that of the last repetition if every repetition is free of it. A
        worker that hung or died is not repeated."""
        faults = [each for each in found if each.verdict is CheckVerdict.FAULT]
        doubtful = {each.check for each in faults if each.word not in (DIED, HANGS)}
        instead: dict[str, CheckOutcome] = {}
        for repetition in range(1, REPETITIONS + 1):
            if not doubtful:
                break
            again = replace(self._settings, seed=self._settings.seed + repetition)
            start = lambda _, again=again: self.worker(again, 0, frozenset(part.checks))  # noqa: E731
            (reports,) = watch(start, [part.checks], self._limits, silent)
            for check in sorted(doubtful):
                instead[check] = outcome(check, reports[check])
                if instead[check].verdict is CheckVerdict.FAULT:
                    doubtful.discard(check)
        return [instead[each.check] if each.check in doubtful else each for each in found]


def check(
    buffer: type | str,
    like: str | None,
    project: str | os.PathLike[str] | None,
    only: Iterable[str],
    settings: Mapping[str, Any],
) -> Report:
    """See `suites.check.check`."""
    if not isinstance(buffer, str):
        module, name = buffer.__module__, buffer.__qualname__
        if "<locals>" in name or module == "__main__":
            raise ValueError(f"buffer must be importable by its name, got {module}.{name}")
        file = Path(sys.modules[module].__file__ or "").resolve()
        project = project or file.parents[module.count(".") + (file.stem == "__init__")]
        buffer = f"{module}:{name}"
    checked = Checked(buffer, like, Path(project) if project else None, frozenset(only))
    return run(checked, CheckSettings(**settings))
