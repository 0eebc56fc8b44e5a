"""Check objdump's disassembly, read from stdin: only versions made for newer processors may use their instructions.

The baseline is SSE2. GCC names the versions of a function after their processor: `name.arch_x86_64_v3`, `name.avx2`;
only those may use more, since one of them is chosen only if the processor reports support.
"""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Iterable

FUNCTION = re.compile(r"^[0-9a-f]+ <(?P<name>.+)>:$")
PREFIX = r"(?:(?:rep|repz|repnz|lock|notrack|data16|cs|bnd)\s+)*"
INSTRUCTION = re.compile(rf"^\s+[0-9a-f]+:\s+{PREFIX}(?P<mnemonic>[a-z0-9]+)")
VERSION = re.compile(r"\.(arch_\w+|avx\w*|sse4\w*|fma|bmi2?)\b")
# The names of AVX and later instructions begin with v. The others are BMI, and what x86-64-v2 adds to the baseline.
NEWER = re.compile(
    r"v(?!err$|erw$|mcall$)\w+|andn|bextr|bls\w+|bzhi|mulx|pdep|pext|rorx|sarx|shlx|shrx|lzcnt|popcnt|crc32[bwlq]?"
    r"|movbe|pshufb|pmulld|pabs[bwd]|phadd\w+|palignr|pblend\w*|blendv?p[sd]|round[sp][sd]|ptest|pcmpgtq|pcmpeqq"
    r"|pm(?:in|ax)(?:sb|sd|uw|ud)|pmov[sz]x\w+|pextr[bdq]|pinsr[bdq]|insertps|extractps|dpp[sd]|pcmp[ei]str[im]"
)


def newer_instructions(lines: Iterable[str]) -> tuple[Counter, Counter]:
    """Count the newer instructions in versioned functions and in all other functions, by function."""
    versioned: Counter = Counter()
    others: Counter = Counter()
    name = ""
    for line in lines:
        if function := FUNCTION.match(line):
            name = function["name"]
        elif (instruction := INSTRUCTION.match(line)) and NEWER.fullmatch(instruction["mnemonic"]):
            (versioned if VERSION.search(name) else others)[name] += 1
    return versioned, others


def main() -> int:
    versioned, others = newer_instructions(sys.stdin)
    if others:
        print("beyond baseline x86-64, and not chosen at run time:", *others.most_common(), sep="\n  ")
        return 1
    print(f"   {sum(versioned.values())} newer instructions, all in {len(versioned)} versions of functions")
    return 0


if __name__ == "__main__":
    sys.exit(main())
