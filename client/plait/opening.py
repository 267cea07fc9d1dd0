"""What `connect`, `subscribe` and `advertise` return: something that is opened by `await x` or by `async with x`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator
from types import TracebackType
from typing import Any, Generic, Protocol, TypeVar


class Closing(Protocol):
    """What can be opened closes itself at the end of its block."""

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None, /
    ) -> None: ...


T = TypeVar("T", bound=Closing)


class Opening(Generic[T]):
    """Nothing happens before it is awaited or entered; each of the two opens it once."""

    __slots__ = ("_open", "_opened")

    def __init__(self, open: Callable[[], Awaitable[T]]) -> None:
        self._open = open
        self._opened: T | None = None

    def __await__(self) -> Generator[Any, Any, T]:
        return self._open().__await__()

    async def __aenter__(self) -> T:
        assert self._opened is None, "one block for each opening"
        self._opened = await self._open()
        return self._opened

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._opened is not None, "a block ends after it began"
        await self._opened.__aexit__(kind, error, trace)
