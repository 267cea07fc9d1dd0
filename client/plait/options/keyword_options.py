"""The keyword options of `publish`, `subscribe` and `connect`, each with its type and its meaning, written once.

A `Duration` is a number of seconds, a text with a unit such as "50ms", or a timedelta.

The docstring of each class has one entry per option. `documented` appends it to the docstrings of the functions that
take the options, so `help` and editors show it; `docs/reference/sdk.md` is written from it, too.
"""

from __future__ import annotations

import ssl
from collections.abc import Callable, Collection, Mapping
from datetime import datetime
from inspect import cleandoc
from typing import Any, Final, TypedDict, TypeVar

from .durations import Duration
from .rings import Seal, Unsealing
from .settings import AckMode, Buffer, ConfirmLevel, DepositKind, LatePolicy, Outbox, Reconnect

Function = TypeVar("Function", bound=Callable[..., Any])


class EventOptions(TypedDict, total=False):
    """- `ttl`: how long the event is worth delivering. Default: without limit.
    - `deadline`: the same limit as a moment or a duration. If both are given, the earlier one counts.
    - `priority`: 0 (ordinary, the default) to 9 (first).
    - `headers`: texts for applications; brokers never route by them.
    """

    ttl: Duration | None
    deadline: Duration | datetime | None
    priority: int
    headers: Mapping[str, str] | None


class PublishOptions(EventOptions, total=False):
    """- `confirm`: return at once ("none", the default), when the broker has accepted the event ("broker"), or when
      every subscriber that it matched has acknowledged it ("subscribers").
    - `seal`: a `plait.Seal`, to encrypt the event for holders of matching keys.
    - `timeout`: how long to wait for the confirmation. The event is still sent after it. Default: without limit.
    """

    confirm: ConfirmLevel
    seal: Seal | None
    timeout: Duration | None


class SubscribeOptions(TypedDict, total=False):
    """- `within`: the delay bound. Default: none.
    - `late`: "drop" (the default) drops events that miss the delay bound; "flag" delivers them with `event.late`.
    - `buffer`: a `plait.Buffer`: how many events wait for the application, and the policy when it is full.
    - `durable`: a name under which the broker logs the subscription's events while no client is attached.
    - `start`: where a new durable subscription begins: "new" (the default), "all", a datetime, or a log position.
    - `ack`: "auto" (the default) acknowledges an event when the next one is taken; "manual" leaves it to `event.ack()`.
    - `unseal`: a key ring that opens sealed events. Brokers see no condition of the filter but those on attributes that
      the schema declares clear.
    - `reveal`: names of further attributes whose conditions brokers see, to send fewer events.
    - `deposit`: tokens by which brokers test sealed events. "exact" (the default) match what the keys open. "coarse"
      match more, if the key server's policy allows it. "nothing": brokers send all events of the realm.
    """

    within: Duration | None
    late: LatePolicy
    buffer: Buffer
    durable: str | None
    start: str | int | datetime
    ack: AckMode
    unseal: Unsealing | None
    reveal: Collection[str]
    deposit: DepositKind


class ConnectOptions(TypedDict, total=False):
    """- `context`: the name of a saved context (`plait context`), for its address and credentials.
    - `name`: the name by which the broker knows the client. Default: a random one.
    - `auth`: a token, or a function that returns one and is called at each attempt to connect. A token in the URL comes
      before it. Default: the token of `context`, else the content of the file that PLAIT_TOKEN_FILE names, else the
      token of the context that gave the address.
    - `tls`: an `ssl.SSLContext`, or True for the system's authorities. `plaits://` implies True. Default: the
      certificates of the context.
    - `reconnect`: a `plait.Reconnect`; False never reconnects. Default: reconnect for ever.
    - `heartbeat`: time between two pings. Default: 2 s.
    - `timeout`: time for the first connection, and for the answer to each request. Default: 5 s.
    - `outbox`: a `plait.Outbox`: how many unsent and unconfirmed publishes are held.
    """

    context: str | None
    name: str | None
    auth: str | Callable[[], str] | None
    tls: ssl.SSLContext | bool | None
    reconnect: Reconnect | bool | None
    heartbeat: Duration
    timeout: Duration
    outbox: Outbox | None


EVENT_OPTIONS: Final = frozenset(EventOptions.__annotations__)
PUBLISH_OPTIONS: Final = frozenset(PublishOptions.__annotations__)
SUBSCRIBE_OPTIONS: Final = frozenset(SubscribeOptions.__annotations__)
CONNECT_OPTIONS: Final = frozenset(ConnectOptions.__annotations__)


def check_names(function: str, given: Mapping[str, object], known: frozenset[str]) -> None:
    """Raise TypeError for an option that the function does not have, as Python does for a wrong keyword."""
    if not given.keys() <= known:
        unknown = sorted(given.keys() - known)[0]
        raise TypeError(f"{function}() got an unexpected keyword argument {unknown!r}")


def documented(*options: type) -> Callable[[Function], Function]:
    """Append the documentation of the options to a function's docstring."""

    def extend(function: Function) -> Function:
        listed = "\n".join(cleandoc(each.__doc__ or "") for each in options)
        function.__doc__ = f"{cleandoc(function.__doc__ or '')}\n\n{listed}"
        return function

    return extend
