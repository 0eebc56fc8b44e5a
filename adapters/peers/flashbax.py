"""Flashbax: replay buffers as pure functions on JAX arrays, on the CPU.

Rows are whole transitions, so the item buffer is used, as its README advises ("Independent Data Usage").

- "flashbax" is tuned: each function is compiled, and the buffer's state is donated, so that it is updated in place
  (README, "In-place Updating of Buffer State", and the quickstart notebooks). The compiled sample also splits the key
  and computes the importance weights, as in `examples/anakin_prioritised_dqn_example.ipynb`.
- "flashbax[naive]" is compiled without donation, so that each add copies the whole buffer.
- "flashbax[jitted step]" runs a learner's whole step in one compiled function, as that notebook does: it stacks and
  adds the rows, samples, and sets the new priorities. With 10^5 prioritized CartPole rows, a step with 16 adds takes
  half as long this way, a step with 4 adds the same time, and a step with a single add 1.6 times as long.
- The README's quickstart, which compiles nothing, is not measured: each prioritized call takes half a second, because
  its loop is compiled again every time.

JAX compiles a function once for each shape of its arguments, so the first add and sample of each batch size take up to
several seconds. The throughput figures exclude that time, since they are measured after a warm-up. Calls return before
their work is done, so an add waits for its last row, and a sample for its columns, which become read-only NumPy arrays
without a copy. By default, JAX reduces 64-bit numbers to 32 bits; that is switched off for rows with 64-bit fields (no
measured effect on speed). An oddity: a new row's priority is the largest so far, rounded down to an integer.
"""

from __future__ import annotations

import datetime
import functools
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from adapters.base import Adapter, Columns, Field, Spec, Step
from adapters.behaviours import BadPriority, Empty, ImportanceWeights, NewRowPriority, Replacement
from adapters.contract import Contract, Release, Returns, RowFields, Stated, no, yes


