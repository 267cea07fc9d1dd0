"""Stories of what goes wrong, each with one broker and a few clients that speak frames by hand."""

from __future__ import annotations

import pytest

from plait_broker import BrokerSettings
from plait_core.wire import Confirm
from plait_core.wire.frame_types.session_frames import Acknowledge, Full, Notice, NoticeKind
from plait_lab.simulation.one_broker.disks import DiskTerms
from plait_lab.simulation.one_broker.network import Path
from plait_lab.simulation.one_broker.raw_clients import RawClient
from plait_lab.simulation.one_broker.stage import Stage

QUICK = BrokerSettings(heartbeat_s=1.0, resume_s=2.0, confirm_timeout_s=2.0, hello_timeout_s=1.0)


def gaps(client: RawClient) -> list[tuple[str, int]]:
    return [(n.reason, n.count) for n in client.of(Notice) if n.kind is NoticeKind.GAP]


# --- slow consumers (F7) ----------------------------------------------------------------------------------------------


def test_a_slow_consumer_slows_nobody_and_is_told() -> None:
    stage = Stage(QUICK, path=Path(buffer_bytes=4_000))
    publisher, slow, quick = (stage.raw(name) for name in ("publisher", "slow", "quick"))
    slow.subscribe(1, items_max=100, full=Full.DROP_OLDEST)
    quick.subscribe(1)
    stage.run(0.1)
    slow.set_reading(False)
    for number in range(400):
        publisher.publish(payload=bytes(100), n=number)
        stage.run(0.001)
    stage.run(0.1)
    assert quick.sequences(1) == list(range(1, 401)), "nobody else waits"
    slow.set_reading(True)
    stage.run(0.5)
    got = slow.sequences(1)
    assert got == sorted(got)
    assert got[-100:] == list(range(301, 401)), "the newest hundred are kept"
    assert len(got) < 400, "the story is about drops"
    assert sum(count for _, count in gaps(slow)) == 400 - len(got), "every drop is told"
    assert any(notice.kind is NoticeKind.SLOW for notice in slow.notices()), "and that it is slow, before that"
    assert stage.broker.counters.dropped["outbox_items"] == 400 - len(got)


def test_drop_newest_keeps_the_oldest() -> None:
    stage = Stage(QUICK, path=Path(buffer_bytes=100))
    publisher, slow = stage.raw("publisher"), stage.raw("slow")
    slow.subscribe(1, items_max=3, full=Full.DROP_NEWEST)
    stage.run(0.1)
    slow.set_reading(False)
    for number in range(20):
        publisher.publish(n=number)
        stage.run(0.01)
    slow.set_reading(True)
    stage.run(0.2)
    got = slow.sequences(1)
    assert got == list(range(1, len(got) + 1))
    assert sum(count for _, count in gaps(slow)) == 20 - len(got)


def test_close_ends_the_subscription_and_says_why() -> None:
    stage = Stage(QUICK, path=Path(buffer_bytes=100))
    publisher, slow = stage.raw("publisher"), stage.raw("slow")
    slow.subscribe(1, items_max=3, full=Full.CLOSE)
    stage.run(0.1)
    slow.set_reading(False)
    for number in range(20):
        publisher.publish(n=number)
    stage.run(0.1)
    slow.set_reading(True)
    stage.run(0.1)
    assert [(n.kind, n.reason) for n in slow.notices() if n.kind is NoticeKind.CLOSED] == [("closed", "outbox_items")]
    assert len(stage.broker.interest) == 0


def test_one_that_reads_nothing_at_all_is_closed_by_its_silence() -> None:
    stage = Stage(QUICK)
    client = stage.raw("client")
    client.answers_pings = False
    stage.run(5.0)
    assert client.closed_for == "timeout"


# --- connections (F3, F4, F8) -----------------------------------------------------------------------------------------


def test_after_a_blip_a_session_goes_on_and_its_queue_is_delivered() -> None:
    stage = Stage(QUICK)
    publisher, client = stage.raw("publisher"), stage.raw("client")
    client.subscribe(1)
    stage.run(0.1)
    publisher.publish(n=1)
    stage.run(0.1)
    session = client.welcome.session
    client.connection.reset()
    stage.run(0.1)
    for number in (2, 3, 4):
        publisher.publish(n=number)
    stage.run(0.5)
    client.connect(resume=session)
    stage.run(0.1)
    assert client.welcome.resumed
    assert client.welcome.delivered == 1, "nothing was on its way"
    assert client.sequences(1) == [1, 2, 3, 4]


