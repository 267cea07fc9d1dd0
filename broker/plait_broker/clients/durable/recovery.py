"""Recovery from the log at the start: durable subscriptions, the duplicate window, and documents of other brokers."""

from __future__ import annotations

from collections.abc import Iterable

from plait_core.errors import FrameError
from plait_core.filters import parse
from plait_core.wire import VERSION_MAX, FrameDecoder
from plait_core.wire.frame_types.envelope_frames import Signed

from ...outputs import Recovered, StoredDocument
from ...overlay import Overlay
from ...pipeline.admission import Admission
from ...pipeline.subscription_index import SubscriptionIndex
from ..sessions import DurableSubscription, EarlierFilter
from .durable_subscriptions import DurableSubscriptions, entry_of


def recover(
    recovered: Recovered,
    index: SubscriptionIndex,
    durables: DurableSubscriptions,
    admission: Admission,
    overlay: Overlay,
    now: float,
) -> None:
    """Restore the state of an earlier run. Call it before the first connection."""
    for cursor in recovered.cursors:
        durable = DurableSubscription(
            index.new_number(),
            cursor.owner,
            cursor.name,
            parse(cursor.filter),
            cursor.acknowledged,
            set(cursor.beyond),
            [EarlierFilter(up_to, parse(text)) for up_to, text in cursor.earlier],
            seen_us=cursor.seen_us,
            in_log=True,
        )
        durables.add(durable)
        durables.count_backlog(durable)
        index.add(durable)
    for record in recovered.recent:
        admission.recover(entry_of(record).frame.id)
    documents, bad = _decode(recovered.documents)
    overlay.counts["bad_documents"] += bad
    overlay.recall(documents, now)


def _decode(stored: Iterable[StoredDocument]) -> tuple[list[Signed], int]:
    """Return the documents of other brokers that were stored, and the number of those that cannot be read."""
    documents: list[Signed] = []
    bad = 0
    for one in stored:
        decoder = FrameDecoder(version=VERSION_MAX)
        try:
            decoder.feed(one.frame)
            documents += [frame for frame in decoder.take() if isinstance(frame, Signed)]
        except FrameError:
            bad += 1
    return documents, bad
