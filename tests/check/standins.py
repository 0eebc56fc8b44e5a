"""Small classes with the APIs of the families, some with other names for arguments and methods. All are sound."""

from __future__ import annotations

import random
from collections import deque, namedtuple
from dataclasses import dataclass
from itertools import pairwise
from types import SimpleNamespace

import numpy as np

Transition = namedtuple("Transition", ("state", "action", "next_state", "reward"))
Experience = namedtuple("Experience", "state0 action reward state1 terminal1")


class Rows:
    """A ring of rows, drawn uniformly."""

    def __init__(self, capacity):
        self.rows = deque(maxlen=capacity)
        self.priorities = deque(maxlen=capacity)

    def keep(self, *row, priority=1.0):
        self.rows.append(row)
        self.priorities.append(priority)

    def draw(self, n):
        return random.choices(self.rows, k=n)

    def columns(self, n):
        return tuple(np.array(column) for column in zip(*self.draw(n), strict=True))

    def __len__(self):
        return len(self.rows)


class Sb3(Rows):
    def __init__(self, buffer_size, observation_space, action_space, device="auto", n_envs=1):
        super().__init__(buffer_size)
        self.shape = observation_space.shape

    def add(self, obs, next_obs, action, reward, done, infos):
        done = float(done[0] and not infos[0].get("TimeLimit.truncated", False))
        self.keep(obs[0], action[0], reward[0], next_obs[0], done)

    def sample(self, batch_size, env=None):
        names = ("observations", "actions", "rewards", "next_observations", "dones")
        return SimpleNamespace(**dict(zip(names, self.columns(batch_size), strict=True)))

    def size(self):
        return len(self.rows)


class Sb3WithoutInfos(Sb3):
    def add(self, obs, next_obs, action, reward, done):
        self.keep(obs[0], action[0], reward[0], next_obs[0], float(done[0]))


class Sb3Dict(Sb3):
    def __init__(self, buffer_size, observation_space: Dict, action_space, device="auto"):  # noqa: F821
        Rows.__init__(self, buffer_size)
        (self.key,) = observation_space.spaces

    def add(self, obs, next_obs, action, reward, done, infos):
        super().add(obs[self.key], next_obs[self.key], action, reward, done, infos)

    def sample(self, batch_size, env=None):
        batch = super().sample(batch_size)
        batch.observations, batch.next_observations = (
            {self.key: each} for each in (batch.observations, batch.next_observations)
        )
        return batch


class Cpprb(Rows):
    def __init__(self, size, env_dict=None, next_of=None, *, stack_compress=None, Nstep=None):  # noqa: N803
        super().__init__(size)
        self.names = [*env_dict, *([f"next_{next_of}"] if next_of else [])]

    def add(self, **row):
        self.keep(*(row[name] for name in self.names))

    def sample(self, batch_size):
        return dict(zip(self.names, self.columns(batch_size), strict=True))

    def get_stored_size(self):
        return len(self)

    def on_episode_end(self):
        pass


class CpprbPrioritized(Cpprb):
    def __init__(self, size, env_dict=None, *, alpha=0.6, eps=1e-4, **kwargs):
        super().__init__(size, env_dict, **kwargs)
        self.alpha = alpha

    def add(self, *, priorities=None, **row):
        self.keep(*(row[name] for name in self.names), priority=1.0 if priorities is None else priorities)

    def sample(self, batch_size, beta=0.4):
        weights = np.array(self.priorities) ** self.alpha
        self.indexes = random.choices(range(len(self)), weights, k=batch_size)
        batch = {name: np.array([self.rows[i][k] for i in self.indexes]) for k, name in enumerate(self.names)}
        return batch | {"weights": np.ones(batch_size), "indexes": self.indexes}

    def update_priorities(self, indexes, priorities):
        for index, priority in zip(indexes, priorities, strict=True):
            self.priorities[index] = priority


