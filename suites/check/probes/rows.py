"""Probes of storage: are rows returned unchanged, with their dtype and shape, and which memory is shared?"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from adapters.base import Columns, Field, Step
from adapters.checks import are_pixels_as_floats, as_steps
from suites.check.probes.probing import CAPACITY, BufferPool, Overwritten, ProbedBuffer, Seen, own, said

ROWS = 16
BATCHES = 60  # of 16 draws from 16 rows: the probability that some row is never drawn is 10^-26
HARD = {
    "f": [np.nan, np.inf, -np.inf, -0.0, 1e-40, 3.0e38, 0.1, -1 / 3],
    "i": [0, -1, 2**24 + 1, -(2**24) - 1, 2**31, 2**53 + 1, -(2**53) - 1, 7],
    "u": [0, 255, 1, 254, 127, 128, 3, 200],
    "b": [True, False, False, True],
}
ACTIONS = range(5)  # of a library with discrete actions, as `suites.check.functions.OPTIONS` promises
WIDE = [2**24 + 1, -(2**24) - 1, 2**31, 2**53 + 1, -(2**53) - 1]
#: kind of rows -> the fields' shapes and dtypes
KINDS: Mapping[str, tuple[tuple[int, ...], str, tuple[int, ...], str]] = {
    "float32 observations": ((4,), "float32", (), "int64"),
    "frames": ((6, 5, 4), "uint8", (), "int64"),
    "float32 actions": ((3,), "float32", (1,), "float32"),
    "float64 observations": ((5,), "float64", (2,), "float32"),
    "int64 observations": ((3,), "int64", (), "int64"),
}
DTYPES = ("another kind", "narrower", "floats for integers", "floats for pixels", "wider", "kept")  # worst first
CLOSER = ("changed", "as 32 bits", "bit for bit")  # worst first


def _fields(kind: str) -> dict[str, Field]:
    obs, obs_dtype, act, act_dtype = KINDS[kind]
    return {
        "obs": Field(obs, obs_dtype),
        "act": Field(act, act_dtype),
        "rew": Field((), "float32"),
        "next_obs": Field(obs, obs_dtype),
        "done": Field((), "bool"),
    }


def hard_columns(fields: Mapping[str, Field]) -> Columns:
    """Return rows of values that careless storage would change; the reward identifies the row."""
    columns = {}
    for place, (name, field) in enumerate(fields.items()):
        dtype, cells = np.dtype(field.dtype), int(np.prod(field.shape, dtype=int))
        is_discrete = name == "act" and dtype.kind in "iu"
        values = np.array(ACTIONS if is_discrete else HARD[dtype.kind], dtype)
        picked = (np.arange(ROWS)[:, None] + place + np.arange(cells)) % len(values)
        columns[name] = values[picked].reshape(ROWS, *field.shape)
    return columns | {"rew": np.arange(ROWS, dtype=fields["rew"].dtype)}


def come_back(pool: BufferPool) -> dict[str, Seen]:
    """Add rows of difficult values with every form of add, and compare them with what is returned."""
    values, dtypes, shapes, batches = [], [], [], 0
    offered = [kind for kind in KINDS if not pool.refusal(fields=_fields(kind))]
    for kind in offered:
        fields = _fields(kind)
        columns = hard_columns(fields)
        with pool.buffer(fresh=True, capacity=ROWS, fields=fields) as buffer:
            _add_in_every_form(buffer, columns)
            for size in [ROWS] * BATCHES + [1]:
                batch = own(buffer.adapter.sample(size))
                batches += 1
                for name, field in buffer.adapter.returned.items():
                    column = np.asarray(batch[name])
                    dtypes.append(_dtype_word(kind, name, column, field))
                    shapes.append(_shape_word(kind, name, column, field, size))
                dtypes += [("floats for integers", f"{kind}: {name}") for name in buffer.adapter.converted]
                values += _values(kind, batch, columns, buffer.adapter.returned)
            values += _wide_actions(kind, buffer, columns)
    return {
        "round_trip": _worst(values, CLOSER, batches * ROWS, f"rows ({', '.join(offered)}), added in five ways"),
        "dtype": _worst(dtypes, DTYPES, batches, "batches"),
        "shape": _worst(
            shapes, ("changed", "scalars as (1,)", "kept"), batches, f"batches, {len(offered)} of them of a single row"
        ),
    }


def _add_in_every_form(buffer: ProbedBuffer, columns: Columns) -> None:
    adapter, parts = buffer.adapter, [{k: c[i : i + 4].copy() for k, c in columns.items()} for i in range(0, ROWS, 4)]
    adapter.add(as_steps(parts[0])[:2])
    adapter.add_dicts([step._asdict() for step in as_steps(parts[0])[2:]])
    adapter.add_batch(parts[1])
    adapter.add_batches([Step(*(parts[2][name] for name in Step._fields))])
    adapter.add_lists([Step(*(parts[3][name].tolist() for name in Step._fields))])


def _wide_actions(kind: str, buffer: ProbedBuffer, columns: Columns) -> list[tuple[str, str]]:
    """Return which actions of 64 bits become 32 bits although their dtype has 64. A library may refuse actions that it
    was not made for, or return others in their place."""
    act = buffer.spec.fields["act"]
    if "act" not in buffer.adapter.returned or "act" in buffer.adapter.converted or np.dtype(act.dtype) != np.int64:
        return []
    wide = np.resize(np.array(WIDE), columns["act"].shape)
    try:
        _add_in_every_form(buffer, columns | {"act": wide})
        batches = [own(buffer.adapter.sample(ROWS)) for _ in range(BATCHES)]
    except Exception:
        return []
    found = [
        _values(kind, batch, columns | {"act": wide}, {"act": act})
        for batch in batches
        if np.asarray(batch["act"]).dtype == np.int64
    ]
    return [(word, about) for each in found for word, about in each if word == "as 32 bits"]


def _values(kind: str, batch: Columns, columns: Columns, fields: Mapping[str, Field]) -> list[tuple[str, str]]:
    """Compare each row of the batch with the row that its reward identifies."""
    if "rew" not in batch:
        raise NotImplementedError("batches have no rewards, which tell rows apart")
    number = np.asarray(batch["rew"], float).reshape(-1)
    if not np.isin(number, columns["rew"]).all():
        odd = number[~np.isin(number, columns["rew"])][0]
        return [("changed", f"{kind}: no row with rew {odd:g} was added")]
    found = [("bit for bit", "")]
    for name, field in fields.items():
        was = columns[name][number.astype(int)].reshape(len(number), -1)
        now = np.asarray(batch[name]).reshape(len(number), -1)
        is_comparable = now.dtype.kind == was.dtype.kind or are_pixels_as_floats(now, was.dtype)
        if now.shape != was.shape or not is_comparable:
            return [("changed", f"{kind}: {name} was returned as {now.dtype} {now.shape}")]
        with np.errstate(all="ignore"):
            now = now.astype(field.dtype)
            differs = _bits(now) != _bits(was)
            if differs.any():
                short = [was.astype(narrow).astype(field.dtype) for narrow in (np.float32, np.int32)]
                word = "as 32 bits" if any((_bits(now) == _bits(each)).all() for each in short) else "changed"
                example = f"{was[differs][0].item()!r} was returned as {now[differs][0].item()!r}"
                found.append((word, f"{kind}: {name} {example}"))
    return found


def _bits(column: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(column).view(f"u{column.dtype.itemsize}")


def _dtype_word(kind: str, name: str, column: np.ndarray, field: Field) -> tuple[str, str]:
    dtype = np.dtype(field.dtype)
    about = f"{kind}: {name} was added as {dtype} and returned as {column.dtype}"
    if column.dtype == dtype:
        return "kept", ""
    if are_pixels_as_floats(column, dtype):
        return "floats for pixels", about
    if column.dtype.kind != dtype.kind:
        return "another kind", about
    return ("wider" if column.dtype.itemsize > dtype.itemsize else "narrower"), about


def _shape_word(kind: str, name: str, column: np.ndarray, field: Field, size: int) -> tuple[str, str]:
    if column.shape == (size, *field.shape):
        return "kept", ""
    about = f"{kind}: {name} has shape {column.shape} in a batch of {size}"
    return ("scalars as (1,)" if not field.shape and column.shape == (size, 1) else "changed"), about


def _worst(found: list[tuple[str, str]], order: tuple[str, ...], looked_at: int, of_what: str) -> Seen:
    word = min((word for word, _ in found), key=order.index)
    examples = list(dict.fromkeys(about for each, about in found if each == word and about))
    shown = "; ".join(examples[:3]) + (f"; and {len(examples) - 3} more" if len(examples) > 3 else "")
    return Seen(word, f"{looked_at:,} {of_what}" + (f": {shown}" if shown else ""), looked_at)


def ring(pool: BufferPool) -> dict[str, Seen]:
    """Check at several fill levels that overwritten rows are never returned, and that all other rows are."""
    capacity, looked_at, points = ROWS, 0, (10, ROWS, ROWS + 5, 3 * ROWS - 1, 6 * ROWS)
    with pool.buffer(fresh=True, capacity=capacity) as buffer:
        for turn, point in enumerate(points):
            more = point - buffer.added
            (buffer.fill if turn % 2 else buffer.add)(more)
            lacking = len(buffer.held) - len(buffer.adapter)
            if lacking and not (lacking == 1 and buffer.adapter.contract.next_of_rows):
                about = f"after {point} rows were added, {len(buffer.adapter)} are stored; the capacity is {capacity}"
                return {"ring_order": Seen("another order", about, looked_at)}
            try:
                counts = buffer.count(ROWS * BATCHES, size=8)
            except Overwritten as error:
                return {"ring_order": Seen("another order", f"after {point} rows: {error}", looked_at)}
            looked_at += int(counts.sum())
            if not counts[buffer.due].all():
                gone = buffer.held[buffer.due & (counts == 0)]
                about = (
                    f"after {point} rows, row {gone[0]} (and {len(gone) - 1} more) was never drawn in "
                    f"{counts.sum()} draws"
                )
                return {"ring_order": Seen("another order", about, looked_at)}
    about = (
        f"{looked_at:,} draws after {', '.join(map(str, points))} rows were added to a buffer of {capacity}: "
        "only the newest rows were drawn, and each of them at least once"
    )
    return {"ring_order": Seen("oldest first", about, looked_at)}


def given_back(pool: BufferPool) -> dict[str, Seen]:
    """Check whether a batch that the caller still holds changes, and whether writing to it changes the buffer."""
    found, looked_at = [], 0
    for prioritized in (False, True) if pool.has_priorities else (False,):
        with pool.buffer(prioritized=prioritized) as buffer:
            buffer.fill(CAPACITY)
            for trigger in ("sample", "add"):
                buffer.settle(16)
                held = [_held(buffer)]
                for _ in range(4):
                    if trigger == "sample":
                        held.append(_held(buffer))
                    else:
                        buffer.add(CAPACITY // 4)
                        buffer.fill(CAPACITY // 4)
                looked_at += sum(len(batch) for batch, _ in held)
                moved = [name for batch, was in held for name in was if not _same(was[name], batch[name])]
                changed = list(dict.fromkeys(moved))
                found.append((_held_word(trigger, changed), f"{', '.join(changed)} changed by the next {trigger}"))
            found.append(_written(buffer))
    order = ("writing to it changes the buffer", "next add changes it", "next sample changes it")
    order += ("next sample changes weights and indexes", "copies")
    word = min((word for word, _ in found), key=order.index)
    about = "; ".join(dict.fromkeys(about for each, about in found if each == word and word != "copies"))
    held = (
        f"{looked_at} columns were held while more batches were drawn and while {2 * CAPACITY} rows were added, and a "
        "batch was written to: nothing changed"
    )
    return {"returned_batch": Seen(word, about or held, looked_at)}


def _held(buffer: ProbedBuffer) -> tuple[Columns, Columns]:
    """Return a batch as the peer returned it, and a copy."""
    numbers, batch = buffer.sample(16)
    copy = own(batch)
    buffer.update(batch.get("indexes"), numbers)
    return batch, copy


def _same(before: Any, now: Any) -> bool:
    return np.array_equal(np.asarray(before), np.asarray(now))


def _held_word(trigger: str, changed: list[str]) -> str:
    if not changed:
        return "copies"
    if trigger == "add":
        return "next add changes it"
    only_extras = set(changed) <= {"weights", "indexes"}
    return "next sample changes weights and indexes" if only_extras else "next sample changes it"


def _written(buffer: ProbedBuffer) -> tuple[str, str]:
    buffer.settle(16)
    numbers, batch = buffer.sample(16)
    indexes = own(batch).get("indexes")
    for name in buffer.adapter.returned:
        column = batch[name]
        if isinstance(column, np.ndarray) and column.flags.writeable:
            column[...] = np.ones((), column.dtype) * 77
    buffer.update(indexes, numbers)
    try:
        for _ in range(40):
            buffer.draw(16)
    except AssertionError as error:
        return "writing to it changes the buffer", f"after writing to a batch: {said(error)}"
    return "copies", ""


def kept_from_caller(pool: BufferPool) -> dict[str, Seen]:
    """Change arrays after adding them, as many environments do, and check whether stored rows change."""
    changed = {}
    with pool.buffer() as buffer:
        steps = as_steps(buffer.next_rows(CAPACITY))
        buffer.adapter.add(steps)
        for step in steps:
            step.obs[...] = step.next_obs[...] = -1
        changed["add"] = _share_changed(buffer)
    if pool.kind.contract.batch_add.value:
        with pool.buffer() as buffer:
            columns = buffer.next_rows(CAPACITY)
            buffer.adapter.add_batch(columns)
            for name in ("obs", "next_obs"):
                columns[name][...] = -1
            changed["add_batch"] = _share_changed(buffer)
    of_batches = changed.get("add_batch", 0.0) > 0
    word = "keeps references" if changed["add"] else "keeps references to batches" if of_batches else "copies"
    about = " and ".join(f"{share:.0%} of the rows added with {form}" for form, share in changed.items())
    return {
        "references": Seen(word, f"after the caller overwrote its arrays, {about} had changed", len(changed) * CAPACITY)
    }


def _share_changed(buffer: ProbedBuffer) -> float:
    buffer.settle(CAPACITY)
    batch = buffer.adapter.sample(CAPACITY)
    names = [name for name in ("obs", "next_obs") if name in buffer.adapter.returned]
    changed = [(np.asarray(batch[name]).reshape(CAPACITY, -1) == -1).all(axis=1) for name in names]
    return float(np.any(changed, axis=0).mean())
