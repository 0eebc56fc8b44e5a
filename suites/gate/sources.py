"""The source of a side of the gate: a revision of a checkout, its working tree, a wheel, or a release on PyPI."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from results import machine
from results.analysis.verdict import HarnessError
from suites.runner.process import CHECKOUT

FOLDER = CHECKOUT / ".gate"
TREE = FOLDER / "tree"  # a temporary work tree, for one side at a time
WORKING_TREE = ""  # as a revision: the checkout as it is, with uncommitted changes


@dataclass(frozen=True)
class Requirement:
    """What pip installs by itself: a wheel's path, or a release, such as "cpprb==11.0.0"."""

    text: str
    version: str
    is_ours = False

    @contextmanager
    def pip_arguments(self) -> Iterator[list[str]]:
        """Yield the arguments of `pip wheel` that name it."""
        yield [self.text]


@dataclass(frozen=True)
class Checkout:
    """A revision of a project's git checkout."""

    revision: str  # a commit, or WORKING_TREE
    project: Path = CHECKOUT

    @property
    def version(self) -> str:
        return self.revision or machine.revision(self.project)

    @property
    def is_ours(self) -> bool:
        return self.project == CHECKOUT

    @contextmanager
    def pip_arguments(self) -> Iterator[list[str]]:
        """Yield the arguments of `pip wheel` that build it. Another project's checkout is never built in place, since
        some build tools leave files behind and reuse files that they find."""
        if self.is_ours and self.revision == WORKING_TREE:
            yield ["--no-build-isolation", "--no-index", str(self.project)]
            return
        remove_tree(self.project)  # left by a gate that was killed
        no_hooks = ("-c", "core.hooksPath=/dev/null")
        git(self.project, *no_hooks, "worktree", "add", "--detach", "--force", str(TREE), self.revision or "HEAD")
        try:
            if (TREE / ".gitmodules").exists():
                git(TREE, *no_hooks, "submodule", "update", "--init", "--recursive")
            if self.revision == WORKING_TREE:
                self._copy_changes()
            yield [*(["--no-build-isolation", "--no-index"] if self.is_ours else []), str(TREE)]
        finally:
            remove_tree(self.project)

    def _copy_changes(self) -> None:
        """Make TREE, which is at HEAD, equal to the working tree."""
        listed = git(self.project, "diff", "--name-only", "--no-renames", "-z", "HEAD")
        listed += git(self.project, "ls-files", "--others", "--exclude-standard", "-z", "--full-name")
        names = list(filter(None, listed.split("\0")))
        for name in names:
            if _is_file_or_link(TREE / name):
                (TREE / name).unlink()
        for name in names:
            mine, copy = self.project / name, TREE / name
            if _is_file_or_link(mine):
                copy.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(mine, copy, follow_symlinks=False)


def _is_file_or_link(path: Path) -> bool:
    return path.is_file() or path.is_symlink()


Source = Checkout | Requirement


def parse(text: str, project: Path = CHECKOUT) -> Source:
    """Return the source that `text` names: a revision of the project's checkout, WORKING_TREE, a wheel's path, or a
    requirement with "==". Raises HarnessError if it is none of these."""
    if text.endswith(".whl"):
        wheel = Path(text).resolve()
        if not wheel.is_file():
            raise HarnessError(f"no such wheel: {text}")
        return Requirement(str(wheel), f"{wheel.name}, SHA-256 {hashlib.sha256(wheel.read_bytes()).hexdigest()[:12]}")
    if "==" in text:
        return Requirement(text, version=text)
    if text == WORKING_TREE:
        return Checkout(WORKING_TREE, project)
    try:
        commit = git(project, "rev-parse", "--verify", "--quiet", "--end-of-options", f"{text}^{{commit}}")
    except HarnessError:
        more = "name a revision, a wheel (dist/x.whl) or a release (name==1.0)"
        if git(project, "rev-parse", "--is-shallow-repository") == "true":
            more = "this clone is shallow: run `git fetch --unshallow`, or set `fetch-depth: 0` for actions/checkout"
        raise HarnessError(f"no such revision: {text}; {more}") from None
    return Checkout(commit, project)


def git(project: Path, *arguments: str) -> str:
    done = subprocess.run(["git", *arguments], cwd=project, capture_output=True, text=True)
    if done.returncode:
        raise HarnessError(f"git {arguments[0]}: {done.stderr.strip() or done.returncode}")
    return done.stdout.strip()


def remove_tree(project: Path) -> None:
    with suppress(HarnessError):  # there is none, or it belongs to another project
        git(project, "worktree", "remove", "--force", "--force", str(TREE))
    shutil.rmtree(TREE, ignore_errors=True)