class Baselines(Rows):
    def __init__(self, size):
        super().__init__(size)

    def add(self, obs_t, action, reward, obs_tp1, done):
        self.keep(obs_t, action, reward, obs_tp1, done)

    def _encode_sample(self, indexes):
        obses_t, actions, rewards, obses_tp1, dones = zip(*(self.rows[i] for i in indexes), strict=True)
        return np.array(obses_t), np.array(actions), np.array(rewards), np.array(obses_tp1), np.array(dones)

    def sample(self, batch_size):
        return self._encode_sample(random.choices(range(len(self)), k=batch_size))


class BaselinesPrioritized(Baselines):
    def __init__(self, size, alpha):
        super().__init__(size)
        self.alpha = alpha

    def sample(self, batch_size, beta):
        indexes = random.choices(range(len(self)), np.array(self.priorities) ** self.alpha, k=batch_size)
        return tuple(list(self._encode_sample(indexes)) + [np.ones(batch_size), indexes])  # noqa: RUF005

    def update_priorities(self, idxes, priorities):
        for index, priority in zip(idxes, priorities, strict=True):
            self.priorities[index] = priority


class BaselinesStarred(BaselinesPrioritized):
    """Returns the indexes before the weights."""

    def sample(self, batch_size, beta):
        *step, weights, indices = super().sample(batch_size, beta)
        return (*step, np.array(indices), weights)


class BaselinesOfFields(Baselines):
    """Keeps columns in a dict, and names them in the constructor only."""

    def __init__(self, size):
        super().__init__(size)
        self.data = {name: [] for name in ("obs", "obs2", "act", "rew", "done")}

    def sample(self, batch_size):
        obs, act, rew, obs2, done = super().sample(batch_size)
        self.data = {"obs": obs, "obs2": obs2, "act": act, "rew": rew, "done": done}
        return {key: np.array(value) for key, value in self.data.items()}


class BaselinesOfSteps(Baselines):
    """Sums three rewards unless asked not to."""

    def __init__(self, size, n_step=3, gamma=0.99):
        super().__init__(size)
        self.window, self.gamma = deque(maxlen=n_step), gamma

    def add(self, obs, action, reward, next_obs, done):
        self.window.append((obs, action, reward, next_obs, done))
        if len(self.window) == self.window.maxlen:
            self.fold()
            self.window.popleft()
        while done and self.window:
            self.fold()
            self.window.popleft()

    def fold(self):
        reward = sum(self.gamma**k * row[2] for k, row in enumerate(self.window))
        self.keep(*self.window[0][:2], reward, *self.window[-1][3:])


class Discrete(Baselines):
    """Allocates observations, and no actions of several dimensions."""

    def __init__(self, state_dim, max_size):
        super().__init__(max_size)
        self.states = np.zeros((max_size, state_dim))

    def insert(self, s, a, r, t, s2):
        self.keep(s, a, r, s2, t)

    add = None

    def sample(self, batch_size):
        s, a, r, s2, t = super().sample(batch_size)
        return s, a, r, t, s2


@dataclass
class Batch:
    observations: np.ndarray
    actions: np.ndarray
    rewards: np.ndarray
    next_observations: np.ndarray
    terminated: np.ndarray


class OfDataclass(Baselines):
    def sample(self, batch_size):
        return Batch(*super().sample(batch_size))


class OtherOrder(Rows):
    """Baselines' API, its columns in another order than the arguments of its add."""

    def __init__(self, max_size):
        super().__init__(max_size)

    def store_transition(self, s, a, r, s_, d):
        self.keep(s_, d, s, a, r)

    def sample_batch(self, k):
        next_states, dones, states, actions, rewards = self.columns(k)
        return states, actions, next_states, rewards, dones


class Truncations(Rows):
    def __init__(self, capacity):
        super().__init__(capacity)

    def add(self, state, action, reward, next_state, terminated, truncated):
        self.keep(state, action, reward, next_state, terminated, truncated)

    def sample(self, batch_size):
        return [np.array(column) for column in zip(*self.draw(batch_size), strict=True)]


class Tutorial(Rows):
    def __init__(self, capacity):
        self.memory = deque(maxlen=capacity)

    def push(self, *args):
        self.memory.append(Transition(*args))

    def sample(self, batch_size):
        return random.sample(self.memory, batch_size)

    def __len__(self):
        return len(self.memory)