def test_what_was_on_its_way_is_known_exactly() -> None:
    stage = Stage(QUICK, path=Path(delay_s=0.1))
    publisher = stage.raw("publisher", path=Path())
    client = stage.raw("client", connect=False)
    client.connect()
    stage.run(1.0)
    client.subscribe(1)
    stage.run(1.0)
    for number in range(5):
        publisher.publish(n=number)
    stage.run(0.15)
    assert len(client.sequences(1)) == 5
    for number in range(3):
        publisher.publish(n=number)
    stage.run(0.05)
    session = client.welcome.session
    client.connection.reset()
    stage.run(0.5)
    client.connect(resume=session)
    stage.run(1.0)
    assert client.welcome.delivered - len(client.sequences(1)) == 3


def test_a_session_that_nobody_comes_back_to_is_over() -> None:
    stage = Stage(QUICK)
    client = stage.raw("client")
    client.subscribe(1)
    stage.run(0.1)
    session = client.welcome.session
    client.connection.reset()
    stage.run(QUICK.resume_s + 1.0)
    assert len(stage.broker.interest) == 0
    client.connect(resume=session)
    stage.run(0.1)
    assert not client.welcome.resumed


def test_a_half_dead_connection_is_found_by_its_heartbeat() -> None:
    stage = Stage(QUICK)
    client = stage.raw("client")
    stage.network.cut(client, up=True, down=False)
    stage.run(2.5)
    assert client.closed_for is None
    stage.run(2.0)
    assert client.closed_for == "timeout"


def test_what_ended_while_its_client_was_away_is_told_on_its_return() -> None:
    stage = Stage(QUICK)
    publisher, client = stage.raw("publisher"), stage.raw("client")
    client.subscribe(1, items_max=2, full=Full.CLOSE)
    client.subscribe(2, items_max=2)
    stage.run(0.1)
    session = client.welcome.session
    client.connection.reset()
    stage.run(0.1)
    for number in range(5):
        publisher.publish(n=number)
    stage.run(0.5)
    client.connect(resume=session)
    stage.run(0.1)
    assert [(n.subscription, n.kind) for n in client.notices() if n.kind is NoticeKind.CLOSED] == [(1, "closed")]
    assert gaps(client) == [("outbox_items", 3)]
    assert client.sequences(2) == [4, 5]


def test_a_lost_refusal_is_no_confirmation() -> None:
    stage = Stage(QUICK)
    publisher, listener = stage.raw("publisher"), stage.raw("listener")
    listener.subscribe(1)
    stage.run(0.1)
    number = publisher.publish(Confirm.SUBSCRIBERS, n=1)
    session = publisher.welcome.session
    stage.run(0.1)
    publisher.connection.reset()
    stage.run(0.5)
    listener.connect()  # a new session: the old one ends without having acknowledged
    stage.run(0.1)
    stage.run(QUICK.resume_s)
    publisher.connect(resume=session)
    stage.run(0.1)
    publisher.publish_as(number, Confirm.SUBSCRIBERS, n=1)
    stage.run(0.1)
    assert publisher.confirmed() == []
    assert number in publisher.refused()


# --- the log (F1, F2, F10, F11) ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("moment_s", [0.0005, 0.002, 0.004, 0.006, 0.02])
@pytest.mark.parametrize("power", [False, True])
def test_killed_between_write_and_sync_nothing_confirmed_is_lost(moment_s: float, power: bool) -> None:
    stage = Stage(QUICK, disk=DiskTerms(sync_s=0.01), seed=int(moment_s * 1e4))
    publisher, client = stage.raw("publisher"), stage.raw("client")
    client.subscribe(1, durable="d")
    stage.run(0.1)
    for number in range(20):
        publisher.publish(Confirm.BROKER, n=number)
        stage.run(moment_s / 10)
    stage.run(moment_s)
    if power:
        stage.node.cut_power()
    else:
        stage.node.kill()
    stage.run(0.1)
    stage.node.start()
    client.connect()
    stage.run(0.1)
    client.frames.clear()
    client.subscribe(1, durable="d")
    stage.run(0.5)
    assert set(publisher.confirmed()) <= set(client.sequences(1)), "what was confirmed comes"
    assert client.sequences(1) == sorted(client.sequences(1))


