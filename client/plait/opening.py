"""The result of `connect`, `subscribe` and `advertise`: it opens with `await x` or `async with x`; a subscription also
with `async for event in x`."""

from __future__ import annotations

import sys
import warnings
from collections.abc import AsyncIterator, Awaitable, Callable, Generator
from types import TracebackType
from typing import Any, Final, Generic, Protocol, TypeVar


class Closing(Protocol):
    """An object that is closed at the end of its `async with` block."""

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None, /
    ) -> None: ...


T_co = TypeVar("T_co", bound=Closing, covariant=True)
E_co = TypeVar("E_co", covariant=True)


class Iterated(Closing, Protocol[E_co]):
    """An object that is iterated and then closed: a subscription."""

    def __aiter__(self) -> AsyncIterator[E_co]: ...


_CALLER: Final = 2
"""Frames from `Opening.__init__` up to the application: this one, and `connect`, `subscribe` or `advertise`."""


class Opening(Generic[T_co]):
    """A client, subscription or advertisement that is not open yet. Awaiting or entering it opens it; use one of the
    two. A subscription may also be iterated at once: `async for event in client.subscribe(...)`. It is closed when the
    iteration ends.

    An opening that is never used causes a RuntimeWarning, as a coroutine does.
    """

    __slots__ = ("_line", "_open", "_opened", "_used", "_what")

    def __init__(self, open: Callable[[], Awaitable[T_co]], what: str) -> None:
        self._open = open
        self._opened: T_co | None = None
        self._used = False
        self._what = what
        caller = sys._getframe(_CALLER)
        self._line = (caller.f_code.co_filename, caller.f_lineno)

    def __await__(self) -> Generator[Any, Any, T_co]:
        self._used = True
        return self._open().__await__()

    async def __aenter__(self) -> T_co:
        assert self._opened is None, "it is entered once"
        self._used = True
        self._opened = await self._open()
        return self._opened

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._opened is not None, "it is left after it was entered"
        await self._opened.__aexit__(kind, error, trace)

    def __aiter__(self: Opening[Iterated[E_co]]) -> AsyncIterator[E_co]:
        self._used = True
        return _iterate(self)

    def __repr__(self) -> str:
        return f"<Opening of {self._what}: {'used' if self._used else 'not awaited yet'}>"

    def __del__(self) -> None:
        if not self._used and not sys.is_finalizing():
            text = f"{self._what} was never awaited: use await, async with or async for"
            warnings.warn_explicit(text, RuntimeWarning, *self._line, source=self)


async def _iterate(opening: Opening[Iterated[E_co]]) -> AsyncIterator[E_co]:
    async with opening as opened:
        if not hasattr(opened, "__aiter__"):
            raise TypeError(f"{opening!r} is not iterated: only a subscription has events")
        async for item in opened:
            yield item
