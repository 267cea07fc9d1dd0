"""Client sessions and the broker protocol connected byte by byte, on virtual time, with cuts, lost bytes and restarts.

Invariants for every seed: no event reaches an application twice, out of its publisher's order, unpublished or
unmatched. A confirmed event reaches every durable subscription that it matched.
"""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import pytest

from plait.options.addresses import Address
from plait.options.settings import Outbox, Reconnect, SessionSettings
from plait.protocol.outputs import Confirmed, Connect, Disconnect, NotConfirmed, Reading, RequestCompleted, Write
from plait.protocol.session import NO_HEADERS, Session
from plait.protocol.subscription_state import SubscriptionState, Terms
from plait_broker import Broker, BrokerSettings, Caller, Cursor, Fetch, LogRecord, OpenGate, Persist, Recovered, Send
from plait_broker import Close as CloseLink
from plait_core import EventId, PlaitError, parse
from plait_core.wire import Confirm

WALL_US = 1_700_000_000_000_000
FILTERS = ("true", "n >= 3", "n in [1, 2, 5]", "n < 5 and even == true")


@dataclass
class Pipe:
    """Bytes in flight between one client and the broker."""

    link: int
    up: bytearray = field(default_factory=bytearray)
    down: bytearray = field(default_factory=bytearray)
    closing: bool = False


@dataclass(eq=False)
class Reader:
    """An application with one subscription."""

    interest: SubscriptionState
    filter: str
    durable: str
    got: list[EventId] = field(default_factory=list)


@dataclass(eq=False)
class Party:
    """One client and its applications."""

    session: Session
    pipe: Pipe | None = None
    readers: list[Reader] = field(default_factory=list)
    published: dict[int, dict[str, Any]] = field(default_factory=dict)
    confirmed: dict[int, int] = field(default_factory=dict)
    refused: dict[int, PlaitError] = field(default_factory=dict)
    asked: dict[int, Confirm] = field(default_factory=dict)


