"""Check a replay buffer: `make check BUFFER=module:Class`, or `check(Class)` from Python (docs/check.md)."""
