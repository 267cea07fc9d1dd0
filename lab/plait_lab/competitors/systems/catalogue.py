"""All systems that can be measured, by name."""

from __future__ import annotations

from typing import Final

from ..contender import Contender
from .activemq import ActiveMq
from .mosquitto import Mosquitto
from .nats import Nats
from .plait_sdk import Plait, PlaitDurable, PlaitInPython, PlaitObserved
from .zenoh import Zenoh
from .zeromq import ZeroMq

OURS: Final = Plait()
OURS_IN_PYTHON: Final = PlaitInPython()
OURS_DURABLE: Final = PlaitDurable()
OURS_OBSERVED: Final = PlaitObserved()
RIVALS: Final[tuple[Contender, ...]] = (Nats(), Mosquitto(), Zenoh(), ZeroMq(), ActiveMq())
CONTENDERS: Final = {
    contender.key: contender for contender in (OURS, OURS_IN_PYTHON, OURS_DURABLE, OURS_OBSERVED, *RIVALS)
}