class World:
    """All parties, on one clock and one random generator."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.now = 100.0
        self.links = 0
        self.records: dict[int, LogRecord] = {}
        self.cursors: dict[tuple[str, str], Cursor] = {}
        self.parties: list[Party] = []
        self.faults: Counter[str] = Counter()
        self.broker = self.new_broker()

    def new_broker(self) -> Broker:
        recovered = Recovered(
            max(self.records, default=0) + 1,
            tuple(self.cursors.values()),
            tuple(self.records[position] for position in sorted(self.records)),
        )
        settings = BrokerSettings(heartbeat_s=1.0, resume_s=2.0, durable_window=8, durable_tail=16, durable_fetch=5)
        wall_us = WALL_US + round(self.now * 1e6)
        return Broker(settings, self.random, OpenGate(), now=self.now, wall_us=wall_us, recovered=recovered)

    def join(self) -> Party:
        settings = SessionSettings("p", Reconnect(0.05, 0.2), heartbeat_s=1.0, timeout_s=30, outbox=Outbox(500))
        party = Party(Session((Address("b"),), settings, self.random))
        party.session.start(self.now)
        self.parties.append(party)
        return party

    # --- one turn -----------------------------------------------------------------------------------------------------

    def turn(self, seconds: float) -> None:
        """Advance the clock, move some bytes, and process what is due."""
        self.now += seconds
        if self.broker.next_deadline() <= self.now:
            self.broker.tick(self.now)
        self.pump_broker()
        for party in self.parties:
            self.serve(party)

    def serve(self, party: Party) -> None:
        session = party.session
        deadline = session.next_deadline()
        if deadline is not None and deadline <= self.now:
            session.tick(self.now)
        for output in session.take_output(self.now):
            match output:
                case Connect():
                    self.links += 1
                    party.pipe = Pipe(self.links)
                    self.broker.connected(self.links, Caller("sim"), self.now)
                    session.connected(self.now)
                case Write(chunks) if party.pipe is not None:
                    party.pipe.up += b"".join(chunks)
                case Disconnect():
                    self.hang_up(party)
                case Reading():
                    pass
        self.move(party)
        for piece in session.take_updates():
            match piece:
                case Confirmed(sequence, matched):
                    assert sequence not in party.confirmed, "confirmed once"
                    party.confirmed[sequence] = matched
                case NotConfirmed(sequence, error):
                    assert sequence not in party.confirmed, "one outcome for each publish"
                    party.refused[sequence] = error
                case RequestCompleted(error=error):
                    assert error is None, error
        session.take_readable()

    def move(self, party: Party) -> None:
        pipe = party.pipe
        if pipe is None:
            return
        for stream, receive in (
            (pipe.up, lambda data: self.broker.receive(pipe.link, data, self.now)),
            (pipe.down, lambda data: party.session.receive(data, self.now)),
        ):
            count = self.random.choice((1, 7, 50, 5000, 5000, 5000))
            if stream and party.pipe is pipe:
                data = bytes(stream[:count])
                del stream[:count]
                receive(data)
                self.pump_broker()
        if pipe.closing and not pipe.down and party.pipe is pipe:
            party.pipe = None
            self.broker.disconnected(pipe.link, self.now)
            party.session.disconnected(self.now)

    def pump_broker(self) -> None:
        pipes = {party.pipe.link: party.pipe for party in self.parties if party.pipe is not None}
        while outputs := self.broker.take_output():
            for output in outputs:  # in order: outputs caused by storing follow the present ones
                match output:
                    case Send(link, chunks) if link in pipes:
                        pipes[link].down += b"".join(chunks)
                    case CloseLink(link) if link in pipes:
                        pipes[link].closing = True
            for output in outputs:
                match output:
                    case Persist():
                        self.persist(output)
                    case Fetch(ticket, position, count, since_us):
                        kept = [record for p, record in sorted(self.records.items()) if p >= position]
                        found = [record for record in kept if record.logged_us >= since_us]
                        self.broker.fetched(ticket, found[:count], False, None, self.now)

    def persist(self, what: Persist) -> None:
        self.records |= {record.position: record for record in what.records}
        self.cursors |= {(cursor.owner, cursor.name): cursor for cursor in what.cursors}
        self.broker.persisted(what.ticket, None, self.now)

    # --- faults -------------------------------------------------------------------------------------------------------

    def hang_up(self, party: Party) -> None:
        if party.pipe is not None:
            self.broker.disconnected(party.pipe.link, self.now)
            party.pipe = None

    def cut(self, party: Party) -> None:
        """Break a connection. The bytes in flight are lost."""
        if party.pipe is not None:
            self.faults["cut"] += 1
            self.hang_up(party)
            party.session.disconnected(self.now, "cut")

    def restart(self) -> None:
        """Replace the broker by another one, which starts from its log."""
        self.faults["restart"] += 1
        self.broker = self.new_broker()
        for party in self.parties:
            if party.pipe is not None:
                party.pipe = None
                party.session.disconnected(self.now, "died")

    # --- what applications do -----------------------------------------------------------------------------------------

    def subscribe(self, party: Party, filter: str, durable: str = "") -> None:
        interest, _ = party.session.desired.subscribe(Terms(parse(filter), durable=durable), self.now)
        party.readers.append(Reader(interest, filter, durable))

    def publish(self, party: Party) -> None:
        if party.session.publishes.full:
            return
        n = self.random.randrange(8)
        attributes = {"n": n, "even": n % 2 == 0}
        confirm = self.random.choice(tuple(Confirm))
        if confirm is Confirm.NONE:
            sequence = party.session.publish(attributes, b"x", 1, 0, NO_HEADERS)
        else:
            sequence = party.session.publish_retained(
                attributes, b"x", 1, 0, NO_HEADERS, lifetime_us=0, confirm=confirm, now=self.now
            )
        party.published[sequence] = attributes
        party.asked[sequence] = confirm

    def read(self, most: int) -> None:
        for party in self.parties:
            for reader in party.readers:
                for _ in range(min(most, len(reader.interest.queue))):
                    frame, _, position, _ = reader.interest.take()
                    reader.got.append(frame.id)
                    reader.interest.acknowledge(position)

    def run(self, turns: int) -> None:
        for _ in range(turns):
            self.turn(self.random.choice((0.001, 0.01, 0.1)))
            for party in self.parties:
                if self.random.random() < 0.5:
                    self.publish(party)
                if self.random.random() < 0.02:
                    self.cut(party)
            if self.random.random() < 0.005:
                self.restart()
            self.read(self.random.randrange(4))

    def settle(self) -> None:
        """Deliver everything in flight, without further faults."""
        for _ in range(400):
            self.turn(0.1)
            self.read(1000)

    def check(self) -> None:
        by_publisher = {party.session.publisher: party for party in self.parties}
        for party in self.parties:
            assert party.session.is_open
            for reader in party.readers:
                self.check_reader(reader, by_publisher)
            for sequence, confirm in party.asked.items():
                outcomes = (sequence in party.confirmed) + (sequence in party.refused)
                assert outcomes == bool(confirm), f"{sequence} has {outcomes} outcomes"
                if confirm is Confirm.BROKER:
                    assert sequence in party.confirmed, party.refused[sequence]

    def check_reader(self, reader: Reader, publishers: dict[int, Party]) -> None:
        matches = parse(reader.filter).matches
        assert len(reader.got) == len(set(reader.got)), "delivered twice"
        last: dict[int, int] = {}
        for id in reader.got:
            assert id.sequence > last.get(id.publisher, 0), "out of order"
            last[id.publisher] = id.sequence
            assert matches(publishers[id.publisher].published[id.sequence]), "not matching"
        if reader.durable:
            confirmed = {
                EventId(publisher, sequence)
                for publisher, party in publishers.items()
                for sequence in party.confirmed
                if matches(party.published[sequence])
            }
            assert not confirmed - set(reader.got), "confirmed but lost"


@pytest.mark.parametrize("seed", range(24))
def test_nothing_twice_nothing_out_of_order_nothing_confirmed_is_lost(seed: int) -> None:
    world = World(seed)
    for n in range(3):
        party = world.join()
        world.subscribe(party, FILTERS[n])
        world.subscribe(party, FILTERS[n + 1], durable=f"d{n}")
    for _ in range(200):
        world.turn(0.01)
    world.run(400)
    world.settle()
    world.check()
    assert sum(len(reader.got) for party in world.parties for reader in party.readers) > 100
    assert world.faults["cut"] > 3


def test_one_seed_is_one_history() -> None:
    def history() -> Any:
        world = World(7)
        party = world.join()
        world.subscribe(party, "true", durable="d")
        world.run(300)
        return [reader.got for party in world.parties for reader in party.readers], party.confirmed

    assert history() == history()
