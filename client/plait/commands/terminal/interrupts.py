"""Ctrl-C while a command starts ends the process at once, because nothing is open yet.

Python would raise KeyboardInterrupt in the middle of an import, which some modules convert to errors of their own.
"""

from __future__ import annotations

import signal


def end_at_once() -> None:
    """Let Ctrl-C end the process, unless it was started with Ctrl-C ignored, as by `nohup`."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)


def interruptible() -> None:
    """Let Ctrl-C raise KeyboardInterrupt, so that open resources are closed."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_DFL:
        signal.signal(signal.SIGINT, signal.default_int_handler)
