"""Each broker records incidents as they happen, with from where, to where and why. A calm overlay has none."""

from __future__ import annotations

import re
from collections import Counter

from plait_broker.drop_reasons import LATE, LOST, DropReason
from plait_broker.tracing.incidents.incident_log import KEPT_MAX, PATHS_START_S, SENT_MAX, IncidentLog
from plait_broker.tracing.incidents.path_watch import FASTER_S
from plait_core.wire.frame_types.session_frames import Code
from plait_lab.simulation.overlay.world import World

SETTLED_S = PATHS_START_S + 5.0


def ring(seed: int, brokers: int = 4, delay_s: float = 0.010) -> World:
    """Return a ring of brokers that have settled, with a publisher at the first and a subscriber two brokers away."""
    world = World(seed, brokers=brokers)
    for near in range(brokers):
        world.link(near, (near + 1) % brokers, delay_s)
    world.start()
    world.run(SETTLED_S)
    publisher, subscriber = world.connected_client(0, "feed"), world.connected_client(2, "desk")
    publisher.advertise("x >= 0")
    subscriber.subscribe("x >= 0")
    world.run(1.0)
    return world


def publish(world: World, seconds: float) -> None:
    """Publish five events a second, so that the paths are used."""
    for _ in range(round(seconds * 5)):
        world.clients[0].publish({"x": 1})
        world.run(0.2)


def texts(world: World, broker: int, kind: str = "") -> list[str]:
    """Return what a broker has recorded."""
    log = world.broker(broker).explainer.incidents
    return [incident.text for incident in log.incidents if incident.kind == (kind or incident.kind)]


def everything(world: World) -> list[str]:
    return [text for number in range(len(world.nodes)) for text in texts(world, number)]


def test_a_calm_overlay_has_no_incident() -> None:
    world = ring(1, 6)
    for link in world.network.links:
        link.jitter_s = 0.002
    publish(world, 60.0)
    world.run(240.0)
    assert everything(world) == []


def test_paths_of_equal_delay_are_no_news() -> None:
    world = ring(2, delay_s=0.0001)
    for _ in range(10):
        for near, far in ((0, 1), (0, 3)):
            world.link_of(near, far).delay_s = 0.0007  # far above the noise that next hops ignore
            publish(world, FASTER_S + 3.0)
            world.link_of(near, far).delay_s = 0.0001
    assert world.broker(0).overlay.routes.changes > 2, "events take other paths all the time"
    assert everything(world) == []


def test_a_faster_path_says_from_where_to_where_and_why() -> None:
    world = ring(3)
    publish(world, 2.0)
    hop = world.broker(0).overlay.routes.chosen[world.broker(2).id]
    slow = 1 if hop == world.broker(1).id else 3
    world.link_of(0, slow).delay_s = 0.110
    publish(world, 2.0)
    assert texts(world, 0, "reroute") == [], "it may pass"
    publish(world, FASTER_S + 5.0)
    (found,) = [text for text in texts(world, 0, "reroute") if "reaches b2" in text]
    said = re.fullmatch(r"b0 reaches b2 via b(\d) instead of b(\d): it is faster, delay (\S+) ms -> (\S+) ms", found)
    assert said is not None, found
    assert (int(said[1]), int(said[2])) == (4 - slow, slow)
    assert float(said[3]) > 3 * float(said[4]) > 30


def test_a_link_that_goes_down_says_why_and_where_events_go_instead() -> None:
    world = ring(4)
    publish(world, 2.0)
    hop = 1 if world.broker(0).overlay.routes.chosen[world.broker(2).id] == world.broker(1).id else 3
    link = world.link_of(0, hop)
    world.network.cut(link)
    publish(world, 10.0)
    assert texts(world, 0, "link down") == [f"link b0 – b{hop} is down: the connection was lost"]
    (found,) = [text for text in texts(world, 0, "reroute") if "b2" in text]
    assert found.startswith(f"b0 reaches b2 via b{4 - hop} instead of b{hop}: the link to b{hop} is down, delay 20")
    assert texts(world, 0, "leave") == [], "another path leads there"
    world.network.mend(link)
    world.run(20.0)
    assert texts(world, 0, "link up") == [f"link b0 – b{hop} is up"]


def test_a_silent_neighbour_is_named_as_the_reason() -> None:
    world = ring(9)
    world.network.silence(world.link_of(0, 1))
    world.run(10.0)
    for near, far in ((0, 1), (1, 0)):
        assert texts(world, near, "link down") == [f"link b{near} – b{far} is down: b{far} has been silent for 3 s"]


