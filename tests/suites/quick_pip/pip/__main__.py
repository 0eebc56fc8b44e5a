"""With the folder above on PYTHONPATH, `python -m pip` runs this: what the gate needs of pip, in a tenth of the time.

python -m pip ... wheel ... --wheel-dir=FOLDER ... SOURCE      # whose backend is in the source, and needs nothing
python -m pip ... install ... --target=FOLDER ... WHEEL
"""

import importlib
import os
import sys
import zipfile

command = next(word for word in sys.argv[1:] if not word.startswith("-"))
options = dict(word.partition("=")[::2] for word in sys.argv[1:] if word.startswith("--"))
given = sys.argv[-1]
if command == "wheel":
    os.chdir(given)
    sys.path.insert(0, given)
    os.makedirs(options["--wheel-dir"], exist_ok=True)
    importlib.import_module("backend").build_wheel(options["--wheel-dir"])
else:
    with zipfile.ZipFile(given) as wheel:
        wheel.extractall(options["--target"])
