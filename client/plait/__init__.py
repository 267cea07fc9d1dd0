"""Plait: content-based publish/subscribe. Subscribers name the content that they need, never its publisher.

    async with plait.connect("plait://localhost:4680") as client:
        async with client.subscribe("symbol == 'IBM' and price < 120") as quotes:
            async for event in quotes:
                print(event["symbol"], event.delay, event.path)

`plait.sync` is the same API without asyncio. `plait.testing` is an in-process broker for your tests. `errors.py` draws
the tree of exceptions under `plait.Error`.
"""

from typing import TYPE_CHECKING

from plait_core.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from plait_core import EventId, F, Filter, parse

    from . import sync, testing
    from .advertisement import Advertisement
    from .client import Client, connect
    from .errors import (
        AddressInvalid,
        ArgumentInvalid,
        AuthFailed,
        BufferFull,
        Closed,
        ConfigurationInvalid,
        ConnectionLost,
        DeadlineMissed,
        Draining,
        DurabilityFailed,
        Error,
        EventInvalid,
        FilterError,
        FilterNeverTrue,
        FilterRefused,
        FilterSyntax,
        FilterTooComplex,
        FrameError,
        LimitReached,
        NameTaken,
        NotAllowed,
        NotAvailable,
        PayloadTooLarge,
        Refused,
        RequestFailed,
        Timeout,
    )
    from .event import Event, Verified
    from .opening import Opening
    from .options.keyword_options import ConnectOptions, EventOptions, PublishOptions, SubscribeOptions
    from .options.rings import Seal
    from .options.settings import Buffer, Outbox, Reconnect
    from .peer_client import PeerClient, peer
    from .protocol.notices import Gap, Late, Notice, Rerouted, SlowConsumer
    from .protocol.session import SessionStats
    from .protocol.subscription_state import SubscriptionStats
    from .receipt import Receipt
    from .subscription import Subscription
    from .version import __version__
else:
    __getattr__, __dir__ = lazy_exports(
        __name__,
        {
            "plait_core": ("EventId", "F", "Filter", "parse"),
            ".advertisement": ("Advertisement",),
            ".client": ("Client", "connect"),
            ".errors": (
                "AddressInvalid",
                "ArgumentInvalid",
                "AuthFailed",
                "BufferFull",
                "Closed",
                "ConfigurationInvalid",
                "ConnectionLost",
                "DeadlineMissed",
                "Draining",
                "DurabilityFailed",
                "Error",
                "EventInvalid",
                "FilterError",
                "FilterNeverTrue",
                "FilterRefused",
                "FilterSyntax",
                "FilterTooComplex",
                "FrameError",
                "LimitReached",
                "NameTaken",
                "NotAllowed",
                "NotAvailable",
                "PayloadTooLarge",
                "Refused",
                "RequestFailed",
                "Timeout",
            ),
            ".event": ("Event", "Verified"),
            ".protocol.subscription_state": ("SubscriptionStats",),
            ".protocol.notices": ("Gap", "Late", "Notice", "Rerouted", "SlowConsumer"),
            ".opening": ("Opening",),
            ".receipt": ("Receipt",),
            ".peer_client": ("PeerClient", "peer"),
            ".protocol.session": ("SessionStats",),
            ".options.keyword_options": ("ConnectOptions", "EventOptions", "PublishOptions", "SubscribeOptions"),
            ".options.rings": ("Seal",),
            ".options.settings": ("Buffer", "Outbox", "Reconnect"),
            ".subscription": ("Subscription",),
            ".version": ("__version__",),
        },
        submodules=("sync", "testing"),
    )

__all__ = [
    "AddressInvalid",
    "Advertisement",
    "ArgumentInvalid",
    "AuthFailed",
    "Buffer",
    "BufferFull",
    "Client",
    "Closed",
    "ConfigurationInvalid",
    "ConnectOptions",
    "ConnectionLost",
    "DeadlineMissed",
    "Draining",
    "DurabilityFailed",
    "Error",
    "Event",
    "EventId",
    "EventInvalid",
    "EventOptions",
    "F",
    "Filter",
    "FilterError",
    "FilterNeverTrue",
    "FilterRefused",
    "FilterSyntax",
    "FilterTooComplex",
    "FrameError",
    "Gap",
    "Late",
    "LimitReached",
    "NameTaken",
    "NotAllowed",
    "NotAvailable",
    "Notice",
    "Opening",
    "Outbox",
    "PayloadTooLarge",
    "PeerClient",
    "PublishOptions",
    "Receipt",
    "Reconnect",
    "Refused",
    "RequestFailed",
    "Rerouted",
    "Seal",
    "SessionStats",
    "SlowConsumer",
    "SubscribeOptions",
    "Subscription",
    "SubscriptionStats",
    "Timeout",
    "Verified",
    "__version__",
    "connect",
    "parse",
    "peer",
    "sync",
    "testing",
]
