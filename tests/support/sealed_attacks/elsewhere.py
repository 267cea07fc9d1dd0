"""Attacks of brokers and strangers who send events at another time, once more, or to another realm."""

from __future__ import annotations

from plait_crypto import Metadata

from .forger import NOON_US
from .scene import BASE, DAY_US, HOUR_US, Scene, replaced
from .writer import Cases, begin, opening

NO = "not_authentic"


def time(scene: Scene) -> Cases:
    """Return cases of epochs and slots that are over, and of events that come again."""
    cases = Cases(
        scene.inputs, "Events of epochs, slots and sessions that are over or have not begun; events that come again."
    )
    stale, replay = "stale_epoch", "replayed"
    later = scene.reader("epoch 1", "true", epoch=1)
    both = (scene.all, later)
    end = DAY_US + HOUR_US
    cases.reader("stale epoch", "an hour of overlap after its end", stale, opening(scene.base), now_us=end, keys=both)
    cases.reader("stale epoch", "two epochs later", stale, opening(scene.base), now_us=2 * DAY_US, keys=both)
    tomorrow = scene.inputs.put("event of epoch 1", scene.publisher("true", epoch=1).seal(BASE, time=(1, 0)))
    before = DAY_US - HOUR_US - 1
    cases.reader("stale epoch", "a microsecond before the overlap", stale, opening(tomorrow), now_us=before, keys=both)
    cases.reader("stale epoch", "keys of the epoch before only", "missing_key", opening(tomorrow), now_us=DAY_US)
    cases.reader("stale epoch", "keys of the epoch after only", "missing_key", opening(scene.base), keys=(later,))
    cases.reader("stale epoch", "no keys at all", "missing_key", opening(scene.base), keys=())
    far = replaced(scene.base, "epoch", b"\xff" * 4)
    cases.reader("stale epoch", "the last epoch", stale, opening(far))
    cases.reader(
        "relabelled epoch",
        "of epoch 0, said to be of epoch 1",
        NO,
        opening(replaced(scene.base, "epoch", b"\0\0\0\1")),
        now_us=DAY_US,
        keys=both,
    )
    cases.reader(
        "stale slot", "a slot of an epoch without slots", stale, opening(replaced(scene.base, "slot", b"\0\0\0\1"))
    )
    slotted = scene.publisher("true", realm="slots")
    noon = scene.inputs.put("event of slot 1", slotted.seal({"side": "buy"}, time=(0, 1)))
    everything = scene.reader("slots, all", "true", realm="slots")
    morning = scene.reader("slot 0", "true", realm="slots", slots=(0, 1))
    cases.reader("stale slot", "keys of another slot", "not_covered", opening(noon), realm="slots", keys=(morning,))
    for slot, expected in ((0, NO), (2, stale), (2**31, stale)):
        changed = noon[:22] + slot.to_bytes(4, "big") + noon[26:]
        cases.reader(
            "stale slot", f"relabelled as slot {slot}", expected, opening(changed), realm="slots", keys=(everything,)
        )
    cases.reader(
        "stale slot",
        "relabelled, to a reader of that slot",
        NO,
        opening(noon[:22] + bytes(4) + noon[26:]),
        realm="slots",
        keys=(morning,),
    )
    cases.reader("replay", "the same event again", replay, opening(scene.base), opening(scene.base))
    again = scene.forger.seal(BASE, b"sealed anew", sequence=1)
    cases.reader("replay", "another event with the same number", replay, opening(scene.base), opening(again))
    window = scene.forger.seal(BASE, sequence=100_000)
    cases.reader("replay", "a number far below the highest", replay, opening(window), opening(scene.base))
    cases.reader("replay", "published before the ring can tell", replay, opening(scene.base), since_us=NOON_US + 1)
    first = scene.members[0]
    cases.reader("replay", "a member again", replay, begin(scene.session.opening), opening(first), opening(first))
    cases.reader(
        "replay",
        "a member published before the ring can tell",
        replay,
        begin(scene.session.opening),
        opening(first),
        since_us=NOON_US + 1,
    )
    brief = scene.forger.seal(BASE, metadata=Metadata(NOON_US, 1_000_000))
    late = NOON_US + 6_000_001
    cases.reader("expired", "its lifetime and five seconds are over", "expired", opening(brief), now_us=late)
    return cases


def realms(scene: Scene) -> Cases:
    """Return cases of other realms, versions and kinds."""
    cases = Cases(scene.inputs, "Events of another realm, version or kind.")
    other = "another_realm"
    there = scene.reader("other parameters", "true", realm="other parameters")
    quotes = scene.reader("quotes, all", "true", realm="quotes")
    cases.reader(
        "another realm",
        "other parameters, the same schema",
        other,
        opening(scene.base),
        realm="other parameters",
        keys=(there,),
    )
    cases.reader(
        "another realm",
        "another schema, the same parameters",
        other,
        opening(scene.base),
        realm="quotes",
        keys=(quotes,),
    )
    cases.reader(
        "another realm",
        "an opening of other parameters",
        other,
        begin(scene.session.opening),
        realm="other parameters",
        keys=(there,),
    )
    foreign = scene.publisher("true", realm="other parameters").seal(BASE)
    renamed = scene.inputs.put("event of other parameters", foreign)
    cases.reader("another realm", "sealed there", other, opening(foreign))
    cases.reader(
        "another realm",
        "sealed there, with this realm's name",
        NO,
        opening(replaced(renamed, "realm", scene.realm().short_name)),
    )
    shorter = scene.publisher("true", realm="slots").seal({"side": "buy"}, time=(0, 0), name=scene.realm().short_name)
    cases.reader("another realm", "the shape of another schema, with this realm's name", other, opening(shorter))
    for version in (0, 1, 3, 255):
        cases.reader("version", f"version {version}", NO, opening(replaced(scene.base, "version", bytes((version,)))))
    for kind in (0, 4, 255):
        cases.reader("kind", f"kind {kind}", NO, opening(replaced(scene.base, "kind", bytes((kind,)))))
    cases.reader("kind", "an event said to be an opening, opened", NO, opening(replaced(scene.base, "kind", b"\2")))
    cases.reader("kind", "an event said to be an opening, begun", NO, begin(replaced(scene.base, "kind", b"\2")))
    cases.reader("kind", "an event, begun", NO, begin(scene.base))
    cases.reader("kind", "an opening, opened as an event", NO, opening(scene.session.opening))
    cases.reader("kind", "an opening said to be an event", NO, opening(replaced(scene.session.opening, "kind", b"\1")))
    cases.reader("kind", "an event said to be a member", NO, opening(replaced(scene.base, "kind", b"\3")))
    return cases
