"""How a class is called is read from its constructor, methods and signatures, and said in words."""

from __future__ import annotations

import re
import textwrap
from pathlib import Path
from typing import Any

import pytest

from suites.check import reproduction
from suites.check.checks import refusal
from suites.check.fitting import fit
from suites.check.functions import BadFunctions, load
from suites.check.recognise import ALIASES, FOLDER, _fits, _known, families, import_line, imported, recognise
from suites.check.returns import counter, returned
from suites.check.subject import Subject
from tests.check import standins


class Tianshou:
    def __init__(self, size, stack_num=1, ignore_obs_next=False, random_seed=42, **kwargs): ...
    def add(self, batch, buffer_ids=None): ...
    def sample(self, batch_size): ...
    def __len__(self): ...


class TianshouVector(Tianshou):
    def __init__(self, total_size, buffer_num, **kwargs): ...


class TorchRLUniform:
    def __init__(self, *, storage=None, sampler=None, generator=None, batch_size=None): ...
    def add(self, data): ...
    def extend(self, data): ...
    def sample(self, batch_size=None, return_info=False): ...
    def update_priority(self, index, priority): ...
    def __len__(self): ...


class TorchRLTensorDict(TorchRLUniform):
    def __init__(self, *, priority_key="td_error", **kwargs): ...


class TorchRLPrioritized(TorchRLUniform):
    def __init__(self, *, alpha, beta, storage=None, generator=None): ...


class RLlib:
    def __init__(self, capacity=10_000, storage_unit="timesteps", **kwargs): ...
    def add(self, batch, **kwargs): ...
    def sample(self, num_items=None, **kwargs): ...
    def __len__(self): ...


class RLlibEpisodes:
    def __init__(self, capacity=10_000, *, batch_size_B=16, batch_length_T=64, **kwargs): ...  # noqa: N803
    def add(self, episodes): ...
    def sample(self, num_items=None, *, n_step=None, beta=0.0, sample_episodes=False, **kwargs): ...
    def get_num_timesteps(self, module_id=None): ...


class D3rlpy:
    def __init__(
        self,
        buffer,
        transition_picker=None,
        observation_signature=None,
        action_signature=None,
        reward_signature=None,
        action_space=None,
        action_size=None,
    ): ...
    def append(self, observation, action, reward): ...
    def clip_episode(self, terminated): ...
    def sample_transition_batch(self, batch_size): ...


def make_flat_buffer(max_length, min_length, sample_batch_size, add_sequences=False, add_batch_size=None): ...


def make_prioritised_item_buffer(
    max_length, min_length, sample_batch_size, add_sequences=False, add_batches=False, priority_exponent=0.6
): ...


#: class or function -> family, of which the module is not imported here
SIGNATURES = {
    Tianshou: "tianshou",
    TianshouVector: "tianshou",
    TorchRLUniform: "torchrl",
    TorchRLTensorDict: "torchrl",
    TorchRLPrioritized: "torchrl",
    RLlib: "rllib",
    RLlibEpisodes: "rllib_episodes",
    D3rlpy: "d3rlpy",
    make_flat_buffer: "flashbax_flat",
    make_prioritised_item_buffer: "flashbax_prioritised_item",
}


def fits(buffer: Any) -> dict[str, Any]:
    found = {}
    for family in families():
        try:
            found[family] = fit((FOLDER / f"{family}.py").read_text(), buffer)
        except Exception as error:
            assert type(error).__name__ == "Misfit"
    return found


@pytest.mark.parametrize("buffer", SIGNATURES, ids=lambda each: each.__name__)
def test_family_is_chosen_by_signatures(buffer: Any) -> None:
    found = fits(buffer)
    assert max(found, key=lambda each: found[each].closeness) == SIGNATURES[buffer]


def test_arguments_that_parents_take_are_passed() -> None:
    found = fits(TianshouVector)["tianshou"]
    assert "total_size=capacity, buffer_num=envs, stack_num=stack, random_seed=seed" in found.source


def test_unknown_arguments_are_not_passed_through_keywords_that_the_parent_refuses() -> None:
    assert "alpha=alpha" not in fits(TorchRLTensorDict)["torchrl"].source
    assert "sampler=PrioritizedSampler" in fits(TorchRLTensorDict)["torchrl"].source
    assert "alpha=alpha" in fits(TorchRLPrioritized)["torchrl"].source


def test_options_that_a_class_lacks_are_not_offered() -> None:
    functions = recognise(standins.Cpprb).functions
    assert not functions.accepts("make", "alpha") and functions.accepts("make", "obs_shape")
    assert "next_of" in functions.ways
    assert "optimize_memory_usage" not in recognise(standins.Sb3).functions.ways


def test_sample_without_a_size_fits_only_a_class_with_a_batch_size() -> None:
    assert "buffer.batch_size = n" in fits(standins.Td3OfFixedBatch)["arrays"].source

    class NoSize(standins.Td3):
        def sample(self): ...

    assert "arrays" not in fits(NoSize)