class Flashbax(Adapter):
    name = "flashbax"
    distribution = "flashbax"
    venv = "jax"
    usage = (
        "make_(prioritised_)item_buffer, functions compiled with jax.jit(..., donate_argnums=0) "
        "(README, In-place Updating of Buffer State); compiled for each batch size before timing"
    )
    contract = Contract(
        batch_add=yes(),
        fields=Stated(RowFields.ANY, "any tree of arrays; 64-bit numbers only with jax_enable_x64"),
        priorities=yes("priorities on add (by set_priorities in the same compiled call) and later"),
        returns=Stated(Returns.COLUMNS, "JAX arrays"),
        n_step=no("its trajectory buffer returns sequences"),
        disk=yes("Vault writes added rows to disk", "its source: flashbax.vault"),
        framework="JAX",
        licence="Apache-2.0",
        release=Release("0.1.3", datetime.date(2025, 3, 27)),
        returns_weights=False,
        compiles=True,
        new_row_priority=NewRowPriority.LARGEST,  # its docstring says so, but the priority is rounded down
        weights=ImportanceWeights.OVER_BATCH,
        prioritized_replacement=Replacement.STRATIFIED,
        empty=Empty.GARBAGE,  # users must check its `can_sample` first
        nan_priority=BadPriority.POISONS,
        negative_priority=BadPriority.POISONS,
        infinite_priority=BadPriority.POISONS,
        source="README; docstrings of prioritised_trajectory_buffer.py (new items get the largest recorded priority) "
        "and sum_tree.py (stratified; no negative values); NaN and infinite priorities: undocumented, only observed",
    )

    donates: ClassVar[bool] = True

    def __init__(self, spec: Spec) -> None:
        import jax

        if any(np.dtype(field.dtype).itemsize == 8 for field in spec.fields.values()):
            jax.config.update("jax_enable_x64", True)
        alpha = spec.alpha if spec.prioritized else None
        self.functions = compiled_for(tuple(spec.fields.items()), spec.capacity, alpha, spec.beta, self.donates)
        self.jax, self.fields, self.capacity = jax, spec.fields, spec.capacity
        self.state = self.functions.empty()
        self.key = jax.random.PRNGKey(spec.seed)
        self.add_one, self.add_many = self.functions.add_one, self.functions.add_many
        if spec.prioritized:
            self.add_one_prioritized = self.functions.add_one_prioritized
            self.add_many_prioritized = self.functions.add_many_prioritized
            self.set_priorities = self.functions.set_priorities
        self.samplers = self.functions.samplers

    def add(self, steps: Sequence[Step]) -> None:
        self.add_dicts([step._asdict() for step in steps])

    def add_dicts(self, steps: Sequence[dict]) -> None:
        add, state = self.add_one, self.state
        for step in steps:
            state = add(state, step)
        self.state = self.jax.block_until_ready(state)

    def add_with_priorities(self, steps: Sequence[Step], priorities: Sequence[float]) -> None:
        add, state = self.add_one_prioritized, self.state
        for step, priority in zip(steps, priorities, strict=True):
            state = add(state, step._asdict(), priority)
        self.state = self.jax.block_until_ready(state)

    def add_batch(self, columns: Columns, priorities: np.ndarray | None = None) -> None:
        # A batch is at most as large as the buffer.
        for at in range(0, len(next(iter(columns.values()))), self.capacity):
            part = {name: column[at : at + self.capacity] for name, column in columns.items()}
            if priorities is None:
                self.state = self.add_many(self.state, part)
            else:
                self.state = self.add_many_prioritized(self.state, part, priorities[at : at + self.capacity])
        self.jax.block_until_ready(self.state)

    def add_batches(self, batches: Sequence[Step]) -> None:
        add, state = self.add_many, self.state
        for batch in batches:
            state = add(state, batch._asdict())
        self.state = self.jax.block_until_ready(state)

    def sample(self, batch_size: int) -> Columns:
        sampler = self.samplers.get(batch_size)
        if sampler is None:
            sampler = self.samplers[batch_size] = self.functions.make_sampler(batch_size)
        batch, self.key = sampler(self.state, self.key)
        return {name: np.asarray(column) for name, column in batch.items()}

    def update_priorities(self, indexes: np.ndarray, priorities: np.ndarray) -> None:
        state = self.set_priorities(self.state, indexes, priorities.astype(np.float32))
        self.state = self.jax.block_until_ready(state)

    def __len__(self) -> int:
        return self.capacity if self.state.is_full else int(self.state.current_index)


class FlashbaxNaive(Flashbax):
    name = "flashbax[naive]"
    usage = "as flashbax, its functions compiled with a plain jax.jit: the buffer is copied at each add and update"
    donates = False


class FlashbaxJittedStep(Flashbax):
    name = "flashbax[jitted step]"
    usage = (
        "as flashbax; a learner's step (add, sample, set_priorities) is one jitted function whose state is donated "
        "(examples/anakin_prioritised_dqn_example.ipynb)"
    )

    def learner_step(self, steps: Sequence[Step], batch_size: int, priorities: np.ndarray) -> Columns:
        return self._step(steps, batch_size, priorities.astype(np.float32))

    def learner_step_uniform(self, steps: Sequence[Step], batch_size: int) -> Columns:
        return self._step(steps, batch_size)

    def _step(self, steps: Sequence[Step], batch_size: int, *priorities: np.ndarray) -> Columns:
        columns = {
            name: np.array(values, self.fields[name].dtype)
            for name, values in zip(Step._fields, zip(*steps, strict=True), strict=True)
        }
        step = self.functions.steps.get(batch_size)
        if step is None:
            step = self.functions.steps[batch_size] = self.functions.make_step(batch_size)
        self.state, batch, self.key = step(self.state, self.key, columns, *priorities)
        return {name: np.asarray(column) for name, column in batch.items()}


@functools.cache
def compiled_for(*asked: Any) -> Functions:
    """Return functions shared by all equal buffers of this process: JAX takes up to seconds to compile each shape."""
    return Functions(*asked)


