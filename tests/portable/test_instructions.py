"""`make portable` detects instructions that only newer processors have."""

from __future__ import annotations

import pytest

from .instructions import newer_instructions

DISASSEMBLY = """
_native.so:     file format elf64-x86-64

0000000000001000 <add>:
    1000:	push   %rbp
    1001:	rep stos %rax,%es:(%rdi)
    1004:	addps  %xmm1,%xmm0
    1007:	{}
    100c:	ret

0000000000002000 <powers.arch_x86_64_v3>:
    2000:	vaddps %ymm1,%ymm0,%ymm0
    2004:	shlx   %rax,%rdx,%rcx
"""


@pytest.mark.parametrize(
    "newer", ["vaddps %ymm1,%ymm0,%ymm0", "mulx   %rax,%rdx,%rcx", "rep popcnt %rax,%rax", "pshufb %xmm1,%xmm0"]
)
def test_newer_instructions_are_reported_outside_of_versioned_functions(newer):
    versioned, others = newer_instructions(DISASSEMBLY.format(newer).splitlines())
    assert others == {"add": 1} and versioned == {"powers.arch_x86_64_v3": 2}


@pytest.mark.parametrize("old", ["verr   %ax", "lock cmpxchg %rcx,(%rdx)", "movaps %xmm0,%xmm1", "nop"])
def test_baseline_instructions_are_not_reported(old):
    assert not newer_instructions(DISASSEMBLY.format(old).splitlines())[1]
