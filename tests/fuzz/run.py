"""Fuzz with Atheris: python -m tests.fuzz.run CASE [libFuzzer's options]; see .ci/fuzz."""

from __future__ import annotations

import importlib
import os
import sys

# Set before Atheris is loaded: the native module must find the symbols of its coverage counters there.
sys.setdlopenflags(sys.getdlopenflags() | os.RTLD_GLOBAL)
import atheris  # noqa: E402

with atheris.instrument_imports(include=["cpprb_impl"]):
    import cpprb_impl  # noqa: F401

from tests.fuzz.choices import FromBytes  # noqa: E402


def main() -> None:
    case = importlib.import_module(f"tests.fuzz.{sys.argv[1]}_case")
    atheris.Setup([sys.argv[0], *sys.argv[2:]], lambda data: case.run(FromBytes(data)) and None)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