def test_time_limits_are_not_offered_if_a_class_takes_no_infos() -> None:
    assert recognise(standins.Sb3).functions.accepts("add", "truncated")
    assert not recognise(standins.Sb3WithoutInfos).functions.accepts("add", "truncated")


def test_reason_shows_the_calls_and_what_is_left_out() -> None:
    called = recognise(standins.OtherOrder).called
    assert called.startswith("OtherOrder is called like baselines (OpenAI Baselines'")
    assert "Buffer(max_size=capacity); buffer.store_transition(s=obs, a=act, r=rew, s_=next_obs, d=done)" in called
    assert "its names for size (max_size)" in called and "without update" in called
    assert "without infos, update" not in called


def test_columns_are_read_from_the_source() -> None:
    assert returned(standins.OtherOrder, "sample_batch").columns == ("obs", "act", "next_obs", "rew", "done")
    assert returned(standins.Baselines, "sample").columns == ("obs", "act", "rew", "next_obs", "done")
    assert returned(standins.Td3, "sample").columns == ("obs", "act", "next_obs", "rew", "not_done")
    assert returned(standins.Shapes, "sample").columns[-2:] == ("not_ended", "not_done")
    assert returned(standins.SpinningUp, "sample_batch").columns["next_obs"] == "obs2"
    assert returned(standins.Tutorial, "sample").kind == "rows"
    assert returned(standins.Zipped, "sample").kind == "columns"
    assert returned(standins.ZippedRecord, "sample").columns == ("obs", "act", "next_obs", "rew")
    assert returned(standins.BaselinesStarred, "sample").columns == ("step", "indexes", "weights")
    assert returned(standins.BaselinesPrioritized, "sample").columns == ("step", "weights", "indexes")
    assert returned(standins.OfDataclass, "sample").columns["next_obs"] == "next_observations"
    assert returned(standins.BaselinesOfFields, "sample").columns["next_obs"] == "obs2"


def test_attribute_that_counts_rows_is_not_the_capacity() -> None:
    class Capacity:
        def __init__(self, size):
            self.size = size

    assert counter(standins.SpinningUp) == "size" and counter(Capacity) == ""


def test_misfit_names_what_is_missing_in_each_family() -> None:
    with pytest.raises(BadFunctions) as error:
        recognise(standins.NeedsConfiguration)
    text = str(error.value)
    assert re.search(r"baselines, .*memory.*: its constructor requires an argument configuration", text)
    assert all(re.search(rf"\b{family}\b", text) for family in families())


@pytest.mark.parametrize("like", [None, "sb3"])
def test_class_of_no_family_gets_a_file_to_fill_in(like: str | None) -> None:
    with pytest.raises(BadFunctions) as error:
        recognise(standins.NeedsConfiguration, like)
    file, _, more = str(error.value).partition("BUFFER=path/to/file.py\n")[2].rpartition("\n")
    functions = load(textwrap.dedent(file), "file.py").named
    assert "docs/check-own-api.md" in more and {*functions} == {"make", "add", "sample", "update", "size"}
    assert functions["make"].__globals__["Buffer"] is standins.NeedsConfiguration
    assert "return Buffer(size, configuration)" in file


def test_family_can_be_forced() -> None:
    assert recognise(standins.Zipped, "baselines").functions.family == "baselines"
    assert {recognise(standins.Td3, name).functions.family for name in ("TD3", "spinningup", "arrays")} == {"arrays"}
    assert all(_known(name) for name in ALIASES)


@pytest.mark.parametrize(
    ("name", "first"),
    [
        ("stable-baselines3", "sb3"),
        ("stable_baselines3", "sb3"),
        ("flashbax", "flashbax_flat"),
        ("dopamine-rl", "dopamine"),
        ("keras-rl", "keras_rl"),
        ("ray", "rllib"),
        ("SpinningUp", "arrays"),
        ("her", "sb3_her"),
        ("flashbax_item", "flashbax_item"),
    ],
)
def test_library_finds_its_families_by_the_name_on_pypi_and_the_imported_one(name: str, first: str) -> None:
    assert _known(name)[0] == first


def test_of_several_families_of_a_library_the_one_that_fits_is_taken() -> None:
    found, _ = _fits(make_prioritised_item_buffer, _known("flashbax"))
    assert max(found, key=lambda each: found[each].closeness) == "flashbax_prioritised_item"
    with pytest.raises(BadFunctions, match=r"like flashbax:\n    flashbax_flat, .*no argument min_length\n"):
        recognise(standins.Tutorial, "flashbax")


def test_forced_family_that_does_not_fit_says_why() -> None:
    with pytest.raises(
        BadFunctions, match=r"Tutorial cannot be called like cpprb:\n    cpprb: .* has no argument env_dict"
    ):
        recognise(standins.Tutorial, "cpprb")


