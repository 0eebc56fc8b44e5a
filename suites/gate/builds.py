"""The two builds that a gate compares, each in an environment in which only the package differs."""

from __future__ import annotations

import random
import shlex
import shutil
import subprocess
import sys
import sysconfig
import venv
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from reports.gate.verdict import HarnessError
from results import machine
from suites.runner import process as processes
from suites.runner.driver import Interrupt

PACKAGE = "cpprb_impl"
FOLDER = processes.CHECKOUT / ".gate"
LIMIT_SECONDS = 900
NINJA = Path(sysconfig.get_path("scripts"), "ninja")
WORKING_TREE = ""  # as a revision: the checkout as it is, with uncommitted changes


@dataclass(frozen=True)
class Side:
    """One of the two builds."""

    name: str  # its name as a peer of the run
    revision: str  # a commit, or WORKING_TREE
    options: tuple[str, ...] = ()  # CMake's options of the build, as NAME=VALUE
    variables: tuple[str, ...] = ()  # of the environment of its launches, as NAME=VALUE

    @classmethod
    def parse(cls, name: str, text: str) -> Side:
        """Raises HarnessError unless `text` is a revision of the checkout, or WORKING_TREE."""
        if text == WORKING_TREE:
            return cls(name, WORKING_TREE)
        try:
            return cls(name, git("rev-parse", "--verify", "--quiet", "--end-of-options", f"{text}^{{commit}}"))
        except HarnessError:
            raise HarnessError(f"no such revision: {text}") from None

    @property
    def version(self) -> str:
        return self.revision or machine.revision(processes.CHECKOUT)

    @property
    def home(self) -> Path:
        return FOLDER / self.name

    @property
    def python(self) -> Path:
        return self.home / "bin" / "python"

    @property
    def start(self) -> list[str]:
        """The beginning of a command that runs this side's Python."""
        return [*(["env", *self.variables] if self.variables else []), str(self.python)]

    @property
    def site_packages(self) -> Path:
        return Path(sysconfig.get_path("purelib", "venv", {"base": str(self.home)}))

    @property
    def wheel(self) -> Path:
        return next((self.home / "wheel").glob("*.whl"))

    @property
    def libraries(self) -> list[Path]:
        return list((self.site_packages / PACKAGE).glob("*.so"))

    def build(self, interrupt: Interrupt) -> None:
        """Make a fresh environment with the package built from this revision, and append our own one's packages.

        Python searches the paths in the .pth file after the environment's own packages. It does not read .pth files in
        those folders, so an editable install of the package in our environment has no effect.
        """
        print(f"building {self.name} ({self.version})", flush=True)
        shutil.rmtree(self.home, ignore_errors=True)
        venv.create(self.home, symlinks=True)
        pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check", "--no-input"]
        options = ["--no-deps", "--no-build-isolation", "--no-index"]
        places = [f"--config-settings=build-dir={self._objects}", f"--wheel-dir={self.home / 'wheel'}"]
        defined = [f"--config-settings=cmake.define.{option}" for option in self.options]
        with self._source() as source:
            self._run(interrupt, [*pip, "wheel", *options, *places, *defined, str(source)])
        install = ["install", "--no-deps", "--no-index", f"--target={self.site_packages}"]
        self._run(interrupt, [*pip, *install, str(self.wheel)])
        behind = [sysconfig.get_path("purelib"), sysconfig.get_path("platlib"), str(processes.CHECKOUT)]
        (self.site_packages / "behind.pth").write_text("\n".join(dict.fromkeys(behind)) + "\n")

    @contextmanager
    def _source(self) -> Iterator[Path]:
        """Yield the checkout, or a temporary work tree of the revision."""
        if self.revision == WORKING_TREE:
            yield processes.CHECKOUT
            return
        tree = FOLDER / "tree"
        _remove_worktree(tree)  # left by a gate that was killed
        git("worktree", "add", "--detach", "--force", str(tree), self.revision)
        try:
            yield tree
        finally:
            _remove_worktree(tree)

    @property
    def _objects(self) -> Path:
        return self.home / "build"

    def _run(self, interrupt: Interrupt, command: list[str]) -> None:
        if trouble := processes.run(command, LIMIT_SECONDS, tick=interrupt.check).trouble:
            raise HarnessError(f"{self.name} ({self.version}) does not build: {trouble}")

    def renew(self, seed: int) -> None:
        """Link the library again with its object files in a random order, in other pages of memory.

        Where a function lies in memory determines how it shares the caches with others: identical builds differed by
        10% in every launch, and so do two builds whose code was moved by a change elsewhere. Another place in each
        launch turns this bias into noise, which the verdict takes into account. A library that was not linked here is
        only copied.
        """
        for library in self.libraries:
            new = library.with_suffix(".new")
            command = self._link_command(library.name)
            if command is None:
                shutil.copyfile(library, new)
            else:
                done = subprocess.run(
                    [*_shuffled(command, seed, new), "-s"], cwd=self._objects, capture_output=True, text=True
                )
                if done.returncode:
                    raise HarnessError(f"{self.name} does not link: {done.stderr.strip()[-400:]}")
            new.replace(library)

    def _link_command(self, library: str) -> list[str] | None:
        """Return the command by which Ninja links this library, or None if it does not."""
        listed = subprocess.run(
            [str(NINJA), "-C", str(self._objects), "-t", "commands", library], capture_output=True, text=True
        )
        lines = listed.stdout.splitlines()
        if listed.returncode or not lines:
            return None
        words = shlex.split(lines[-1])  # : && c++ ... -o library a.o b.o ... && :
        return words[2:-2] if words[:2] == [":", "&&"] and words[-2:] == ["&&", ":"] else None


def _shuffled(command: list[str], seed: int, output: Path) -> list[str]:
    """Return a link command with its object files in another order, and with another output."""
    objects = [word for word in command if word.endswith(".o")]
    random.Random(seed).shuffle(objects)
    order = iter(objects)
    words = [next(order) if word.endswith(".o") else word for word in command]
    words[words.index("-o") + 1] = str(output)
    return words


def git(*arguments: str) -> str:
    done = subprocess.run(["git", *arguments], cwd=processes.CHECKOUT, capture_output=True, text=True)
    if done.returncode:
        raise HarnessError(f"git {arguments[0]}: {done.stderr.strip() or done.returncode}")
    return done.stdout.strip()


def _remove_worktree(tree: Path) -> None:
    shutil.rmtree(tree, ignore_errors=True)
    git("worktree", "prune")
