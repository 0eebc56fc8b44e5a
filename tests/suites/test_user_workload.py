"""A user's own workload: how it is declared, the errors in a declaration, and that launches need only its recording."""

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from adapters.base import Field
from results.record import load
from suites import SUITES, suite_named, workloads
from suites.runner.profiles import PROFILES
from suites.suite import SuiteSettings
from suites.workloads import user_workload, user_workload_file
from tests.suites.conftest import CHECKOUT, brief_run
from tests.suites.test_run import refused

FIELDS = """
[fields]
obs.camera = { shape = [4, 6, 3], dtype = "uint8" }
obs.joints = { shape = [14], dtype = "float64" }
"next_obs.joints" = { shape = [14], dtype = "float64" }
next_obs.camera = { shape = [6, 4, 3], dtype = "uint8" }
act = { shape = [2], dtype = "int16" }
done = { dtype = "bool" }
"""
STEP = """
[fields]
done = { dtype = "float32" }
next_obs = { shape = [4], dtype = "float32" }
obs = { shape = [4], dtype = "float32" }
act = { dtype = "int32" }
rew = { dtype = "float32" }
"""


def of_text(text: str, folder: Path) -> user_workload.UserWorkload:
    file = folder / "of-mine.toml"
    file.write_text(text)
    return user_workload_file.of_file(file)


def planned(workload: user_workload.UserWorkload, profile: str) -> list[SuiteSettings]:
    """Return what the suites measure for the workload in this profile, most important first."""
    sizes = PROFILES[profile].user
    suites = {name: each for name in SUITES if profile in (each := suite_named(name)).profiles}
    found = [(name, each.for_user_workload(each.profiles[profile], workload, sizes)) for name, each in suites.items()]
    assert [name for name, settings in found if settings] == ["throughput", "memory"]
    return [settings for _, settings in found if settings]


def test_a_file_states_names_shapes_dtypes_sizes_and_capacity(tmp_path):
    workload = of_text('name = "arm"\ncapacity = 5_000\nadd = [1, 50]\nsample = [64]\n' + FIELDS, tmp_path)
    assert (workload.name, workload.capacity, workload.adds, workload.samples) == ("arm", 5_000, (1, 50), (64,))
    assert workload.fields["obs.camera"] == Field((4, 6, 3), "uint8") and workload.fields["done"] == Field((), "bool")
    assert workload.row_bytes == 2 * 72 + 2 * 14 * 8 + 2 * 2 + 1
    throughput, memory = planned(workload, "quick")
    assert {(str(job.task), job.workload, job.capacity) for job in throughput.jobs(["arm"])} == {
        (task, "arm", 5_000) for task in ("add:batch=1", "add:batch=50", "sample:batch=64", "prioritized:batch=64")
    }
    assert memory.buffers["arm"][1] == ["plain"]
    assert planned(workload, "full")[1].buffers["arm"][1] == ["plain", "priorities"]


def test_the_fields_of_a_step_are_measured_like_a_step(tmp_path):
    workload = of_text(STEP, tmp_path)
    assert workload.name == "of-mine" and tuple(workload.fields) == ("obs", "act", "rew", "next_obs", "done")
    throughput, memory = planned(workload, "full")
    assert {"add_dicts", "add_lists", "learner_step", "learner_step_uniform"} < {
        job.benchmark for job in throughput.jobs(["of-mine"])
    }
    assert "next_of" in memory.buffers["of-mine"][1]


@pytest.mark.parametrize("length", [1, 1_000, 1_000_000])
def test_the_usual_capacity_fits_into_the_bytes_of_its_profile(length, tmp_path):
    workload = of_text(f'[fields]\nx = {{ shape = [{length}], dtype = "float32" }}', tmp_path)
    for profile in ("tiny", "quick", "full"):
        throughput, memory = planned(workload, profile)
        (measured,) = throughput.by_workload["of-mine"]
        assert 256 <= measured.capacity <= 100_000, profile
        assert measured.capacity * workload.row_bytes <= max(PROFILES[profile].user.bytes, 256 * workload.row_bytes)
        assert memory.buffers["of-mine"][0] >= user_workload.SMALLEST_CAPACITY


