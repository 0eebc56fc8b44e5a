"""Every public name of cpprb's modules has a counterpart here, except implementation details."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import subprocess
import sys
from multiprocessing import ProcessError, get_context
from multiprocessing.managers import SyncManager

import pytest

import cpprb_impl

cpprb = pytest.importorskip("cpprb")

# Module, its names without a counterpart, and the reason.
PARTS_OF_CPPRB = {
    "VectorWrapper": (
        "PointerDouble VectorDouble VectorFloat VectorInt VectorSize_t VectorWrapper",
        "C++ vectors as arrays, for cpprb's own compiled code",
    ),
    "multiprocessing": (
        "RawArray RawValue SharedMemoryArray SharedMemoryValue ctypesArray setup_unlink",
        "cpprb's own shared memory; ours is one segment, made natively",
    ),
    "PyReplayBuffer": (
        "Environment NstepBuffer ProcessSafeRingBufferIndex RingBufferIndex SelectiveEnvironment SharedBuffer "
        "StepChecker ThreadSafePrioritizedSampler default_logger dict2buffer find_array unwrap",
        "what cpprb's buffers are made of; no buffer takes or gives one",
    ),
}


def public_names(module):
    """Return the names that a module itself defines, or that it lists in __all__."""
    own = [
        name
        for name, value in vars(module).items()
        if not name.startswith("_")
        and not inspect.ismodule(value)
        and getattr(value, "__module__", None) == module.__name__
    ]
    return sorted({*own, *getattr(module, "__all__", [])})


MODULES = [each.name for each in pkgutil.iter_modules(cpprb.__path__)]
LEFT_OUT = {(module, name) for module, (names, _) in PARTS_OF_CPPRB.items() for name in names.split()}
NAMES = [(module, name) for module in MODULES for name in public_names(importlib.import_module(f"cpprb.{module}"))]


def test_the_list_of_names_contains_what_users_import():
    assert {("HER", "HindsightReplayBuffer"), ("LaBER", "LaBERmax"), ("util", "create_env_dict")} <= set(NAMES)
    assert ("PyReplayBuffer", "ReplayBuffer") in NAMES and ("multiprocessing", "RawValue") in NAMES
    assert set(NAMES) > LEFT_OUT, "a name that cpprb hasn't needs no reason"


@pytest.mark.parametrize(("module", "name"), sorted(set(NAMES) - LEFT_OUT))
def test_each_name_has_a_counterpart(module, name):
    ours = getattr(importlib.import_module(f"cpprb_impl.{module}"), name)
    assert callable(ours)
    # A name that both packages export at the top level is the same object in its module.
    assert getattr(cpprb_impl, name, ours) is ours or name in MODULES


@pytest.mark.parametrize("name", [*cpprb.__all__, "create_env_dict", "create_before_add_func"])
def test_each_name_of_cpprb_is_exported(name):
    assert name in cpprb_impl.__all__


def test_submodules_are_available_without_their_own_import():
    says = (
        "import cpprb_impl as cpprb; print(*(m for m in 'HER LaBER util PyReplayBuffer'.split() if hasattr(cpprb, m)))"
    )
    ran = subprocess.run([sys.executable, "-c", says], capture_output=True, text=True, check=True)
    assert ran.stdout.split() == ["HER", "LaBER", "util", "PyReplayBuffer"]


def methods(kind):
    return {name for name in dir(kind) if not name.startswith("_")}


@pytest.mark.parametrize("name", [name for name in cpprb.__all__ if inspect.isclass(getattr(cpprb, name))])
def test_each_method_of_cpprb_exists(name):
    assert methods(getattr(cpprb, name)) <= methods(getattr(cpprb_impl, name))


@pytest.mark.parametrize("kind", ["MPReplayBuffer", "MPPrioritizedReplayBuffer"])
def test_a_manager_is_accepted_as_a_context(kind):
    for module in (cpprb, cpprb_impl):
        manager = SyncManager(ctx=get_context("spawn"))
        getattr(module, kind)(4, {"x": {}}, ctx=manager)
        assert manager.Value("i", 3).value == 3  # the manager works
        getattr(module, kind)(4, {"x": {}}, ctx=manager)
        manager.shutdown()
        with pytest.raises(ProcessError, match="shut down"):
            getattr(module, kind)(4, {"x": {}}, ctx=manager)