def test_a_full_disk_refuses_and_recovers_by_itself() -> None:
    stage = Stage(QUICK)
    publisher, durable, plain = (stage.raw(name) for name in ("publisher", "durable", "plain"))
    durable.subscribe(1, durable="d")
    plain.subscribe(1)
    stage.run(0.1)
    stage.disk.terms.full = True
    lost = publisher.publish(Confirm.BROKER, n=1)
    stage.run(0.1)
    assert publisher.refused() == {lost: "durability"}
    assert plain.sequences(1) == [lost], "service goes on for those who need no disk"
    stage.disk.terms.full = False
    kept = publisher.publish(Confirm.BROKER, n=2)
    stage.run(0.1)
    assert publisher.confirmed() == [kept]
    assert durable.sequences(1) == [kept]


def test_a_log_that_cannot_be_read_is_read_again_later() -> None:
    settings = BrokerSettings(durable_tail=1, durable_fetch=2, durable_window=2)
    stage = Stage(settings)
    publisher, client = stage.raw("publisher"), stage.raw("client")
    client.subscribe(1, durable="d")
    stage.run(0.1)
    client.connect()
    for number in range(6):
        publisher.publish(n=number)
    stage.run(0.1)
    client.frames.clear()
    client.subscribe(2, durable="d")
    stage.run(0.1)
    assert client.sequences(2) == [1, 2], "its window is full"
    stage.disk.terms.failing = 1.0
    client.send(Acknowledge(2, up_to=client.positions(2)[-1]))
    stage.run(5.0)
    assert client.sequences(2) == [1, 2]
    assert stage.timeline.steps < 2_000, "it does not try all the time"
    stage.disk.terms.failing = 0.0
    client.acknowledges = True
    stage.run(5.0)
    assert client.sequences(2) == [1, 2, 3, 4, 5, 6]
    assert gaps(client) == [], "nothing was lost"


def test_a_rotten_record_is_never_served_and_the_gap_is_told() -> None:
    settings = BrokerSettings(durable_tail=1)
    stage = Stage(settings)
    publisher, client = stage.raw("publisher"), stage.raw("client")
    client.subscribe(1, durable="d")
    stage.run(0.1)
    client.connection.reset()
    stage.run(0.1)
    for number in range(10):
        publisher.publish(n=number)
    stage.run(0.1)
    stage.node.kill()
    rotten = stage.disk.rot(3)
    stage.node.start()
    client.connect()
    stage.run(0.1)
    client.subscribe(2, durable="d")
    stage.run(0.5)
    assert client.positions(2) == [position for position in range(1, 11) if position not in rotten]
    assert gaps(client)[0][0] == "retention"
    assert stage.disk.served_damage == 0


def test_a_durable_subscription_goes_on_where_it_was() -> None:
    stage = Stage(QUICK)
    publisher, client = stage.raw("publisher"), stage.raw("client")
    client.subscribe(1, durable="d")
    stage.run(0.1)
    for number in range(6):
        publisher.publish(n=number)
    stage.run(0.1)
    done = client.next_request()
    client.send(Acknowledge(1, (1, 2, 4), request=done))
    stage.run(0.1)
    assert client.answer(done) == "done"
    stage.node.kill()
    stage.run(0.1)
    stage.node.start()
    client.connect()
    stage.run(0.1)
    client.frames.clear()
    client.subscribe(7, durable="d")
    stage.run(0.1)
    assert client.positions(7) == [3, 5, 6]


def test_what_was_on_its_way_to_a_durable_subscription_comes_again() -> None:
    stage = Stage(QUICK, path=Path(delay_s=0.05))
    publisher, client = stage.raw("publisher", path=Path()), stage.raw("client", connect=False)
    client.connect()
    stage.run(0.5)
    client.subscribe(1, durable="d")
    stage.run(0.5)
    publisher.publish(n=1)
    stage.run(0.02)
    session = client.welcome.session
    client.connection.reset()
    stage.run(0.5)
    client.connect(resume=session)
    stage.run(0.5)
    assert client.welcome.resumed
    assert client.sequences(1) == [1]


