"""Coverage-guided fuzzing of the lines that a key server and its clients read.

python tests/fuzz/fuzz_key_requests.py -runs=1000000 tests/fuzz/corpus/key_requests
"""

from __future__ import annotations

import sys


def check(data: bytes) -> None:
    """Check that a line is a request that survives its encoding, or RequestInvalid; and likewise for replies."""
    from plait_crypto.keyserver.messages import (
        Refusal,
        RequestInvalid,
        read_line,
        read_reply,
        read_request,
        reply_line,
        request_line,
    )

    try:
        request = read_request(read_line(data))
    except RequestInvalid as error:
        assert reply_line(error).endswith(b"\n")
    else:
        assert read_request(read_line(request_line(request))) == request
    try:
        read_reply(data)
    except (Refusal, RequestInvalid):
        pass


def main() -> None:
    import atheris

    with atheris.instrument_imports(include=["plait_crypto.keyserver", "plait_core.filters"]):
        import plait_crypto.keyserver  # noqa: F401
    atheris.Setup(sys.argv, check)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
