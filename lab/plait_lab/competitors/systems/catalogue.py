"""All systems that can be measured, by name."""

from __future__ import annotations

from typing import Final

from ..contender import Contender
from .activemq import ActiveMq
from .jetstream import JetStream, JetStreamSynced
from .mosquitto import Mosquitto
from .nats import Nats
from .plait_sdk import Plait, PlaitDurable, PlaitInPython, PlaitObserved, PlaitReporting, PlaitSilent
from .redis_streams import RedisStreams, RedisStreamsSynced
from .zenoh import Zenoh
from .zeromq import ZeroMq

OURS: Final = Plait()
OURS_IN_PYTHON: Final = PlaitInPython()
OURS_DURABLE: Final = PlaitDurable()
OURS_OBSERVED: Final = PlaitObserved()
OURS_SILENT: Final = PlaitSilent()
OURS_REPORTING: Final = PlaitReporting()
RIVALS: Final[tuple[Contender, ...]] = (Nats(), Mosquitto(), Zenoh(), ZeroMq(), ActiveMq())
DURABLE_RIVALS: Final[tuple[Contender, ...]] = (JetStreamSynced(), RedisStreamsSynced(), JetStream(), RedisStreams())
"""With fsync before a confirmation, and with their defaults."""
ALL_RIVALS: Final = (*RIVALS, *DURABLE_RIVALS)
ALL_OURS: Final = (OURS, OURS_IN_PYTHON, OURS_DURABLE, OURS_OBSERVED, OURS_SILENT, OURS_REPORTING)
CONTENDERS: Final = {contender.key: contender for contender in (*ALL_OURS, *ALL_RIVALS)}
