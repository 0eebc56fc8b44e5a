import numpy as np
import pytest

from suites import cartpole, workloads

COUNT = 300


@pytest.mark.parametrize("name", workloads.NAMES)
def test_a_recording_is_a_function_of_its_seed(name, tmp_path):
    first = workloads.load(name, COUNT, seed=1, cache=tmp_path / "a")
    again = workloads.load(name, COUNT, seed=1, cache=tmp_path / "b")
    other = workloads.load(name, COUNT, seed=2, cache=tmp_path / "a")
    assert first.sha256 == again.sha256 != other.sha256
    assert all(np.array_equal(first.columns[key], again.columns[key]) for key in first.columns)
    assert first.transitions == COUNT
    assert first.row_bytes == sum(column.nbytes for column in first.columns.values()) // COUNT


@pytest.mark.parametrize("name", workloads.NAMES)
def test_the_cache_gives_back_what_was_recorded(name, tmp_path):
    recorded = workloads.load(name, COUNT, cache=tmp_path)
    cached = workloads.load(name, COUNT, cache=tmp_path)
    assert cached.sha256 == recorded.sha256
    assert all(np.array_equal(recorded.columns[key], cached.columns[key]) for key in recorded.columns)
    assert len(list(tmp_path.iterdir())) == 1


@pytest.mark.parametrize("damage", ["flipped", "cut", "empty", "swapped"])
def test_a_damaged_cache_is_recorded_again(damage, tmp_path, capfd):
    sound = workloads.load("CartPole-v1", COUNT, cache=tmp_path)
    (file,) = tmp_path.iterdir()
    whole = file.read_bytes()
    if damage == "flipped":
        file.write_bytes(whole[: len(whole) // 2] + bytes([whole[len(whole) // 2] ^ 1]) + whole[len(whole) // 2 + 1 :])
    elif damage == "cut":
        file.write_bytes(whole[:-100])
    elif damage == "empty":
        file.write_bytes(b"")
    else:  # a whole file, but not what its checksum says
        raw = dict(np.load(file))
        raw["rew"] = raw["rew"] + 1
        np.savez_compressed(file, **raw)
    again = workloads.load("CartPole-v1", COUNT, cache=tmp_path)
    assert again.sha256 == sound.sha256
    assert "recording it again" in capfd.readouterr().err
    workloads.load("CartPole-v1", COUNT, cache=tmp_path)
    assert capfd.readouterr().err == ""


def test_seaquest_is_what_gymnasium_stacks(tmp_path):
    from gymnasium.wrappers import FrameStackObservation

    workload = workloads.load("ALE/Seaquest-v5", 800, seed=3, cache=tmp_path)
    assert workload.fields["obs"].shape == (84, 84, 4) and workload.fields["obs"].dtype == "uint8"
    assert workload.columns["done"].any(), "the recording should span episodes"
    env = FrameStackObservation(workloads.RECIPES[workload.name].make(), stack_size=4)
    obs, _ = env.reset(seed=3)
    for row in range(workload.transitions):
        assert np.array_equal(np.moveaxis(obs, 0, -1), workload.columns["obs"][row])
        obs, rew, terminated, truncated, _ = env.step(workload.columns["act"][row])
        assert np.array_equal(np.moveaxis(obs, 0, -1), workload.columns["next_obs"][row])
        assert rew == workload.columns["rew"][row]
        assert (terminated or truncated) == workload.columns["done"][row]
        if terminated or truncated:
            obs, _ = env.reset()


@pytest.mark.parametrize("name", workloads.NAMES)
def test_steps_are_the_columns_row_by_row(name, tmp_path):
    workload = workloads.load(name, COUNT, cache=tmp_path)
    steps = workload.steps()
    assert len(steps) == COUNT
    for row, step in enumerate(steps):
        for key, value in step._asdict().items():
            assert np.array_equal(value, workload.columns[key][row])
        assert type(step.rew) is float and type(step.done) is bool
        assert isinstance(step.act, int) or step.act.dtype == np.float32
        assert step.obs.base is None and step.obs.dtype == workload.columns["obs"].dtype
    assert steps[0].next_obs is steps[1].obs


def test_an_unknown_workload_is_answered_with_the_known_ones(tmp_path):
    with pytest.raises(ValueError, match=r"unknown workload 'Pong'.*CartPole-v1.*Pendulum-v1.*ALE/Seaquest-v5"):
        workloads.load("Pong", cache=tmp_path)


def test_cartpole_tells_real_steps_from_torn_ones(tmp_path):
    rows = workloads.load("CartPole-v1", COUNT, cache=tmp_path).columns
    assert cartpole.is_step(rows).all()
    for key in ("obs", "next_obs"):
        torn = rows | {key: np.roll(rows[key], 1, axis=0)}
        assert not cartpole.is_step(torn).any()
    assert not cartpole.is_step(rows | {"act": 1 - rows["act"]}).any()
    assert not cartpole.is_step(rows | {"done": ~rows["done"]}).any()
    assert not cartpole.is_step({key: np.zeros_like(column) for key, column in rows.items()}).any()
    as_columns = {key: column.reshape(COUNT, -1) for key, column in rows.items()}
    assert cartpole.is_step(as_columns).all()
