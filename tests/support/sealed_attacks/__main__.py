"""Write the files of cases into `tests/vectors/sealed_v2`, or into the folder that is named."""

from __future__ import annotations

import sys
from pathlib import Path

from sealed_cases import FOLDER

from .written import write

write(Path(sys.argv[1]) if len(sys.argv) > 1 else FOLDER)
