"""Requests that wait until other brokers know a subscription or an advertisement, and are answered then."""

from __future__ import annotations

from typing import TypeAlias

from plait_core.filters import Filter
from plait_core.wire.frame_types.session_frames import Done

from ..clients.sessions import Sessions
from ..overlay import Overlay
from ..overlay.outputs import Advertised, Installed
from ..pipeline.advertisement_gate import AdvertisementGate

ClientRequest: TypeAlias = tuple[int, int]
"""A session and the number of its request; 0 wants no answer."""


class InstallWaits:
    """Announces the interest and the advertisements of one broker's clients, and keeps the requests that wait."""

    def __init__(self, overlay: Overlay, gate: AdvertisementGate, sessions: Sessions) -> None:
        self._overlay = overlay
        self._gate = gate
        self._sessions = sessions
        self._installing: dict[int, list[ClientRequest]] = {}
        """By subscription that not all publishers' brokers know, the requests to answer then."""
        self._advertising: dict[int, list[ClientRequest]] = {}
        """By advertisement that not all brokers know, the requests to answer then."""
        self._stored: dict[ClientRequest, bool] = {}
        """Requests whose filter is being installed, and whether its subscription is stored already."""

    # --- subscriptions ------------------------------------------------------------------------------------------------

    def subscribe(
        self, number: int, filter: Filter, deposit: bytes = b"", *, durable: bool = False, within_us: int = 0
    ) -> None:
        """Announce a subscription, or another filter of it."""
        self._installing.setdefault(number, [])
        self._overlay.announce_filter(number, filter, deposit, durable=durable, within_us=within_us)

    def unsubscribe(self, number: int) -> None:
        """Withdraw a subscription."""
        for request in self._installing.pop(number, ()):
            self._stored.pop(request, None)
        self._overlay.withdraw_filter(number)

    def answer_when_installed(self, number: int, request: ClientRequest, *, stored: bool = True) -> bool:
        """Return whether a subscription is installed. If not, `installed` answers the request once it is.

        A durable subscription (`stored` is false) must also be stored before: see `note_stored`.
        """
        waiting = self._installing.get(number)
        if waiting is None:
            return True
        if request[1]:
            waiting.append(request)
            self._stored[request] = stored
        return False

    def note_stored(self, request: ClientRequest) -> bool:
        """Note that a request's subscription is stored. Return whether it is installed, too, so that the request may be
        answered now."""
        if request not in self._stored:
            return True
        self._stored[request] = True
        return False

    def installed(self, output: Installed, now: float) -> None:
        """Note that a subscription is installed, and answer its requests. Those that are not stored wait for that."""
        for request in self._installing.pop(output.number, ()):
            if self._stored.pop(request, False):
                self._answer(request)

    # --- advertisements -----------------------------------------------------------------------------------------------

    def advertise(self, number: int, filter: Filter, rate: float = 0.0) -> None:
        """Flood a client's advertisement, with the rate of events that it expects."""
        self._advertising[number] = []
        self._gate.advertise(number, filter, rate)

    def unadvertise(self, number: int) -> None:
        """Withdraw an advertisement."""
        self._advertising.pop(number, None)
        self._gate.withdraw(number)

    def answer_when_advertised(self, number: int, request: ClientRequest) -> bool:
        """Return whether all brokers know an advertisement. If not, `advertised` answers the request once they do."""
        waiting = self._advertising.get(number)
        if waiting is not None and request[1]:
            waiting.append(request)
        return waiting is None

    def advertised(self, output: Advertised, now: float) -> None:
        """Note that all brokers know an advertisement, and answer its requests."""
        self._gate.known(output.number)
        for request in self._advertising.pop(output.number, ()):
            self._answer(request)

    def _answer(self, request: ClientRequest) -> None:
        session_id, number = request
        session = self._sessions.get(session_id)
        if session is not None and session.connection is not None:
            session.connection.send(Done(number))
