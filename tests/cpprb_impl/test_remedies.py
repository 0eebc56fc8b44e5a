"""Errors caused by the machine name what is missing, and say what to do."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

import cpprb_impl

PACKAGE = Path(cpprb_impl.__file__).parent
SMALL_SHM = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c"]
MOUNT = "mount -t tmpfs -o size=8m tmpfs /dev/shm"
REMEDY = r"but /dev/shm has .* free: give a container more with docker run --shm-size=8g .*, or make the buffer smaller"
FRAMES = "{'obs': {'shape': (64, 64, 4), 'dtype': 'u1'}}, next_of='obs', stack_compress='obs'"
FULL = {
    "MPReplayBuffer": "MPReplayBuffer(10**7, {'x': {}})",
    "MPPrioritizedReplayBuffer": "MPPrioritizedReplayBuffer(10**7, {'x': {}})",
    "frames, which need more with each step": f"""
b = MPReplayBuffer(2000, {FRAMES})
for at in range(2000):
    obs = np.random.randint(0, 255, (64, 64, 4), 'u1')
    b.add(obs=obs, next_obs=obs)
""",
}


def in_small_shm(code: str) -> subprocess.CompletedProcess[str]:
    program = f"import warnings; warnings.simplefilter('ignore')\nimport numpy as np\nfrom cpprb_impl import *\n{code}"
    command = [*SMALL_SHM, f'{MOUNT} && exec "$0" -c "$1"', sys.executable, program]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


@pytest.mark.parametrize("code", FULL.values(), ids=FULL)
def test_the_error_for_a_small_dev_shm_says_how_to_enlarge_it(code):
    if in_small_shm("").returncode != 0:
        pytest.skip("no mount namespace can be made here")
    done = in_small_shm(f"try:\n    exec({code!r})\nexcept OSError as error:\n    print(error)")
    assert done.returncode == 0, done.stderr
    assert re.search(REMEDY, done.stdout)


@pytest.fixture
def sources(tmp_path) -> Path:
    """Return a checkout in which nothing is built."""
    shutil.copytree(PACKAGE, tmp_path / "cpprb_impl", ignore=shutil.ignore_patterns("*.so", "__pycache__"))
    return tmp_path


def import_from(folder: Path, module: str) -> str:
    """Return the last line of the error. Runs without `site`, which would find the build of this environment."""
    code = f"import sys; sys.path[:0] = [{str(folder)!r}, {sysconfig.get_path('purelib')!r}]; import {module}"
    done = subprocess.run([sys.executable, "-S", "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    return done.stderr.splitlines()[-1]


@pytest.mark.parametrize("module", ["cpprb_impl", "cpprb_impl.sb3", "cpprb_impl.ray", "cpprb_impl._native"])
def test_importing_unbuilt_sources_says_what_to_run(module, sources):
    error = import_from(sources, module)
    suffix = sysconfig.get_config_var("EXT_SUFFIX")
    what = f"cpprb_impl must be built before it is imported, and {sources}/cpprb_impl has no _native{suffix}"
    assert error.startswith(f"ModuleNotFoundError: {what}: run `make setup` in {sources} and use its ")
    assert "`pip install .`" in error


def test_a_build_for_another_python_is_reported(sources):
    (sources / "cpprb_impl" / "_native.cpython-39-x86_64-linux-gnu.so").touch()
    assert "cpython-39-x86_64-linux-gnu.so, which is for a different Python" in import_from(sources, "cpprb_impl")


def test_the_error_names_a_different_missing_module(sources):
    (sources / "cpprb_impl" / "_native.py").write_text("import no_such_module")
    error = import_from(sources, "cpprb_impl").partition(".")[0]  # Python 3.15 appends a hint
    assert error == "ModuleNotFoundError: No module named 'no_such_module'"
