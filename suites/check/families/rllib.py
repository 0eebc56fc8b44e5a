"""RLlib's ReplayBuffer and PrioritizedReplayBuffer: SampleBatches of timesteps."""

from ray.rllib.policy.sample_batch import SampleBatch

OPTIONAL = ("alpha", "beta")


def make(capacity, alpha):
    return Buffer(capacity=capacity, storage_unit="timesteps", alpha=alpha)


def add(buffer, obs, act, rew, next_obs, terminated, truncated):
    ends = {"terminateds": [terminated], "truncateds": [truncated]}
    buffer.add(batch=SampleBatch({"obs": [obs], "actions": [act], "rewards": [rew], "new_obs": [next_obs], **ends}))


def add__prioritized(buffer, obs, act, rew, next_obs, terminated, truncated, priority=None):
    ends = {"terminateds": [terminated], "truncateds": [truncated]}
    row = SampleBatch({"obs": [obs], "actions": [act], "rewards": [rew], "new_obs": [next_obs], **ends})
    buffer.add(batch=row, weight=priority)


def add_batch(buffer, obs, act, rew, next_obs, terminated, truncated):
    ends = {"terminateds": terminated, "truncateds": truncated}
    buffer.add(batch=SampleBatch({"obs": obs, "actions": act, "rewards": rew, "new_obs": next_obs, **ends}))


names = {"obs": "obs", "act": "actions", "rew": "rewards", "next_obs": "new_obs", "done": "terminateds"}


def sample(buffer, n):
    batch = buffer.sample(num_items=n)
    return {name: batch[key] for name, key in names.items()}


def sample__prioritized(buffer, n, beta=0.4):
    batch = buffer.sample(num_items=n, beta=beta)
    columns = {name: batch[key] for name, key in names.items()}
    return columns | {"weights": batch["weights"], "indexes": batch["batch_indexes"]}


def update(buffer, indexes, priorities):
    buffer.update_priorities(idxes=indexes, priorities=priorities)


def size(buffer):
    return len(buffer)