class Zipped(Tutorial):
    def push(self, state, action, reward, next_state, done):
        self.memory.append((state, action, reward, next_state, done))

    def sample(self, batch_size):
        return zip(*random.sample(self.memory, batch_size), strict=True)


class ZippedRecord(Tutorial):
    def sample(self, batch_size):
        return Transition(*zip(*random.sample(self.memory, batch_size), strict=True))


class Td3:
    def __init__(self, state_dim, action_dim, max_size=int(1e6)):
        self.max_size = max_size
        self.ptr = 0
        self.size = 0
        self.state, self.next_state = np.zeros((max_size, state_dim)), np.zeros((max_size, state_dim))
        self.action = np.zeros((max_size, action_dim))
        self.reward, self.not_done = np.zeros((max_size, 1)), np.zeros((max_size, 1))

    def add(self, state, action, next_state, reward, done):
        self.state[self.ptr], self.next_state[self.ptr] = state, next_state
        self.action[self.ptr], self.reward[self.ptr], self.not_done[self.ptr] = action, reward, 1.0 - done
        self.ptr = (self.ptr + 1) % self.max_size
        self.size = min(self.size + 1, self.max_size)

    def sample(self, batch_size):
        ind = np.random.randint(0, self.size, size=batch_size)
        return (
            np.float32(self.state[ind]),
            np.float32(self.action[ind]),
            np.float32(self.next_state[ind]),
            np.float32(self.reward[ind]),
            np.float32(self.not_done[ind]),
        )


class Td3OfFixedBatch(Td3):
    def __init__(self, state_dim, action_dim, max_size=int(1e6), batch_size=256):
        super().__init__(state_dim, action_dim, max_size)
        self.batch_size = batch_size

    def sample(self):
        states, actions, next_states, rewards, not_dones = super().sample(self.batch_size)
        return states, actions, next_states, rewards, not_dones


class Rlkit(Td3):
    def __init__(self, max_replay_buffer_size, observation_dim, action_dim, env_info_sizes):
        super().__init__(observation_dim, action_dim, max_replay_buffer_size)

    def add_sample(self, observation, action, reward, next_observation, terminal, env_info, **kwargs):
        super().add(observation, action, next_observation, reward, terminal)

    add = sample = None

    def random_batch(self, batch_size):
        states, actions, next_states, rewards, not_dones = Td3.sample(self, batch_size)
        return dict(  # noqa: C408
            observations=states,
            actions=actions,
            rewards=rewards,
            terminals=1 - not_dones,
            next_observations=next_states,
        )

    def num_steps_can_sample(self):
        return self.size


class SpinningUp:
    def __init__(self, obs_dim, act_dim, size):
        self.rows = Rows(size)
        self.ptr, self.size, self.max_size = 0, 0, size

    def store(self, obs, act, rew, next_obs, done):
        self.rows.keep(obs, act, rew, next_obs, done)
        self.size = len(self.rows)

    def sample_batch(self, batch_size=32):
        obs, act, rew, next_obs, done = self.rows.columns(batch_size)
        batch = dict(obs=obs, obs2=next_obs, act=act, rew=rew, done=done)  # noqa: C408
        return {k: np.asarray(v) for k, v in batch.items()}


class Shapes(Rows):
    def __init__(self, obs_shape, action_shape, capacity, device):
        super().__init__(capacity)

    def add(self, obs, action, reward, next_obs, done, done_no_max):
        self.keep(obs, action, reward, next_obs, not done, not done_no_max)

    def sample(self, batch_size):
        obses, actions, rewards, next_obses, not_dones, not_dones_no_max = self.columns(batch_size)
        return obses, actions, rewards, next_obses, not_dones, not_dones_no_max


class FixedBatch(Tutorial):
    def __init__(self, action_size, buffer_size, batch_size, seed):
        super().__init__(buffer_size)
        self.batch_size = batch_size

    def add(self, state, action, reward, next_state, done):
        self.memory.append((state, action, reward, next_state, done))

    push = None

    def sample(self):
        rows = random.sample(self.memory, k=self.batch_size)
        states, actions = np.vstack([row[0] for row in rows]), np.vstack([row[1] for row in rows])
        rewards, next_states = np.vstack([row[2] for row in rows]), np.vstack([row[3] for row in rows])
        dones = np.vstack([row[4] for row in rows])
        return (states, actions, rewards, next_states, dones)