def test_random_content_is_seeded_and_has_the_stated_dtypes_and_next_values(tmp_path):
    workload = of_text(FIELDS, tmp_path)
    rows, again = workload.record(500), workload.record(500)
    assert {name: Field(column.shape[1:], column.dtype.name) for name, column in rows.items()} == workload.fields
    assert all(len(column) == 500 and np.array_equal(column, again[name]) for name, column in rows.items())
    assert np.array_equal(rows["next_obs.joints"][:-1], rows["obs.joints"][1:])
    assert rows["obs.camera"].min() == 0 and rows["obs.camera"].max() == 255 and 200 < rows["done"].sum() < 300
    assert len(np.unique(rows["obs.joints"])) == 500 * 14
    assert "random" in workload.source


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("capacity = 100", "fields must be a table"),
        ("fields = 3", "fields must be a table"),
        ("capasity = 100" + FIELDS, "unknown key 'capasity'; known: name, capacity, add, sample, fields"),
        ("capacity = 0" + FIELDS, "capacity must be a whole number of rows, at least 256, got 0"),
        ("capacity = 1.5" + FIELDS, r"capacity must be a whole number .* got 1\.5"),
        ("capacity = true" + FIELDS, "capacity must be a whole number .* got True"),
        ("capacity = 1_000\nsample = [2_000]" + FIELDS, "capacity must be .* at least 2000, got 1000"),
        ("capacity = 1_000_000_000_000" + FIELDS, "rows of 373 bytes need .* GiB, but this machine has"),
        ("add = []" + FIELDS, r"add must be a list of rows per call, .* got \[\]"),
        ("sample = [32, 0]" + FIELDS, r"sample must be a list .* got \[32, 0\]"),
        ("sample = 32" + FIELDS, "sample must be a list .* got 32"),
        ('name = "a b"' + FIELDS, "name must be letters.* got 'a b'"),
        ('name = "CartPole-v1"' + FIELDS, "name: CartPole-v1 is already used by a built-in workload"),
        ('[fields]\nx = { dtype = "float31" }', "fields.x: dtype must be one of bool, uint8.* got 'float31'"),
        ("[fields]\nx = { shape = [3] }", "fields.x: dtype must be one of .* got None"),
        (
            '[fields]\nx = { shape = [3, 0], dtype = "int8" }',
            r"fields.x: shape must be a list of lengths .* got \[3, 0\]",
        ),
        ('[fields]\nx = { shape = 3, dtype = "int8" }', "fields.x: shape must be a list of lengths .* got 3"),
        ('[fields]\nx = { shape = [3], dtype = "int8", min = 0 }', "fields.x: unknown key 'min'; known: shape, dtype"),
        ('[fields]\nx = "float32"', "fields.x must be a table.* got 'float32'"),
        ('[fields]\nobs.x = "float32"', "fields.obs: unknown key 'x'"),
        ('[fields]\nweights = { dtype = "float32" }', "fields: 'weights' is reserved"),
        ('[fields]\n"a b" = { dtype = "float32" }', "fields: a name must be a letter.* got 'a b'"),
        ('[fields]\n"a.b" = { dtype = "int8" }\na.b = { dtype = "int8" }', "fields: 'a.b' appears twice"),
        ('[fields]\nx = { dtype = "bool" }', "too few distinct values"),
        ("[fields", "not a TOML file"),
    ],
)
def test_errors_in_a_file_are_reported(text, complaint, tmp_path):
    with pytest.raises(user_workload.BadWorkload, match=f"of-mine.toml: .*{complaint}"):
        of_text(text, tmp_path)


def test_a_missing_file_is_reported(tmp_path):
    with pytest.raises(user_workload.BadWorkload, match=r"absent\.toml: No such file"):
        user_workload_file.of_file(tmp_path / "absent.toml")


