"""A small sound buffer, and variants that are wrong in one way each: negative controls for every conformance check."""

from __future__ import annotations

import numpy as np

from adapters.base import Adapter, Spec, Step
from adapters.contract import Contract, Returns, RowFields, Stated, no, yes


class Sound(Adapter):
    name = "sound"
    distribution = None
    usage = "made for the tests"
    contract = Contract(
        batch_add=yes(),
        fields=Stated(RowFields.FIXED),
        priorities=yes(),
        returns=Stated(Returns.COLUMNS),
        n_step=no(),
        disk=no(),
        framework="NumPy",
        licence="none",
    )

    def __init__(self, spec: Spec) -> None:
        self.spec, self.fields, self.added, self.largest = spec, spec.fields, 0, 1.0
        self.random = np.random.default_rng(spec.seed)
        self.raw = np.zeros(spec.capacity)
        self.columns = {name: np.zeros((spec.capacity, *f.shape), self.stored(f)) for name, f in spec.fields.items()}

    def stored(self, field):
        return field.dtype

    def places(self, rows):
        return (self.added + np.arange(rows)) % self.spec.capacity

    def add(self, steps) -> None:
        for step in steps:
            self.add_batch({name: np.asarray(value)[None] for name, value in zip(Step._fields, step, strict=True)})

    def add_with_priorities(self, steps, priorities) -> None:
        for step, priority in zip(steps, priorities, strict=True):
            columns = {name: np.asarray(value)[None] for name, value in zip(Step._fields, step, strict=True)}
            self.add_batch(columns, np.array([priority]))

    def add_batch(self, columns, priorities=None) -> None:
        places = self.places(len(columns["done"]))
        for name, column in columns.items():
            self.columns[name][places] = column
        self.raw[places] = self.default() if priorities is None else priorities
        self.largest = max(self.largest, self.raw[places].max())
        self.added += len(places)

    def default(self):
        return self.largest

    def shares(self):
        shares = self.raw[: len(self)] ** self.spec.alpha
        return shares / shares.sum()

    def pick(self, size):
        if len(self) == 0:
            raise ValueError("empty")
        return self.random.choice(len(self), size, p=self.shares() if self.spec.prioritized else None)

    def sample(self, size):
        places = self.pick(size)
        batch = {name: column[places] for name, column in self.columns.items()}
        if self.spec.prioritized:
            batch |= {"indexes": places, "weights": self.weights(places)}
        return batch

    def weights(self, places):
        shares = self.shares()
        return (shares[places] / shares.min()) ** -self.spec.beta

    def update_priorities(self, indexes, priorities) -> None:
        if not (np.isfinite(priorities) & (priorities >= 0)).all():
            raise ValueError("a priority must be finite and not negative")
        self.raw[indexes] = priorities
        self.largest = max(self.largest, np.max(priorities))

    def __len__(self) -> int:
        return min(self.added, self.spec.capacity)


class Rounding(Sound):
    def stored(self, field):
        return "float32" if field.dtype == "float64" else field.dtype

    def sample(self, size):
        batch = super().sample(size)
        return batch | {name: batch[name].astype(self.fields[name].dtype) for name in self.fields}


class Swapping(Sound):
    """Returns rows whose fields belong to two different rows."""

    def sample(self, size):
        batch = super().sample(size)
        return batch | {"next_obs": batch["next_obs"][::-1].copy()}


class Widening(Sound):
    def sample(self, size):
        batch = super().sample(size)
        return batch | {"rew": batch["rew"].astype(np.float64)}


class Flattening(Sound):
    def sample(self, size):
        batch = super().sample(size)
        return batch | {name: batch[name].reshape(size, -1) for name in ("obs", "next_obs")}


class OverwritingNewest(Sound):
    def places(self, rows):
        return np.minimum(self.added + np.arange(rows), self.spec.capacity - 1)


class Viewing(Sound):
    """Reuses the memory of a batch for the next batch."""

    def sample(self, size):
        batch = super().sample(size)
        kept = getattr(self, "kept", {})
        if len(kept.get("obs", ())) != size:
            self.kept = kept = batch
        for name, column in batch.items():
            kept[name][...] = column
        return dict(kept)