class FixedBatchOfSteps(FixedBatch):
    """Stores sums of rewards over several steps, and draws by priority."""

    def __init__(
        self, capacity, batch_size, seed, gamma, n_step=1, alpha=0.6, beta_start=0.4, beta_frames=1000, parallel_env=4
    ):
        super().__init__(5, capacity, batch_size, seed)
        self.gamma, self.n_step, self.alpha, self.envs = gamma, n_step, alpha, parallel_env
        self.capacity, self.priorities, self.waiting = (
            capacity,
            deque(maxlen=capacity),
            [deque() for _ in range(self.envs)],
        )
        self.turn = 0

    def add(self, state, action, reward, next_state, done):
        steps = self.waiting[self.turn % self.envs]
        self.turn += 1
        steps.append([state, action, 0.0, next_state, done])
        for age, step in enumerate(reversed(steps)):
            step[2:] = step[2] + self.gamma**age * reward, next_state, done
        while steps and (done or len(steps) == self.n_step):
            self.memory.append(tuple(steps.popleft()))
            self.priorities.append(1.0)

    def sample(self):
        shares = np.array(self.priorities) ** self.alpha
        indices = np.random.choice(len(shares), self.batch_size, p=shares / shares.sum())
        states, actions, rewards, next_states, dones = zip(*[self.memory[each] for each in indices], strict=True)
        weights = np.ones(len(indices))
        return np.stack(states), actions, rewards, np.stack(next_states), dones, indices, weights

    def update_priorities(self, batch_indices, batch_priorities):
        for index, priority in zip(batch_indices, batch_priorities, strict=True):
            self.priorities[index] = priority


class FixedBatchOfNumbers(Rows):
    """Keeps actions as single floats, and returns a dict that has no `done`."""

    def __init__(self, obs_dim, size, batch_size=32):
        super().__init__(size)
        self.batch_size = batch_size

    def store(self, obs, act, rew, next_obs, terminated):
        self.keep(obs, np.float32(act), rew, next_obs, terminated)

    def sample_batch(self):
        obs, act, rew, next_obs, terminated = self.columns(self.batch_size)
        return dict(obs=obs, acts=act, rews=rew, next_obs=next_obs, terminated=terminated)  # noqa: C408


class Pfrl(Rows):
    def __init__(self, capacity=None, num_steps=1):
        super().__init__(capacity)

    def append(
        self, state, action, reward, next_state=None, next_action=None, is_state_terminal=False, env_id=0, **kwargs
    ):
        names = ("state", "action", "reward", "next_state", "is_state_terminal")
        self.keep(dict(zip(names, (state, action, reward, next_state, is_state_terminal), strict=True)))

    def stop_current_episode(self, env_id=0):
        pass

    def sample(self, num_experiences):
        return [list(row) for row in random.sample(self.rows, num_experiences)]


class PfrlPrioritized(Pfrl):
    def __init__(self, capacity=None, alpha=0.6, beta0=0.4, betasteps=2e5, eps=0.01, num_steps=1):
        super().__init__(capacity)
        self.memory = self

    def sample(self, n):
        shares = np.array(self.priorities) / sum(self.priorities)
        self.sampled_indices = np.random.choice(len(self), n, replace=False, p=shares)
        return [[self.rows[index][0] | {"weight": 1.0}] for index in self.sampled_indices]

    def update_errors(self, errors):
        for index, error in zip(self.sampled_indices, errors, strict=True):
            self.priorities[index] = error


class KerasRl(Rows):
    def __init__(self, limit, **kwargs):
        super().__init__(limit + 2)  # the last observations of two episodes are stored, too

    def append(self, observation, action, reward, terminal, training=True):
        self.keep(observation, action, reward, terminal)

    def sample(self, batch_size, batch_idxs=None):
        rows = list(self.rows)
        pairs = [(a, b) for before, a, b in zip(rows, rows[1:], rows[2:], strict=False) if not before[3]]
        return [Experience([a[0]], a[1], a[2], [b[0]], a[3]) for a, b in random.choices(pairs, k=batch_size)]

    @property
    def nb_entries(self):
        return len(self.rows)

    __len__ = None