def test_the_example_can_be_measured():
    assert user_workload_file.of_file(CHECKOUT / "examples" / "workload.toml").name == "robot-arm"


@pytest.mark.parametrize(
    ("name", "complaint"),
    [
        ("Nope-v0", "environment Nope-v0: NameNotFound: "),
        ("no_module:Nope-v0", "environment no_module:Nope-v0: ModuleNotFoundError: .*no_module"),
        (
            "texts:Texts-v0",
            "environment texts:Texts-v0: observations.mission must have a space of fixed shape .*, got Text",
        ),
        ("texts:Broken-v0", "environment texts:Broken-v0: ZeroDivisionError"),
        ("texts:Empty-v0", "environment texts:Empty-v0: obs must not be empty, got shape \\(2, 0\\)"),
    ],
)
def test_errors_in_an_environment_are_reported(name, complaint, tmp_path, monkeypatch):
    (tmp_path / "texts.py").write_text(
        "import gymnasium as gym; from gymnasium.spaces import Box, Dict, Discrete, Text\n"
        "class Texts(gym.Env):\n"
        "    observation_space = Dict({'mission': Text(10), 'n': Discrete(3)}); action_space = Discrete(2)\n"
        "class Broken(gym.Env):\n"
        "    observation_space = Discrete(3); action_space = Discrete(2)\n"
        "    def reset(self, **options): 1 / 0\n"
        "class Empty(gym.Env):\n"
        "    observation_space = Box(0, 1, (2, 0)); action_space = Discrete(2)\n"
        "    def reset(self, **options): return self.observation_space.sample(), {}\n"
        "    def step(self, action): return self.observation_space.sample(), 0.0, False, False, {}\n"
        "for each in (Texts, Broken, Empty): gym.register(f'{each.__name__}-v0', each)\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(user_workload.BadWorkload, match=complaint):
        user_workload.of_environment(name)


def test_every_part_of_an_environment_is_stored():
    workload = user_workload.of_environment("Blackjack-v1")  # its observation is a Tuple of three
    assert {name: field.dtype for name, field in workload.fields.items()} == {
        **dict.fromkeys(("obs.0", "obs.1", "obs.2", "act"), "int32"),
        "rew": "float32",
        **dict.fromkeys(("next_obs.0", "next_obs.1", "next_obs.2"), "int32"),
        "done": "bool",
    }


@pytest.fixture
def kept(tmp_path, monkeypatch):
    """Return a user's own workload that is stored in a cache of the test."""
    monkeypatch.setenv(workloads.USER_WORKLOAD, "")  # so that it is restored afterwards
    workload = replace(of_text(FIELDS, tmp_path), name="mine")
    workloads.save_user_workload(workload.name, workload.source, workload.record(400), 300, cache=tmp_path)
    return workload, tmp_path / "own"


def test_a_saved_recording_is_loaded_by_name_with_any_length_up_to_its_own(kept):
    workload, folder = kept
    usual, longer = workloads.load("mine"), workloads.load("mine", 400)
    assert (usual.transitions, longer.transitions) == (300, 400)
    assert usual.sha256 == longer.sha256 == next(folder.iterdir()).stem and usual.source == workload.source
    assert all(np.array_equal(longer.columns[name], column) for name, column in workload.record(400).items())
    with pytest.raises(ValueError, match="401 rows of mine were requested, but only 400 were recorded"):
        workloads.load("mine", 401)


def test_different_content_gets_its_own_file_and_a_damaged_file_is_refused(kept):
    workload, folder = kept
    (file,) = folder.iterdir()
    workloads.save_user_workload(workload.name, workload.source, workload.record(399), 300, cache=folder.parent)
    assert len(list(folder.iterdir())) == 2
    workloads.save_user_workload(workload.name, workload.source, workload.record(400), 300, cache=folder.parent)
    assert len(list(folder.iterdir())) == 2
    file.write_bytes(file.read_bytes()[:-100])
    with pytest.raises(ValueError, match="the recording of mine is missing or damaged"):
        workloads.load("mine")


def test_a_launch_needs_neither_gymnasium_nor_the_users_module(surroundings):
    """The runner imports both, but its launches cannot import them here."""
    (surroundings.folder / "mine.py").write_text(
        "import sys; assert '--profile=tiny' in sys.orig_argv, 'imported in a launch'\n"
        "import gymnasium; from gymnasium.envs.classic_control import Continuous_MountainCarEnv\n"
        "gymnasium.register('Mine-v0', Continuous_MountainCarEnv, max_episode_steps=50)\n"
    )
    (surroundings.folder / "sitecustomize.py").write_text(
        "import sys\n"
        "if '--profile=tiny' not in sys.orig_argv: sys.modules['gymnasium'] = None  # then it can't be imported\n"
    )
    path = f"{surroundings.folder}:{CHECKOUT}"
    assert surroundings.run("-c", "import gymnasium", more={"PYTHONPATH": path}).returncode == 1
    out = surroundings.folder / "run.json"
    arguments = ("--profile=tiny", "--env=mine:Mine-v0", "--suites=throughput,memory", "--peers=baselines-style")
    done = surroundings.run(*brief_run(blocks=1), *arguments, f"--out={out}", more={"PYTHONPATH": path})
    assert done.returncode == 0, done.stderr
    run = load(out)
    assert [(each.name, each.transitions) for each in run.workloads] == [("Mine-v0", 2_000)]
    assert {each.suite for each in run.records if each.ok} == {"throughput", "memory"}
    assert {each.status for each in run.records} <= {"ok", "skipped"}  # the memory suite skips what a peer cannot store


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--env=Nope-v0"], "environment Nope-v0: NameNotFound"),
        (["--workload-file=absent.toml"], "absent.toml: No such file"),
        (["--env=CartPole-v1", "--workloads=CartPole-v1"], "not allowed with"),
        (["--env=CartPole-v1", "--profile=sweep"], "sweep"),
        (["--env=CartPole-v1", "--suites=apex"], "nothing to measure"),
    ],
)
def test_the_runner_refuses_workloads_that_cannot_be_measured(arguments, complaint, capsys):
    assert complaint in refused(capsys, *arguments)


