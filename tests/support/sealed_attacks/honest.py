"""Events that open: they show that the refused ones are refused for their fault alone."""

from __future__ import annotations

from plait_core.sealed_opening import SEALED_HEAD
from plait_crypto.plaintext import Metadata, Plaintext, padded_size

from .forger import NOON_US, Session
from .scene import BASE, DAY_US, HOUR_US, Scene
from .writer import Cases, begin, decoding, opening, packed


def honest(scene: Scene) -> Cases:
    """Return cases that open."""
    cases = Cases(scene.inputs, "Events, sessions, payloads and keys that are valid.")
    seal, start = scene.forger.seal, begin(scene.session.opening)
    for name in ("all", "level 1", "buy"):
        keys = (scene.inputs.bytes[f"keys: {name}"],)
        cases.reader("opens", f"keys: {name}", "opens", opening(scene.base), keys=keys)
    union = scene.reader("union", "level == 3 or level == 1 and side == 'buy'")
    cases.reader("opens", "the second box of a union", "opens", opening(scene.base), keys=(union,))
    cases.reader("opens", "the second of two keys", "opens", opening(scene.base), keys=(scene.sells, scene.all))
    cases.reader(
        "opens", "keys added later", "opens", {"do": "add keys", "keys": scene.buys}, opening(scene.base), keys=()
    )
    absent = seal({"side": "buy"})
    cases.reader("opens", "an absent attribute, keys of everything", "opens", opening(absent))
    cases.reader(
        "opens",
        "an absent attribute, keys of its absence",
        "opens",
        opening(absent),
        keys=(scene.reader("no level", "level is null"),),
    )
    clear = {"side": "buy", "site": "north", "n": 1}
    mixed = seal({**BASE, **clear}, clear=clear, bound=b"bound")
    cases.reader(
        "opens", "clear attributes and bound data", "opens", opening(mixed, clear, b"bound"), keys=(scene.one,)
    )
    cases.reader(
        "opens", "clear attributes in another order", "opens", opening(mixed, dict(reversed(clear.items())), b"bound")
    )
    metadata = Metadata(NOON_US - 1, 10**9, 9, {"Trace-Id": "abc", "reply-to": "x"})
    cases.reader("opens", "headers, lifetime and priority", "opens", opening(seal(BASE, metadata=metadata)))
    cases.reader(
        "opens",
        "within its lifetime and five seconds",
        "opens",
        opening(seal(BASE, metadata=Metadata(NOON_US, 1_000_000)), now_us=NOON_US + 6_000_000),
    )
    values = {
        "big": 2**80,
        "low": -(2**70),
        "list": [1, -2, "x", None, True],
        "float": -0.5,
        "text": "é😀",
        "none": None,
    }
    cases.reader("opens", "values of all types", "opens", opening(seal({**BASE, **values})))
    for size in (0, 1, 5, 200, 1000):
        payload = bytes(place % 251 for place in range(size))
        cases.reader("opens", f"a payload of {size} bytes", "opens", opening(seal(BASE, payload)))
    for at in (0, 1, 2, 9, 100, 1000, 4096, 4097):
        assert padded_size(at) >= at
    cases.reader(
        "opens", "the last microsecond of the overlap", "opens", opening(scene.base), now_us=DAY_US + HOUR_US - 1
    )
    cases.reader("opens", "two events", "opens", opening(scene.base), opening(scene.other))
    cases.reader("opens", "a lower number after a higher one", "opens", opening(scene.other), opening(scene.base))
    cases.reader("opens", "published when the ring begins", "opens", opening(scene.base), since_us=NOON_US)
    narrow = scene.publisher("level <= 1 and side == 'buy' or level >= 2 and side == 'sell'")
    cases.reader(
        "opens",
        "signed with the second grant",
        "opens",
        opening(
            narrow.seal(
                {"level": 3, "side": "sell"},
                signer=(1, b"\1\1"),
                pairs=narrow.pairs(1, scene.realm().schema.paths({"level": 3, "side": "sell"}, 0)),
            )
        ),
    )

    def unsorted(encoded: bytes) -> bytes:
        at = 80 + 48 + 3 * 48
        return (
            encoded[:at]
            + encoded[at + 32 : at + 48]
            + encoded[at + 16 : at + 32]
            + encoded[at : at + 16]
            + encoded[at + 48 :]
        )

    cases.reader(
        "opens",
        "a publisher that sorts tags the other way harms only itself",
        "opens",
        opening(seal(BASE, change_capsule=unsorted)),
        keys=(scene.one,),
    )
    slotted = scene.publisher("true", realm="slots")
    noon = slotted.seal({"side": "buy"}, time=(0, 1))
    afternoon = scene.reader("slot 1", "true", realm="slots", slots=(1, 2))
    cases.reader("opens", "keys of the event's slot", "opens", opening(noon), realm="slots", keys=(afternoon,))
    quotes = scene.publisher("true", realm="quotes")
    quote = quotes.seal({"price": 121.5, "symbol": "IBM", "venue": "X"}, clear={"venue": "X"})
    for filter in (
        "price < 128",
        "price >= 121 and price < 122",
        "symbol startswith 'IB'",
        "symbol endswith 'M'",
        "symbol == 'IBM'",
        "has(symbol)",
    ):
        keys = scene.reader(f"quotes, {filter}", filter, "quotes")
        cases.reader(
            "opens", f"keys for {filter}", "opens", opening(quote, {"venue": "X"}), realm="quotes", keys=(keys,)
        )
    short = quotes.seal({"price": 0, "symbol": "é"})
    cases.reader(
        "opens",
        "a text of one character",
        "opens",
        opening(short),
        realm="quotes",
        keys=(scene.reader("quotes, e", "symbol startswith 'é'", "quotes"),),
    )
    empty = quotes.seal({"price": 255.5, "symbol": ""})
    cases.reader(
        "opens",
        "an empty text",
        "opens",
        opening(empty),
        realm="quotes",
        keys=(scene.reader("quotes, empty", "symbol == ''", "quotes"),),
    )
    for number, member in enumerate(scene.members):
        cases.reader("session", f"member {number} of a batch of three", "opens", start, opening(member))
    alone = scene.session.members([BASE], 3)[0]
    cases.reader("session", "a batch of one", "opens", start, opening(alone))
    full = scene.session.members([BASE] * 64, 4)
    for leaf in (0, 31, 63):
        cases.reader("session", f"leaf {leaf} of a full batch", "opens", start, opening(full[leaf]))
    last = scene.session.members([BASE], 65_535)[0]
    cases.reader("session", "the last number", "opens", start, opening(last))
    told = scene.session.members([{**BASE, "site": "north"}], 200, clear={"site": "north"}, bound=b"bound")[0]
    cases.reader(
        "session", "clear attributes and bound data", "opens", start, opening(told, {"site": "north"}, b"bound")
    )
    cases.reader(
        "session",
        "two sessions in turn",
        "opens",
        start,
        begin(scene.second.opening),
        opening(scene.members[0]),
        opening(scene.second.members([BASE])[0]),
    )
    longest = Session(scene.forger, BASE, until_us=NOON_US + 60_000_000 + HOUR_US)
    cases.reader("session", "the latest end that is accepted", "valid", begin(longest.opening))
    payload = {"do": "open payload", "clear": packed({}), "bound": ""}
    payloads = [
        SEALED_HEAD.pack(2, len(scene.session.opening)) + scene.session.opening + each for each in scene.members
    ]
    cases.reader(
        "payload", "two payloads of a session", "opens", *({**payload, "payload": each} for each in payloads[:2])
    )
    for what in ("publisher keys", "subscriber keys", "routing tokens", "parameters", "master secret"):
        cases.plain("keys", what, "valid", decoding(what, scene.inputs.bytes[what]))
    cases.plain("keys", "an empty deposit", "valid", decoding("deposit", b""))
    assert Plaintext.decode(Plaintext({}, b"").encode()) == Plaintext({}, b"")
    return cases
