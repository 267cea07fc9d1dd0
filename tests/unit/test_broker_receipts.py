"""What a publisher hears of an event that not everyone has acknowledged: who, how many, and what it can do."""

from __future__ import annotations

import pytest

from plait_broker import BrokerSettings
from plait_core.limits import CLOSE_TEXT_MAX, NAME_BYTES_MAX
from plait_core.wire import Confirm
from plait_core.wire.session_frames import Code, Refusal
from plait_lab.simulation.disks import DiskTerms
from plait_lab.simulation.raw_clients import RawClient
from plait_lab.simulation.stage import Stage

WAIT_S = 30.0
PATIENT = BrokerSettings(resume_s=1.0)
BACK = "use confirm='broker' to wait for the log alone, or `plait ls subs` to see who is away"


def absent(stage: Stage, *names: str) -> None:
    """Durable subscriptions of clients that have gone."""
    for name in names:
        client = stage.raw(f"client {len(name)} {name[:9]}")
        client.subscribe(1, durable=name)
        stage.run(1)
        assert client.connection is not None
        client.connection.close(client, abort=True)
        stage.run(3)


def refusal_of(stage: Stage, publisher: RawClient) -> Refusal:
    """Of an event that waits for its subscribers in vain."""
    sequence = publisher.publish(Confirm.SUBSCRIBERS, n=1)
    stage.run(WAIT_S + 0.5)
    (refusal,) = publisher.of(Refusal)
    assert (refusal.sequence, refusal.code) == (sequence, Code.TIMEOUT)
    publisher.publish_as(sequence, Confirm.SUBSCRIBERS, n=1)
    stage.run(1)
    assert publisher.of(Refusal)[1] == refusal, "whoever repeats it hears the same"
    return refusal


def test_an_absent_durable_subscription_is_named_with_what_to_do() -> None:
    stage = Stage(PATIENT)
    publisher, here = stage.raw("publisher"), stage.raw("here")
    absent(stage, "reader")
    here.subscribe(1)
    here.subscribe(2)
    stage.run(1)
    here.acknowledges = True
    refusal = refusal_of(stage, publisher)
    assert refusal.message == (
        "not confirmed within 30 s: 1 of 3 has not acknowledged it: durable subscription 'reader' (its client is away)"
    )
    assert refusal.hint == f"it is stored and will be delivered when 'reader' is back; {BACK}"


def test_three_are_named_and_the_others_counted() -> None:
    stage = Stage(PATIENT)
    publisher = stage.raw("publisher")
    absent(stage, "a", "b", "c", "d", "e")
    refusal = refusal_of(stage, publisher)
    named = ", ".join(f"durable subscription '{name}' (its client is away)" for name in "abc")
    assert refusal.message == f"not confirmed within 30 s: 5 of 5 have not acknowledged it: {named} and 2 more"
    assert refusal.hint == f"it is stored and will be delivered when they are back; {BACK}"


def test_names_of_any_length_fit() -> None:
    stage = Stage(PATIENT)
    publisher = stage.raw("publisher")
    absent(stage, *(letter * NAME_BYTES_MAX for letter in "abc"))
    refusal = refusal_of(stage, publisher)
    assert len(refusal.message) == CLOSE_TEXT_MAX
    assert "'aaa" in refusal.message


def test_one_that_is_there_and_says_nothing_is_named_by_its_client() -> None:
    stage = Stage(PATIENT)
    publisher, silent = stage.raw("publisher"), stage.raw("silent")
    silent.subscribe(1)
    silent.subscribe(2, durable="mine")
    stage.run(1)
    refusal = refusal_of(stage, publisher)
    assert refusal.message == (
        "not confirmed within 30 s: 2 of 2 have not acknowledged it: "
        "a subscription of client 'silent', durable subscription 'mine'"
    )
    assert not refusal.hint, "nobody is away"


@pytest.mark.parametrize("level", [Confirm.BROKER, Confirm.SUBSCRIBERS])
def test_a_log_that_is_not_done_is_what_is_waited_for(level: Confirm) -> None:
    stage = Stage(PATIENT, disk=DiskTerms())
    publisher, reader = stage.raw("publisher"), stage.raw("reader")
    reader.subscribe(1, durable="mine")
    stage.run(1)
    stage.disk.terms.slow_s = 60.0
    publisher.publish(level, n=1)
    stage.run(WAIT_S + 0.5)
    (refusal,) = publisher.of(Refusal)
    assert refusal.message == "not confirmed within 30 s: the log has not stored it yet"
    assert "/readyz" in refusal.hint
