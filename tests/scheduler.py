"""The scheduler of `--dist=loadscope`. It is not in order.py because some venvs of the tests lack xdist."""

from __future__ import annotations

import pytest
from xdist.scheduler import LoadScopeScheduling

from tests.order import Units


class LongestFirst(LoadScopeScheduling):
    """Hands out whole units in the order of their first tests, into which the workers have sorted them."""

    def __init__(self, config: pytest.Config, log: object = None) -> None:
        config.option.loadscopereorder = False  # which would sort units by their numbers of tests
        super().__init__(config, log)
        self._units = Units()

    def _split_scope(self, test: str) -> str:
        return self._units.of(test)

    def mark_test_complete(self, node: object, item_index: int, duration: float = 0) -> None:
        """Remove the test, and its unit after the last test. The base class counts the remaining tests each time."""
        test = self.registered_collections[node][item_index]
        units, unit = self.assigned_work[node], self._split_scope(test)
        units[unit].pop(test, None)
        if not units[unit]:
            del units[unit]
        self._reschedule(node)

    def remove_node(self, node: object) -> str | None:
        """Remove a worker; return the test that crashed it, which is not run again."""
        work = self.assigned_work[node]
        scope, running = next(((scope, test) for scope, unit in work.items() for test in unit), (None, None))
        if scope is None:
            return super().remove_node(node)
        del work[scope][running]
        if not work[scope]:
            del work[scope]
        super().remove_node(node)
        return running