class Functions:
    """Compiled pure functions on the state of one kind of buffer."""

    def __init__(
        self, fields: tuple[tuple[str, Field], ...], capacity: int, alpha: float | None, beta: float, donates: bool
    ) -> None:
        import flashbax
        import jax
        import jax.numpy as jnp

        self.flashbax, self.jax, self.jnp = flashbax, jax, jnp
        self.fields, self.capacity, self.alpha, self.beta = dict(fields), capacity, alpha, beta
        self.dtypes = {name: np.dtype(field.dtype) for name, field in fields}
        self.samplers: dict[int, Any] = {}
        self.steps: dict[int, Any] = {}
        one, many = self.make_buffer(add_batches=False), self.make_buffer(add_batches=True)
        self.init, self.many = one.init, many

        def add_one(state, row):
            return one.add(state, self.cast(row))

        def add_many(state, columns):
            return many.add(state, self.cast(columns))

        def add_with_priority(state, row, priority):
            # The slot that the row is about to be written to.
            place = state.current_index[None]
            return one.set_priorities(add_one(state, row), place, jnp.asarray(priority, jnp.float32)[None])

        def add_with_priorities(state, columns, priorities):
            places = (state.current_index + jnp.arange(len(priorities))) % capacity
            return many.set_priorities(add_many(state, columns), places, jnp.asarray(priorities, jnp.float32))

        def compiled(function: Any) -> Any:
            """Compile a function that maps a state to the next."""
            return jax.jit(function, donate_argnums=0) if donates else jax.jit(function)

        self.add_one, self.add_many = compiled(add_one), compiled(add_many)
        if alpha is not None:
            self.add_one_prioritized = compiled(add_with_priority)
            self.add_many_prioritized = compiled(add_with_priorities)
            self.set_priorities = compiled(one.set_priorities)

    def empty(self) -> Any:
        """Return the state of an empty buffer."""
        return self.init({name: self.jnp.zeros(field.shape, self.dtypes[name]) for name, field in self.fields.items()})

    def make_buffer(self, batch_size: int = 1, add_batches: bool = False) -> Any:
        """Return a buffer, which only consists of functions: buffers with different batch sizes can share one state."""
        sizes = {"max_length": self.capacity, "min_length": 1, "sample_batch_size": batch_size}
        if self.alpha is not None:
            return self.flashbax.make_prioritised_item_buffer(
                **sizes, add_batches=add_batches, priority_exponent=self.alpha, device="cpu"
            )
        return self.flashbax.make_item_buffer(**sizes, add_batches=add_batches)

    def cast(self, columns: dict) -> dict:
        return {name: self.jnp.asarray(column, self.dtypes[name]) for name, column in columns.items()}

    def make_sampler(self, batch_size: int) -> Any:
        return self.jax.jit(self.drawing(batch_size))

    def make_step(self, batch_size: int) -> Any:
        draw, many = self.drawing(batch_size), self.many

        def step(state, key, columns, priorities=None):
            state = many.add(state, self.cast(columns))
            batch, key = draw(state, key)
            if priorities is not None:
                state = many.set_priorities(state, batch["indexes"], priorities)
            return state, batch, key

        return self.jax.jit(step, donate_argnums=0)

    def drawing(self, batch_size: int) -> Any:
        """Return an uncompiled function of the state and a key that samples a batch with its weights."""
        jax, jnp, prioritized, beta = self.jax, self.jnp, self.alpha is not None, self.beta
        buffer = self.make_buffer(batch_size)

        def draw(state, key):
            key, this = jax.random.split(key)
            drawn = buffer.sample(state, this)
            batch = dict(drawn.experience)
            if prioritized:
                weights = (1.0 / drawn.probabilities) ** beta
                batch["weights"], batch["indexes"] = weights / jnp.max(weights), drawn.indices
            return batch, key

        return draw