class ViewingLater(Viewing):
    """Returns two independent batches, then reuses their memory, which a check of the first two would not detect."""

    sampled = 0

    def sample(self, size):
        self.sampled += 1
        return super().sample(size) if self.sampled > 2 else Sound.sample(self, size)


class Exposing(Sound):
    """Returns a batch that is a view of the stored rows."""

    def sample(self, size):
        first = int(self.random.integers(0, len(self) - size + 1))
        batch = super().sample(size)
        return batch | {name: self.columns[name][first : first + size] for name in self.fields}


class Keeping(Sound):
    def add(self, steps) -> None:
        super().add(steps)
        self.rows = [step.obs for step in steps]

    def sample(self, size):
        for place, row in enumerate(getattr(self, "rows", ())):
            self.columns["obs"][place] = row
        return super().sample(size)


class Favouring(Sound):
    """Draws the first slot three times as often."""

    def pick(self, size):
        places = super().pick(size)
        return np.where(self.random.random(size) < 2 / (len(self) + 2), 0, places)


class Uniform(Sound):
    """Accepts priorities, but draws all rows with equal probability."""

    def pick(self, size):
        return self.random.integers(0, len(self), size)


class AlphaTwice(Sound):
    def shares(self):
        shares = self.raw[: len(self)] ** (self.spec.alpha**2)
        return shares / shares.sum()


class DeafToUpdates(Sound):
    def update_priorities(self, indexes, priorities) -> None:
        pass


class DeafToTheLast(Sound):
    """Ignores the last of the new priorities of each batch."""

    def update_priorities(self, indexes, priorities) -> None:
        super().update_priorities(indexes[:-1], priorities[:-1])


class WithoutLast(Sound):
    def shares(self):
        shares = super().shares()
        if len(shares) == self.spec.capacity:
            shares[-1] = 0
        return shares / shares.sum()

    def weights(self, places):
        shares = Sound.shares(self)
        return (shares[places] / shares.min()) ** -self.spec.beta


class OneForTheNew(Sound):
    def default(self):
        return 1.0


class DeafToGiven(Sound):
    def add_with_priorities(self, steps, priorities) -> None:
        self.add(steps)


class OverBatch(Sound):
    def weights(self, places):
        mine = self.shares()[places]
        return (mine / mine.min()) ** -self.spec.beta


class WrongBeta(Sound):
    def weights(self, places):
        return super().weights(places) ** 2


class Distinct(Sound):
    def pick(self, size):
        shares = self.shares() if self.spec.prioritized else None
        return self.random.choice(len(self), size, replace=False, p=shares)


class Seedless(Sound):
    def __init__(self, spec):
        super().__init__(spec)
        self.random = np.random.default_rng()


class Obstinate(Sound):
    def __init__(self, spec):
        super().__init__(spec)
        self.random = np.random.default_rng(0)


class Careful(Sound):
    """Ignores late updates, which is the opposite of its stated behaviour."""

    def sample(self, size):
        batch = super().sample(size)
        return batch | {"indexes": batch["indexes"] + 1000 * self.added} if "indexes" in batch else batch

    def update_priorities(self, indexes, priorities) -> None:
        added, places = np.divmod(indexes, 1000)
        age = (added - 1 - places) % self.spec.capacity
        fresh = self.added - added + age < self.spec.capacity
        super().update_priorities(places[fresh], priorities[fresh])


class Inventing(Sound):
    """Returns rows of zeros before any row was added."""

    def pick(self, size):
        return np.zeros(size, int) if len(self) == 0 else super().pick(size)

    def weights(self, places):
        return np.ones(len(places)) if len(self) == 0 else super().weights(places)


class Strict(Sound):
    def pick(self, size):
        if size > len(self):
            raise ValueError("more than are stored")
        return super().pick(size)


class TakingNan(Sound):
    """Accepts any priority, as an unchecked sum in C would: afterwards, only one row is drawn."""

    def update_priorities(self, indexes, priorities) -> None:
        self.raw[indexes] = priorities

    def pick(self, size):
        shares = self.shares() if self.spec.prioritized else np.ones(len(self))
        return super().pick(size) if np.isfinite(shares).all() and (shares >= 0).all() else np.zeros(size, int)
