"""The result of `connect`, `subscribe` and `advertise`: it opens with `await x` or `async with x`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator
from types import TracebackType
from typing import Any, Generic, Protocol, TypeVar


class Closing(Protocol):
    """An object that is closed at the end of its `async with` block."""

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None, /
    ) -> None: ...


T = TypeVar("T", bound=Closing)


class Opening(Generic[T]):
    """A client, subscription or advertisement that is not open yet. Awaiting or entering it opens it; use one of the
    two."""

    __slots__ = ("_open", "_opened")

    def __init__(self, open: Callable[[], Awaitable[T]]) -> None:
        self._open = open
        self._opened: T | None = None

    def __await__(self) -> Generator[Any, Any, T]:
        return self._open().__await__()

    async def __aenter__(self) -> T:
        assert self._opened is None, "it is entered once"
        self._opened = await self._open()
        return self._opened

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._opened is not None, "it is left after it was entered"
        await self._opened.__aexit__(kind, error, trace)