def test_unknown_family_lists_the_known_ones() -> None:
    with pytest.raises(BadFunctions, match=r"LIKE must be one of arrays, .*torchrl.*, or a file, got 'sb4'"):
        recognise(standins.Tutorial, "sb4")


OWN = """
def make(capacity):
    return Buffer(capacity, {})
def add(buffer, obs, act, rew, next_obs, done):
    buffer.add(obs, act, rew, next_obs, done)
def sample(buffer, size):
    obs, act, rew, next_obs, done = buffer.sample(size)
    return {"obs": obs, "act": act, "rew": rew, "next_obs": next_obs, "done": done}
"""


def test_functions_of_a_file_are_used(tmp_path: Path) -> None:
    path = tmp_path / "mine.py"
    path.write_text(OWN)
    found = recognise(standins.NeedsConfiguration, str(path))
    functions = found.functions
    assert functions.family == "" and found.called == f"NeedsConfiguration is called as {path} says"
    assert not functions.has("update")
    buffer = Subject(functions).make(4)
    buffer.add(obs=1.0, act=2, rew=3.0, next_obs=4.0)
    assert buffer.sample(2)["rew"].tolist() == [3, 3]


def test_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(BadFunctions, match=r"LIKE=.*mine.py cannot be read: .*No such file"):
        recognise(standins.Baselines, str(tmp_path / "mine.py"))


def test_class_of_a_project_is_imported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "their_replay.py").write_text("class Outer:\n    class Ring: ...\ndef lazily(): ...\nlimit = 3\n")
    assert imported("their_replay:Outer.Ring").__name__ == "Ring"
    assert imported("their_replay:lazily").__name__ == "lazily"
    with pytest.raises(BadFunctions, match=r"module their_replay has no 'Outr'; did you mean Outer\?"):
        imported("their_replay:Outr")
    with pytest.raises(BadFunctions, match=r"module their_replay has no 'zzz'$"):
        imported("their_replay:zzz")
    with pytest.raises(BadFunctions, match=r"their_replay:limit must be a class or a function .*, got int"):
        imported("their_replay:limit")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("raise SystemExit(3)", "SystemExit: 3"),
        ("import nothing_of_this_name", "ModuleNotFoundError: No module named 'nothing_of_this_name'"),
        ("1 / 0", "ZeroDivisionError"),
        ("def", "SyntaxError"),
    ],
)
def test_module_that_does_not_import_says_why(
    text: str, says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    name = f"broken_{abs(hash(text))}"
    (tmp_path / f"{name}.py").write_text(text)
    with pytest.raises(BadFunctions, match=f"module {name} cannot be imported: {says}"):
        imported(f"{name}:Ring")


@pytest.mark.parametrize("text", ["replay", "replay:", ":Ring", ""])
def test_text_without_class_is_refused(text: str) -> None:
    with pytest.raises(BadFunctions, match=f"BUFFER must be module:Class, got '{text}'"):
        imported(text)


def test_import_line_of_a_nested_class() -> None:
    assert import_line("a.b:Ring") == "from a.b import Ring as Buffer"
    assert import_line("a.b:Outer.Ring") == "from a.b import Outer; Buffer = Outer.Ring"


#: the most lines of the functions of a family in a script, without the body
LINES = {"sb3": 10, "baselines": 9, "memory": 9, "arrays": 12, "fixed_batch": 10, "keras_rl": 17, "cpprb": 15}


@pytest.mark.parametrize("buffer", [standins.Sb3, standins.Baselines, standins.Tutorial, standins.Td3, standins.Cpprb])
def test_script_of_a_family_is_short_and_runs(buffer: type) -> None:
    functions = recognise(buffer).functions
    subject = Subject(functions)
    body = [
        f"b = {reproduction.made(subject, 8)}",
        "for i in range(12):",
        f"    {reproduction.added(subject)}",
        "rows = {int(each) for _ in range(50) for each in np.ravel(sample(b, 4)['rew'])}",
        "assert rows == {4, 5, 6, 7, 8, 9, 10, 11}, rows",
    ]
    text = reproduction.script(functions, body)
    assert len(text.splitlines()) <= LINES[functions.family] + len(body)
    exec(compile(text, "script", "exec"), {})


def test_class_is_imported_in_a_script_as_the_user_named_it() -> None:
    found = recognise("tests.check.standins:Baselines")
    assert found.functions.imported == "from tests.check.standins import Baselines as Buffer"
    assert found.called.startswith("Baselines is called like baselines (")


def test_rows_are_not_missed_whose_places_final_observations_take() -> None:
    functions = recognise(standins.KerasRl).functions
    assert refusal("stored_rows", functions) == refusal("round_trip", functions) is not None
    assert refusal("next_observation", functions) is None
    assert refusal("stored_rows", recognise(standins.Dopamine).functions) is None