def test_a_killed_broker_is_out_of_reach_and_back() -> None:
    world = ring(5)
    world.nodes[3].kill()
    world.run(10.0)
    for number in (0, 1, 2):
        (found,) = texts(world, number, "leave")
        assert found.startswith(f"b3 is out of reach of b{number}: "), found
    assert texts(world, 1, "leave")[0].endswith("its links to b0, b2 are down")
    world.nodes[3].start()
    world.run(30.0)
    assert [text.partition(":")[0] for text in texts(world, 1, "join")] == ["b3 has restarted"]
    assert texts(world, 3) == [], "a starting broker has met them, which is no incident"


def test_a_broker_that_joins_later_is_named_with_its_links() -> None:
    world = World(6, brokers=3)
    world.link(0, 1, 0.001)
    world.link(2, 1, 0.001)
    for number in (0, 1):
        world.nodes[number].start()
    world.run(SETTLED_S)
    world.nodes[2].start()
    world.run(5.0)
    assert texts(world, 0, "join") == ["b2 joined: linked to b1"]


def test_the_log_is_bounded_and_sends_what_is_new() -> None:
    world = ring(7)
    log: IncidentLog = world.broker(1).explainer.incidents
    for life in range(KEPT_MAX + 20):
        node = world.nodes[3]
        (node.kill if life % 2 == 0 else node.start)()
        world.run(6.0)
    assert len(log.incidents) <= KEPT_MAX < log.recorded
    assert len(log.describe(0, 1e9)) == SENT_MAX
    assert [one["number"] for one in log.describe(log.recorded - 2, 1e9)] == [log.recorded - 1, log.recorded]


def test_lost_and_late_are_apart_and_unmatched_is_neither() -> None:
    assert DropReason.UNMATCHED not in LOST | LATE
    assert DropReason.DUPLICATE not in LOST | LATE
    assert not LOST & LATE
    world = ring(8)
    counters = world.broker(0).counters
    counters.dropped += Counter({DropReason.UNMATCHED: 500})
    world.run(3.0)
    assert everything(world) == []
    counters.dropped += Counter({DropReason.OUTBOX_ITEMS: 500, DropReason.UNMATCHED: 5000})
    world.run(3.0)
    assert texts(world, 0, "drops") == ["b0 loses 500 events a second: outbox_items"]
    counters.dropped += Counter({DropReason.LATE: 500})
    world.run(3.0)
    assert texts(world, 0, "late") == ["500 events a second are late for subscribers at b0"]
    assert len(texts(world, 0)) == 2


def test_refused_requests_of_clients_are_no_security_incidents() -> None:
    world = ring(10)
    for _ in range(3):
        for code in (Code.FILTER, Code.UNKNOWN, Code.LIMIT, Code.TAKEN):
            world.broker(0).counters.rejected[code] += 1
        world.run(12.0)
    assert everything(world) == []


def test_a_repeated_incident_is_counted_and_each_code_is_one_of_its_own() -> None:
    world = ring(11)
    log: IncidentLog = world.broker(0).explainer.incidents
    for _ in range(3):
        world.broker(0).counters.rejected[Code.AUTH] += 1
        world.run(12.0)
    (found,) = log.incidents
    assert (found.kind, found.text, found.times) == ("security", "b0 refused a caller: auth", 3)
    assert 20 < found.at - found.first_at < 30
    (said,) = log.describe(2, found.at + 1.0)
    assert (said["number"], said["count"], said["ago_s"]) == (3, 3, 1.0)
    assert said["first_ago_s"] > 20
    world.broker(0).counters.rejected[Code.AUTH] += 1
    world.run(2.0)
    world.broker(0).counters.faults["body"] += 1
    world.run(2.0)
    assert texts(world, 0)[-1] == "b0 refused a caller: body", "the repetition before it does not hide it"


def test_one_kind_does_not_push_out_the_others() -> None:
    world = ring(12)
    log: IncidentLog = world.broker(0).explainer.incidents
    log.record("leave", "x", "b9 has left", 0.0)
    for n in range(2 * KEPT_MAX):
        log.record("slow", "y", f"a client is slow: {n} events wait", float(n))
    assert len(log.incidents) == KEPT_MAX
    assert texts(world, 0, "leave") == ["b9 has left"]
    sent = log.describe(0, 1000.0)
    assert len(sent) == SENT_MAX
    assert sent[0]["text"] == "b9 has left"
