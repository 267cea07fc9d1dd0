"""Attacks of readers: they relabel their keys, and pool them."""

from __future__ import annotations

from dataclasses import replace

from plait_crypto import Credential, SubscriberKeys
from plait_crypto.keys import SubscriberBox

from .scene import BASE, Scene
from .writer import Cases, opening

NO = "not_authentic"


def credentials(scene: Scene) -> Cases:
    """Return cases of credentials under other labels, places, rows or epochs."""
    cases = Cases(scene.inputs, "Credentials that were relabelled: another place, label, row, epoch or realm.")
    issued = scene.issue("level == 3 and side == 'sell'")
    box = issued.boxes[0]
    paths = scene.realm().schema.paths(BASE, 0)
    for row, name in enumerate(("level", "side")):
        for place in range(1, len(paths[row])):
            label = Credential(place, paths[row][place])
            renamed = tuple((label, key) for _, key in box.rows[row])
            wholes = scene.issue("true").boxes[0]
            rows = tuple(renamed if at == row else wholes.rows[at] for at in range(2))
            keys = SubscriberKeys(issued.realm, 0, (replace(box, rows=rows),)).encode(scene.groups)
            comment = f"a key of another {name}, said to be of the event's at place {place}"
            cases.reader("relabelled", comment, "not_covered", opening(scene.base), keys=(keys,))
            clear = {name: BASE[name]}
            whole = scene.forger.seal(BASE, clear=clear)
            comment += "; the attribute is in the clear, so that no tag is tested"
            cases.reader("relabelled", comment, NO, opening(whole, clear), keys=(keys,))
    whole_of = tuple(((Credential(0, b""), key),) for ((_, key),) in box.rows)
    keys = SubscriberKeys(issued.realm, 0, (replace(box, rows=whole_of),)).encode(scene.groups)
    cases.reader(
        "relabelled", "keys of level 3 and sell, said to be of everything", NO, opening(scene.base), keys=(keys,)
    )
    everything = scene.issue("true").boxes[0]
    crossed = replace(everything, rows=everything.rows[::-1], seeds=everything.seeds[::-1])
    keys = SubscriberKeys(issued.realm, 0, (crossed,)).encode(scene.groups)
    cases.reader("relabelled", "keys of the whole attributes, rows exchanged", NO, opening(scene.base), keys=(keys,))
    tomorrow = replace(scene.issue("true", epoch=1), epoch=0).encode(scene.groups)
    cases.reader("relabelled", "keys of epoch 1, said to be of epoch 0", NO, opening(scene.base), keys=(tomorrow,))
    there = replace(scene.issue("true", "other parameters"), realm=issued.realm).encode(scene.groups)
    cases.reader("relabelled", "keys of another realm, said to be of this one", NO, opening(scene.base), keys=(there,))
    for filter in ("level == 0", "level >= 2", "level is null", "side == 'sell'", "level == 1 and side == 'sell'"):
        keys = scene.reader(filter, filter)
        cases.reader("not covered", f"keys for {filter}", "not_covered", opening(scene.base), keys=(keys,))
    absent = scene.forger.seal({"side": "buy"})
    cases.reader(
        "not covered",
        "an absent attribute, keys for all its values",
        "not_covered",
        opening(absent),
        keys=(scene.reader("has level", "has(level)"),),
    )
    return cases


def mixed(scene: Scene) -> Cases:
    """Return cases of keys of several sets in one."""
    cases = Cases(scene.inputs, "Keys of several sets, pooled: each set lacks a credential, together they have all.")
    one, two = scene.issue("level == 1 and side == 'sell'"), scene.issue("level == 2 and side == 'buy'")
    three, four = scene.issue("level == 1"), scene.issue("side == 'buy'")
    sealed = opening(scene.base)

    def ring(*boxes: SubscriberBox) -> tuple[bytes, ...]:
        return (SubscriberKeys(one.realm, 0, boxes).encode(scene.groups),)

    a, b, c, d = (keys.boxes[0] for keys in (one, two, three, four))
    for name, s4 in (("first", a.s4), ("second", b.s4), ("third", c.s4)):
        pooled = SubscriberBox(s4, (a.rows[0], b.rows[1]), (a.seeds[0], b.seeds[1]))
        cases.reader("pooled", f"level 1 of one, buy of another, S4 of the {name}", NO, sealed, keys=ring(pooled))
    cases.reader("pooled", "both honest boxes", "not_covered", sealed, keys=ring(a, b))
    cases.reader("pooled", "S4 of a set, all rows of another", NO, sealed, keys=ring(replace(c, s4=a.s4)))
    cases.reader(
        "pooled", "a row of another holder's set", NO, sealed, keys=ring(replace(c, rows=(c.rows[0], d.rows[1])))
    )
    level_1 = c.rows[0][0][1]
    level, side = a.rows[0][0], d.rows[1][0]
    parts = {
        "S1 of another set": replace(level[1], s1=level_1.s1),
        "S2 of another set": replace(level[1], s2=level_1.s2),
        "S1 and S2 exchanged": replace(level[1], s1=level[1].s2, s2=level[1].s1),
    }
    for comment, key in parts.items():
        box = replace(a, rows=(((level[0], key),), ((Credential(0, b""), c.rows[1][0][1]),)))
        cases.reader("pooled", f"{comment}, and the side of another", NO, sealed, keys=ring(box))
        own = replace(c, rows=(((level[0], replace(key, s1=level_1.s1, s2=level[1].s2)),), c.rows[1]))
        if comment == "S1 of another set":
            cases.reader("pooled", "S2 of another set in an own key", NO, sealed, keys=ring(own))
    routing = replace(c, rows=(((level[0], replace(level_1, s3=side[1].s3)),), c.rows[1]))
    cases.reader("pooled", "S3 of another credential", "not_covered", sealed, keys=ring(routing))
    group = scene.groups.g2
    summed = replace(level_1, s1=group.multiply(level_1.s1, level[1].s1), s2=group.multiply(level_1.s2, level[1].s2))
    box = SubscriberBox(group.multiply(c.s4, a.s4), (((level[0], summed),), d.rows[1]), (c.seeds[0], d.seeds[1]))
    cases.reader("pooled", "products of two sets' keys", NO, sealed, keys=ring(box))
    return cases
