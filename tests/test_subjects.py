"""`.ci/subjects`, a part of `make lint`, refuses commit subjects that are long or not in the imperative."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parents[1] / ".ci" / "subjects"
GOOD = [
    "Report a hanging head as a regression",
    "Skip empty turns in the gate study",
    "Pass identical builds in the gate without measuring them",
    "Bring addresses of a Ray cluster into one place",
    "Need no compiler for wheels",
    "Focus the first screen on one question",
    "Re-encode frames that share a chunk",
    "Wait longer for a first launch: files of its library may be cold",
    "Move saving and loading of Ray shards to ray/saving.py".ljust(72, "x"),
]
BAD = {
    "Gate: a head that hangs is a regression": "verb",
    "Gate study: turns without loading make no call of none": "colon",
    "Learners in turns: what a reader of the change found": "colon",
    "Fixed a test": "base form",
    "Fixes a test": "base form",
    "Fixing a test": "base form",
    "fix a test": "verb",
    "Fix": "verb",
    "WIP on the gate": "verb",
    "The gate ends early": "imperative",
    "No time is spent on counts": "imperative",
    "What a new user met": "imperative",
    "Keep a page narrow; show no ratio": "semicolon",
    "Fix a test.": "full stop",
    "Move saving and loading of Ray shards to ray/saving.py".ljust(73, "x"): "at most 72",
    "fixup! Report a hanging head as a regression": "verb",
}
WHO = {f"GIT_{role}_{what}": "x" for role in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
ENV = {"PATH": os.environ["PATH"], "GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_NOSYSTEM": "1", **WHO}


def git(folder: Path, *words: object) -> None:
    subprocess.run(["git", "-C", folder, *map(str, words)], env=ENV, check=True, capture_output=True)


def commit(folder: Path, *subjects: str) -> None:
    for subject in subjects:
        git(folder, "commit", "--allow-empty", "--message", subject)


def check(folder: Path, *subjects: str) -> subprocess.CompletedProcess:
    return subprocess.run([folder / ".ci" / "subjects", *subjects], env=ENV, capture_output=True, text=True)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """Return a repository of two commits, of which the second introduced the rule."""
    folder = tmp_path / "project"
    (folder / ".ci").mkdir(parents=True)
    git(folder, "init", "--initial-branch", "main")
    commit(folder, "Docs: from before the rule")
    shutil.copy(SCRIPT, folder / ".ci")
    git(folder, "add", ".")
    commit(folder, "Check commit subjects")
    return folder


@pytest.mark.parametrize("subject", GOOD)
def test_a_subject_in_the_imperative_passes(subject):
    done = check(SCRIPT.parents[1], subject)
    assert (done.returncode, done.stdout) == (0, "subjects: 1 checked\n")


@pytest.mark.parametrize(("subject", "reason"), BAD.items())
def test_any_other_subject_is_refused_with_a_reason(subject, reason):
    done = check(SCRIPT.parents[1], GOOD[0], subject)
    assert done.returncode == 1
    assert reason in done.stdout
    assert done.stdout.endswith(f": {subject}\n")


def test_commits_since_the_rule_began_are_checked(project):
    assert check(project).stdout == "subjects: 0 checked\n"
    commit(project, *GOOD)
    assert check(project).stdout == f"subjects: {len(GOOD)} checked\n"
    commit(project, "Docs: bad", "Add a file")
    assert check(project).returncode == 1


def test_commits_of_the_default_branch_are_not_checked_on_a_branch(project, tmp_path):
    commit(project, "Docs: merged although it was bad")
    clone = tmp_path / "clone"
    git(tmp_path, "clone", project, clone)
    git(clone, "switch", "--create", "branch")
    commit(clone, "Add a file")
    done = check(clone)
    assert (done.returncode, done.stdout) == (0, "subjects: 1 checked\n")
    commit(clone, "Docs: bad")
    assert check(clone).returncode == 1


def test_merges_are_not_checked(project):
    git(project, "switch", "--create", "branch")
    commit(project, "Add a file")
    git(project, "switch", "main")
    git(project, "merge", "--no-ff", "branch", "--message", "Merge: a branch")
    assert check(project).stdout == "subjects: 1 checked\n"


def test_a_shallow_clone_is_checked_after_its_oldest_commit(project, tmp_path):
    commit(project, "Docs: bad", "Add a file", "Add another file")
    clone = tmp_path / "clone"
    git(tmp_path, "clone", "--depth", 2, project.as_uri(), clone)
    assert check(clone).stdout == "subjects: 1 checked\n"


def test_an_exported_tree_is_not_checked(project):
    commit(project, "Docs: bad")
    shutil.rmtree(project / ".git")
    done = check(project)
    assert done.returncode == 0
    assert done.stdout.startswith("subjects: not checked")


def test_an_exported_tree_inside_another_repository_is_not_checked(project):
    commit(project, "Docs: bad")
    exported = project / "exported"
    (exported / ".ci").mkdir(parents=True)
    shutil.copy(SCRIPT, exported / ".ci")
    assert check(exported).stdout.startswith("subjects: not checked")
