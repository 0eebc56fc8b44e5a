"""Words whose form depends on a number."""

from __future__ import annotations


def counted(count: int, noun: str) -> str:
    """1 job, 2 jobs, 3 launches"""
    plural = noun + ("es" if noun.endswith("ch") else "s")
    return f"{count:,} {noun if count == 1 else plural}"
