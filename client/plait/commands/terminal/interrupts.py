"""Ctrl-C while a command is starting: nothing is open yet, so the process simply ends, as any program does by default.

Python would raise KeyboardInterrupt wherever an import happens to be, which some modules turn into errors of theirs.
"""

from __future__ import annotations

import signal


def end_at_once() -> None:
    """From now on Ctrl-C ends the process; unless it was started with Ctrl-C ignored, as `nohup` does."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)


def interruptible() -> None:
    """From now on Ctrl-C raises KeyboardInterrupt: there is something to be closed."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_DFL:
        signal.signal(signal.SIGINT, signal.default_int_handler)