def test_the_runner_reports_an_environment_that_fails_after_a_while(surroundings):
    (surroundings.folder / "mine.py").write_text(
        "import gymnasium; from gymnasium.envs.classic_control import CartPoleEnv\n"
        "class Tiring(CartPoleEnv):\n"
        "    steps = 0\n"
        "    def step(self, action):\n"
        "        self.steps += 1; assert self.steps < 100, 'the simulator crashed'\n"
        "        return super().step(action)\n"
        "gymnasium.register('Tiring-v0', Tiring)\n"
    )
    path = f"{surroundings.folder}:{CHECKOUT}"
    done = surroundings.run("-m", "suites.run", "--profile=tiny", "--env=mine:Tiring-v0", more={"PYTHONPATH": path})
    assert done.returncode == 2
    assert done.stderr == "suites.run: environment mine:Tiring-v0: AssertionError: the simulator crashed\n"


@pytest.mark.parametrize(
    ("arguments", "variables", "given"),
    [
        (["ENV=CartPole-v1"], {}, ["--env 'CartPole-v1'"]),
        (["WORKLOAD=examples/workload.toml"], {}, ["--workload-file 'examples/workload.toml'"]),
        ([], {"ENV": "production", "WORKLOAD": "heavy"}, []),
    ],
)
def test_make_accepts_workload_variables_only_on_its_command_line(arguments, variables, given):
    command = ["make", "-n", "bench", *arguments, f"PYTHON={sys.executable}"]
    done = subprocess.run(command, cwd=CHECKOUT, env={"PATH": "/usr/bin:/bin", **variables}, capture_output=True)
    (line,) = [line for line in done.stdout.decode().splitlines() if "-m suites.run" in line]
    assert [option for option in given if option in line] == given
    assert ("--env" in line or "--workload-file" in line) == bool(given)