class Dopamine(Rows):
    def __init__(
        self,
        observation_shape,
        stack_size,
        replay_capacity,
        batch_size,
        update_horizon=1,
        gamma=0.99,
        observation_dtype=np.uint8,
        action_shape=(),
        action_dtype=np.int32,
    ):
        super().__init__(replay_capacity)
        self.add_count, self._replay_capacity = np.array(0), replay_capacity

    def add(self, observation, action, reward, terminal, *args, priority=None, episode_end=False):
        self.keep(observation, action, reward, terminal)
        self.add_count += 1

    def get_transition_elements(self, batch_size=None):
        return [SimpleNamespace(name=name) for name in ("state", "action", "reward", "next_state", "terminal")]

    def sample_transition_batch(self, batch_size=None, indices=None):
        rows = list(self.rows)
        pairs = random.choices(list(pairwise(rows)), k=batch_size)
        states, nexts = (np.array([pair[i][0] for pair in pairs])[..., None] for i in (0, 1))
        actions, rewards, terminals = (np.array([pair[0][k] for pair in pairs]) for k in (1, 2, 3))
        return states, actions, rewards, nexts, terminals


class Jaxrl(Rows):
    def __init__(self, observation_space, action_space, capacity):
        super().__init__(capacity)
        self.size = 0

    def insert(self, observation, action, reward, mask, done_float, next_observation):
        self.keep(observation, action, reward, mask, next_observation)
        self.size = len(self.rows)

    def sample(self, batch_size):
        names = ("observations", "actions", "rewards", "masks", "next_observations")
        return SimpleNamespace(**dict(zip(names, self.columns(batch_size), strict=True)))

    __len__ = None


class JaxrlOfNumber(Jaxrl):
    def __init__(self, observation_space, action_dim, capacity):
        super().__init__(observation_space, None, capacity)


class WholeSteps(Rows):
    def __init__(self, max_size):
        super().__init__(max_size)

    def add(self, experience):
        self.keep(*experience)

    def sample(self, batch_size):
        return [self.rows[i] for i in np.random.choice(len(self.rows), batch_size, replace=False)]


class WholeStepsUnpacked(Rows):
    """The step's done is before its next state."""

    def append(self, experience):
        self.keep(*experience)

    def sample(self, batch_size):
        states, actions, rewards, dones, next_states = zip(*self.draw(batch_size), strict=True)
        return np.array(states), np.array(actions), np.array(rewards), np.array(dones), np.array(next_states)


class WholeStepsInLists(Rows):
    def __init__(self, buffer_limit):
        super().__init__(buffer_limit)

    def put(self, transition):
        self.keep(*transition)

    def sample(self, n):
        s_lst, a_lst, r_lst, s_prime_lst, done_mask_lst = [], [], [], [], []
        for step in self.draw(n):
            s, a, r, s_prime, done_mask = step
            s_lst.append(s)
            a_lst.append([a])
            r_lst.append([r])
            s_prime_lst.append(s_prime)
            done_mask_lst.append([done_mask])
        return np.array(s_lst), np.array(a_lst), np.array(r_lst), np.array(s_prime_lst), np.array(done_mask_lst)

    def size(self):
        return len(self.rows)


class OfErrors(Rows):
    """A step is added with its error, and errors are updated one by one."""

    tree = property(lambda self: SimpleNamespace(n_entries=len(self.rows)))

    def add(self, error, sample):
        self.keep(*sample, priority=(error + 0.01) ** 0.6)

    def sample(self, n):
        indexes = random.choices(range(len(self.rows)), self.priorities, k=n)
        return [self.rows[i] for i in indexes], indexes, np.ones(n)

    def update(self, idx, error):
        self.priorities[idx] = (error + 0.01) ** 0.6


class NeedsConfiguration(Baselines):
    def __init__(self, size, configuration):
        super().__init__(size)
