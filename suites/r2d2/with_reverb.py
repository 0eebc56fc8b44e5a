"""R2D2 in the common venv, which has Reverb. PyTorch is imported from its own venv, behind the common one.

    python -m suites.r2d2.with_reverb [--buffer reverb|cpprb_impl] [the options of suites.r2d2.train]

No venv can have both: TensorFlow 2.15, which Reverb needs, requires NumPy 1, and the pins of PyTorch's venv NumPy 2.
PyTorch works with either.
"""

import sys

from adapters import venvs

sys.path.extend(venvs.site_packages(venvs.PYTORCH))

from suites.r2d2.train import main  # after sys.path

if __name__ == "__main__":
    sys.exit(main("reverb"))