# --- time (F9) --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("jump_s", [-3600.0, 3600.0])
def test_a_calendar_that_jumps_changes_nothing(jump_s: float) -> None:
    stage = Stage(QUICK, clock=(500e-6, 12345.0))
    publisher, client = stage.raw("publisher"), stage.raw("client")
    client.subscribe(1, within_us=500_000)
    client.subscribe(2, durable="d", within_us=500_000)
    stage.run(0.1)
    stage.node.clock.calendar_s += jump_s
    publisher.publish(n=1, lifetime_us_=1_000_000)
    stage.run(0.1)
    assert (client.sequences(1), client.sequences(2)) == ([1], [1])
    stage.node.kill()
    stage.node.start()
    publisher.connect()
    client.connect()
    stage.run(0.1)
    client.frames.clear()
    client.subscribe(1, durable="d")
    publisher.publish(n=2)
    stage.run(0.2)
    assert client.sequences(1)[-1] == 2


# --- many at once (F12) -----------------------------------------------------------------------------------------------


def test_a_storm_of_two_hundred_returns_is_weathered() -> None:
    stage = Stage(QUICK)
    clients = [stage.raw(f"c{number}", connect=False) for number in range(200)]
    for client in clients:
        client.connect()
    stage.run(0.2)
    for _ in range(3):
        stage.node.kill()
        stage.run(0.1)
        stage.node.start()
        for client in clients:
            client.connect()
        for half_done in clients[::10]:
            half_done.connect(hello=False)  # abandons its handshake
        stage.run(0.2)
        for half_done in clients[::10]:
            half_done.connect()
        stage.run(0.2)
    for client in clients:
        client.subscribe(1)
    publisher = stage.raw("publisher")
    stage.run(0.2)
    publisher.publish(n=1)
    stage.run(0.2)
    assert all(client.sequences(1) == [1] for client in clients)
    stage.run(2 * QUICK.hello_timeout_s)
    assert len(stage.broker.sessions) == 201


# --- hostility (S1, S7) -----------------------------------------------------------------------------------------------


def test_garbage_harms_nobody_else() -> None:
    stage = Stage(QUICK)
    publisher, client, hostile = (stage.raw(name) for name in ("publisher", "client", "hostile"))
    client.subscribe(1)
    hostile.subscribe(1)
    stage.run(0.1)
    hostile.send_bytes(b"GET / HTTP/1.1\r\n\r\n")
    publisher.publish(n=1)
    stage.run(0.1)
    assert hostile.closed_for == "protocol"
    assert client.sequences(1) == [1]


def test_a_stranger_says_hello_in_time_or_leaves() -> None:
    stage = Stage(QUICK)
    silent, dribbling = stage.raw("silent", connect=False), stage.raw("dribbling", connect=False)
    for stranger in (silent, dribbling):
        stranger.connect(hello=False)
    for _ in range(30):
        stage.run(0.1)
        dribbling.send_bytes(b"\0")
    assert silent.connection is None
    assert dribbling.connection is None


@pytest.mark.parametrize("first", ["publish", "subscribe"])
def test_nothing_is_heard_from_one_who_has_not_said_hello(first: str) -> None:
    stage = Stage(QUICK)
    listener, stranger = stage.raw("listener"), stage.raw("stranger", connect=False)
    listener.subscribe(1)
    stranger.connect(hello=False)
    stage.run(0.1)
    if first == "publish":
        stranger.publish(n=1)
    else:
        stranger.subscribe(1)
    stage.run(0.1)
    assert listener.sequences(1) == []
    assert stranger.closed_for == "protocol"
    assert len(stage.broker.interest) == 1


def test_a_notice_that_was_on_its_way_is_told_again() -> None:
    stage = Stage(QUICK, path=Path(delay_s=0.1))
    publisher, client = stage.raw("publisher", path=Path()), stage.raw("client", connect=False)
    client.connect()
    stage.run(0.5)
    client.subscribe(1, items_max=1, full=Full.CLOSE)
    client.subscribe(2, items_max=1)
    stage.run(0.5)
    session = client.welcome.session
    stage.broker.set_writable(client.connection.number, False, stage.node.now)
    for number in range(3):
        publisher.publish(n=number)
    stage.run(0.09)
    client.connection.reset()
    stage.run(0.5)
    assert client.notices() == []
    client.connect(resume=session)
    stage.run(0.5)
    assert [(n.subscription, n.kind) for n in client.notices() if n.kind is NoticeKind.CLOSED] == [(1, "closed")]
    assert [n.subscription for n in client.notices() if n.kind is NoticeKind.GAP] == [2]
    stage.run(3.0)
    client.connect(resume=session)
    stage.run(0.5)
    assert len([n for n in client.notices() if n.kind is NoticeKind.CLOSED]) == 1, "what has arrived is not repeated"
