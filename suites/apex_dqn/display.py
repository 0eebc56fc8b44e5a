"""The progress line, and TensorBoard's logs."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from torch.utils.tensorboard import SummaryWriter
from tqdm import tqdm

if TYPE_CHECKING:
    from suites.apex_dqn.supervisor import Supervisor


def short(count: float) -> str:
    """Return a count in at most five characters: 950, 12.3k, 4.57M."""
    for size, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if count >= 0.9995 * size:
            scaled = count / size
            return f"{scaled:.{2 if scaled < 9.995 else 1 if scaled < 99.95 else 0}f}{letter}"
    return f"{count:.0f}"


def line(
    seconds: float, score: float | None, transitions: int, adds: float, steps: int, updates: float, restarts: int
) -> str:
    """Return the progress line. It fits into 80 columns, even after hours. `adds` and `updates` are per second."""
    return (
        f"{seconds:4.0f} s  score {'none' if score is None else f'{score:.1f}'}  "
        f"{short(transitions)} transitions {short(adds)}/s  {short(steps)} steps {short(updates)}/s"
    ) + (f"  {restarts} restarts" if restarts else "")


class Display:
    """On a terminal, updates one line every second. Otherwise, prints a new line every five seconds."""

    def __init__(self, folder: Path) -> None:
        self.writer = SummaryWriter(str(folder))
        self.terminal = sys.stderr.isatty()
        self.bar = tqdm(bar_format="{desc}", disable=not self.terminal, dynamic_ncols=True)
        self.every = 1.0 if self.terminal else 5.0
        self.at, self.steps, self.transitions, self.shown = 0.0, 0, 0, 0

    def __call__(self, now: Supervisor) -> None:
        progress = now.progress
        for each in now.evaluations[self.shown :]:
            self.writer.add_scalar("evaluation/mean return", each.score, each.steps)
        self.shown = len(now.evaluations)
        seconds = progress.seconds
        if seconds < self.at + self.every:
            return
        steps, transitions = progress.steps.value, sum(progress.transitions)
        took = seconds - self.at
        adds, updates = (transitions - self.transitions) / took, (steps - self.steps) / took
        first = not self.at
        self.at, self.steps, self.transitions = seconds, steps, transitions
        score = now.evaluations[-1].score if now.evaluations else None
        text = line(seconds, score, transitions, adds, steps, updates, now.restarts)
        if self.terminal:
            self.bar.set_description_str(text)
        else:
            print(text, flush=True)
        if first:  # the rates since the start would include start-up
            return
        for name, value in (
            ("speed/transitions per second", adds),
            ("speed/learner steps per second", updates),
            ("learner/mean absolute TD error", progress.error.value),
            ("explorers/mean return of last episodes", sum(progress.last_return) / len(progress.last_return)),
            ("explorers/restarts", now.restarts),
        ):
            self.writer.add_scalar(name, value, steps)

    def close(self) -> None:
        self.bar.close()
        self.writer.close()
