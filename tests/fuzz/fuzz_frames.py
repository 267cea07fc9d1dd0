"""Coverage-guided fuzzing of the frame decoder.

    python tests/fuzz/fuzz_frames.py -runs=1000000 tests/fuzz/corpus/frames

libFuzzer adds what it finds interesting to the first folder: name an empty one ahead of the corpus to keep it small.
"""

from __future__ import annotations

import sys

import atheris


def main() -> None:
    with atheris.instrument_imports(include=["plait_core", "frames_differential"]):
        from frames_differential import check
    atheris.Setup(sys.argv, check)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
