"""Routing by tags: deposits match exactly the sessions that their keys open, in any realm."""

from __future__ import annotations

from random import Random

import pytest
from sealed_world import HOUR_US, World, areas, foundations, quotes

from plait_core import parse
from plait_core.limits import DEPOSIT_BYTES_MAX
from plait_core.sealed_opening import Fit, opening_of
from plait_crypto import (
    Authority,
    Draft,
    KeyInvalid,
    Keyring,
    PayloadSealer,
    Router,
    RoutingTokens,
    SealInvalid,
    SessionSealer,
    SubscriberKeys,
    Unopenable,
    deposit,
)
from plait_crypto.attributes.credentials import WHOLE
from plait_crypto.hazmat import MasterSecret
from plait_crypto.hazmat.backend import G2
from plait_crypto.routing import POINTS_PER_STEP, TagTest, deposited

FILTER = "area < 16 and location == 'London' or area == 99"
FITS, OTHER, UNDECIDED = Fit.FITS, Fit.OTHER, Fit.UNDECIDED


@pytest.fixture
def world() -> World:
    return World.of(areas())


def opening(world: World, **attributes: object) -> bytes:
    sessions = SessionSealer(world.publisher())
    sessions.seal([Draft(attributes)], now_us=world.now_us, randomness=world.rng)  # type: ignore[arg-type]
    return sessions.openings()[0]


def deposits(world: World, *filters: str) -> list[bytes]:
    return [deposit(world.groups, [world.keys(filter).routing(world.groups)]) for filter in filters]


def test_deposits_fit_what_keys_open(world: World) -> None:
    router = Router(world.groups)
    mine = deposits(world, FILTER, "location == 'Paris'", "area >= 64", "true")
    for area, location in [(3, "London"), (99, "Paris"), (70, "Paris"), (20, "London")]:
        expected = [
            (area < 16 and location == "London") or area == 99,
            location == "Paris",
            area >= 64,
            True,
        ]
        found = router.test(opening(world, area=area, location=location), mine)
        assert found == [FITS if each else OTHER for each in expected]


def test_a_deposit_opens_nothing(world: World) -> None:
    routing = world.keys(FILTER).routing(world.groups)
    with pytest.raises(KeyInvalid):
        SubscriberKeys.decode(world.groups, routing.encode(world.groups))


def test_a_deposit_tells_neither_places_nor_which_attributes_are_constrained(world: World) -> None:
    """All rows of a conjunction have the same number of points, and their order is that of their bytes."""
    for filter, points in [
        ("area == 5", 1),
        ("location == 'Paris'", 1),
        ("true", 1),
        ("area between 1 and 6", 4),
        ("area between 1 and 6 and location == 'Paris'", 4),
        ("area between 1 and 14", 8),
    ]:
        (box,) = world.keys(filter).routing(world.groups).boxes
        assert [len(row) for row in box] == [points, points], filter
        for row in box:
            encoded = [world.groups.g2.encode(token) for token in row]
            assert encoded == sorted(set(encoded))


# --- fillers: what two deposits tell together -------------------------------------------------------------------------

FOUR, EIGHT = "area between 1 and 6", "area between 1 and 14"
"""Conditions that need so many credentials. Fillers bring the other row to the same number."""


def rows(world: World, filter: str) -> list[set[bytes]]:
    """Return the points of each row of the only conjunction of a filter, which is issued anew."""
    (box,) = world.keys(filter).routing(world.groups).boxes
    return [set(map(world.groups.g2.encode, row)) for row in box]


def tokens(world: World, filter: str, row: int) -> set[bytes]:
    """Return the points of a row that are tokens, as a member with keys for the filter knows."""
    return set(map(world.groups.g2.encode, world.keys(filter).boxes[0].exact[row].tokens))


@pytest.mark.parametrize(
    "filter", [FOUR, f"{EIGHT} and location == 'Paris'", f"{FOUR} and location == 'Paris' or {EIGHT}"]
)
def test_two_issues_of_one_filter_have_one_deposit(world: World, filter: str) -> None:
    """Otherwise who sees both, as after a renewal, would see which points are in both: the tokens."""
    one, two = deposits(world, filter, filter)
    assert one == two
    keys = world.keys(filter, holder="another")
    decoded = SubscriberKeys.decode(world.groups, keys.encode(world.groups))
    assert deposit(world.groups, [decoded.routing(world.groups)]) == one
    replica = Authority(world.realm, MasterSecret.decode(world.groups, foundations()[1].encode()))
    assert deposits(World(replica, Random(99)), filter) == [one]


def test_keys_that_were_issued_again_leave_the_deposit_of_a_ring_alone(world: World) -> None:
    filters = [FOUR, "location == 'Paris'"]
    ring = world.reader(*filters)
    before = ring.deposit()
    for filter in filters:
        ring.add(world.keys(filter))
    assert ring.deposit() == before == world.reader(*reversed(filters)).deposit()


def test_a_row_that_two_filters_have_in_common_is_the_same_in_both(world: World) -> None:
    paris, london = (rows(world, f"{FOUR} and location == '{place}'") for place in ("Paris", "London"))
    assert paris[0] == london[0]
    assert not paris[1] & london[1]


def test_a_row_in_a_larger_deposit_has_the_points_that_it_has_in_a_smaller_one(world: World) -> None:
    """Else the tokens alone would be in both."""
    four, eight = (rows(world, f"{area} and location == 'Paris'")[1] for area in (FOUR, EIGHT))
    assert (len(four), len(eight)) == (4, 8)
    assert four < eight


def test_rows_that_overlap_share_their_tokens_and_no_filler(world: World) -> None:
    """This is what deposits tell of the overlap of two filters. They cannot hide it (`fillers`)."""
    one, other = "area between 1 and 6", "area between 2 and 9"
    shared = rows(world, one)[0] & rows(world, other)[0]
    assert shared == tokens(world, one, 0) & tokens(world, other, 0) != set()


def test_fillers_are_of_one_epoch_and_one_master_secret(world: World) -> None:
    filter = f"{FOUR} and location == 'Paris'"
    now, elsewhere = rows(world, filter), rows(World.of(areas(), 2), filter)
    world.now_us += 24 * HOUR_US
    for row in range(2):
        assert len(now[row] | elsewhere[row] | rows(world, filter)[row]) == 12


def test_coarse_tokens_have_the_fillers_of_their_credentials(world: World) -> None:
    """Coarse tokens of one filter can be the exact ones of another."""
    asked = {"epoch": 0, "now_us": world.now_us, "randomness": world.rng, "coarse": 1}
    fine = parse("area between 6 and 9 and location == 'Paris'")
    coarse = world.authority.subscriber_keys("reader", fine, **asked).routing(world.groups, coarse=True)  # type: ignore[arg-type]
    wide = world.keys("area between 4 and 11").routing(world.groups)
    assert coarse.encode(world.groups) == wide.encode(world.groups)


# --- results of tests -------------------------------------------------------------------------------------------------


def test_results_of_tag_tests_are_cached(world: World) -> None:
    router, mine = Router(world.groups), deposits(world, FILTER, "location == 'Paris'")
    one = opening(world, area=99, location="Paris")
    assert router.test(one, mine) == [FITS, FITS]
    before = router.pairings
    assert router.test(one, mine) == [FITS, FITS]
    assert 0 < before == router.pairings


def test_a_test_is_taken_in_parts_by_any_router(world: World) -> None:
    """No part takes more steps than it may, and the result is that of a test without parts."""
    routers = [Router(world.groups), Router(world.groups)]
    for filter in ("area between 1 and 14", "area == 5", "location == 'Paris'", FILTER, "true"):
        (mine,) = deposits(world, filter)
        for area in (3, 5, 99):
            now = opening(world, area=area, location="Paris")
            test, parts = TagTest(now, mine), 0
            while test.fit is None:
                before = sum(router.pairings for router in routers)
                taken = routers[parts % 2].run(test, 1)
                assert taken in (0, 1)
                assert sum(router.pairings for router in routers) - before <= taken
                parts += 1
            assert [test.fit] == Router(world.groups).test(now, [mine])
            assert routers[0].run(test, 100) == 0, "it has ended"


def test_the_largest_deposit_costs_a_part_no_more_than_any_other(world: World) -> None:
    tokens = tuple(world.groups.hash_to_g2(b"%d" % number, b"test") for number in range(600))
    hostile = deposit_of(world, (tokens[:400], tokens[400:]))
    test, router, steps = TagTest(opening(world, area=3, location="Paris"), hostile), Router(world.groups), []
    while test.fit is None:
        steps.append(router.run(test, 16))
    assert test.fit is OTHER
    assert set(steps[:-1]) == {16}
    assert sum(steps) == 600 / POINTS_PER_STEP + 400, "all points are decoded; no tag of the first row fits"


def deposit_of(world: World, *boxes: tuple[tuple[G2, ...], ...]) -> bytes:
    """Deposit these points for the present epoch, without the checks of `deposit`."""
    encoded = RoutingTokens(world.realm.digest, 0, boxes).encode(world.groups)
    return len(encoded).to_bytes(4, "big") + encoded


def test_subscriptions_with_a_credential_in_common_share_its_test(world: World) -> None:
    router = Router(world.groups)
    mine = deposits(world, "location == 'Paris'", "area >= 64 and location == 'Paris'", "location == 'Paris'")
    router.test(opening(world, area=3, location="Paris"), mine[:1])
    assert router.pairings == 2, "the whole area, and the location"
    router.test(opening(world, area=3, location="Paris"), mine)
    assert router.pairings == 5, "another opening needs these tests, and one of the other area"


def test_keys_of_another_epoch_realm_or_shape_decide_nothing(world: World) -> None:
    router, now = Router(world.groups), opening(world, area=3, location="Paris")
    other = World.of(quotes())
    assert router.test(now, deposits(other, "side == 'buy'")) == [UNDECIDED]
    claimed = RoutingTokens(world.realm.digest, 0, other.keys("side == 'buy'").routing(world.groups).boxes)
    assert router.test(now, [deposit(world.groups, [claimed])]) == [UNDECIDED]
    (today,) = deposits(world, "area == 5")
    assert router.test(now, [today]) == [OTHER]
    keys = [world.keys("area == 5").routing(world.groups)]
    world.now_us += 24 * HOUR_US
    tomorrow = opening(world, area=5, location="Paris")
    assert router.test(tomorrow, [today]) == [UNDECIDED]
    both = deposit(world.groups, [*keys, world.keys("area == 5").routing(world.groups)])
    assert router.test(tomorrow, [both]) == [FITS]
    assert router.test(now, [both]) == [OTHER]


def test_a_deposit_that_cannot_be_read_decides_nothing(world: World) -> None:
    router, now = Router(world.groups), opening(world, area=3, location="Paris")
    (whole,) = deposits(world, "area == 5")
    rng = Random(3)
    for length in range(1, len(whole), 37):
        assert router.test(now, [whole[:length]]) == [UNDECIDED]
    for _ in range(100):
        changed = bytearray(whole)
        changed[rng.randrange(len(changed))] ^= 1 << rng.randrange(8)
        assert router.test(now, [bytes(changed)])[0] in (UNDECIDED, OTHER)


def test_a_deposit_whose_length_lies_is_refused(world: World) -> None:
    (whole,) = deposits(world, "area == 5")
    length = int.from_bytes(whole[:4], "big")
    assert len(deposited(world.groups, whole)) == 1
    for lie in (length - 1, length + 1, 2**32 - 1):
        with pytest.raises(KeyInvalid):
            deposited(world.groups, lie.to_bytes(4, "big") + whole[4:])


def test_malformed_openings_are_unopenable(world: World) -> None:
    router, (mine,) = Router(world.groups), deposits(world, "area == 5")
    whole = opening(world, area=5, location="Paris")
    sealed = world.seal(world.publisher(), {"area": 5, "location": "Paris"})
    off_curve = bytearray(whole)
    at = whole.index(b"\2") and 42 + 1 + 2 + 80
    off_curve[at : at + 48] = b"\xc0" + bytes(47)
    for wrong in (b"", b"\1\1", whole[:-600], sealed.envelope, bytes(off_curve)):
        with pytest.raises(Unopenable):
            router.test(wrong, [mine])


def test_a_router_and_a_deposit_are_bounded(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("plait_crypto.routing.RESULTS_KEPT", 2)
    router = Router(world.groups)
    for area in (1, 2, 3):
        router.test(opening(world, area=area, location="Paris"), deposits(world, f"area == {area}"))
    assert {len(cache) for cache in (router._tags, router._tokens, router._rows)} == {2}
    keys = world.keys("area == 5").routing(world.groups)
    assert deposit(world.groups, [keys])
    many = (RoutingTokens(keys.realm, epoch, keys.boxes) for epoch in range(DEPOSIT_BYTES_MAX // 100))
    with pytest.raises(SealInvalid, match="brokers take") as refused:
        deposit(world.groups, many)
    assert 'deposit="coarse"' in refused.value.hint


def test_a_parcel_shows_its_opening(world: World) -> None:
    sessions = SessionSealer(world.publisher())
    _, payload = PayloadSealer(sessions).seal(
        Draft({"area": 3, "location": "Paris"}), now_us=world.now_us, randomness=world.rng
    )
    assert opening_of(payload) == sessions.openings()[0]
    for wrong in (b"", payload[:4], payload[:100], b"\1" + payload[1:], b"\2" + bytes(4) + payload):
        assert opening_of(wrong) is None


def test_coarse_tokens_match_more_and_open_nothing(world: World) -> None:
    keys = world.authority.subscriber_keys(
        "reader",
        parse("area between 17 and 18 and location == 'Paris'"),
        epoch=0,
        now_us=world.now_us,
        randomness=world.rng,
        coarse=2,
    )
    again = SubscriberKeys.decode(world.groups, keys.encode(world.groups))
    assert again.encode(world.groups) == keys.encode(world.groups)
    exact, coarse = (deposit(world.groups, [again.routing(world.groups, coarse=wide)]) for wide in (False, True))
    router = Router(world.groups)
    for area, location, exactly, coarsely in [
        (17, "Paris", FITS, FITS),
        (19, "Paris", OTHER, FITS),
        (16, "London", OTHER, FITS),
        (24, "Paris", OTHER, OTHER),
    ]:
        assert router.test(opening(world, area=area, location=location), [exact, coarse]) == [exactly, coarsely]
    ring = Keyring(world.realm)
    ring.add(again)
    sealed = world.seal(world.publisher(), {"area": 19, "location": "Paris"})
    with pytest.raises(Unopenable):
        world.open(ring, sealed)
    with pytest.raises(SealInvalid, match="no coarse tokens"):
        world.keys("area == 17").routing(world.groups, coarse=True)


def test_wider_credentials_are_those_above() -> None:
    schema = quotes()
    (box,) = schema.boxes(parse("price between 32 and 63.5 and symbol == 'IBM' and side == 'buy'"), widen=True)
    wider = schema.wider(box, 1)
    for attributes in (
        {"price": 40.0, "symbol": "IBM", "side": "buy"},
        {"price": 33.0, "symbol": "IBX", "side": "sell"},
    ):
        for row, labels in zip(wider, schema.paths(attributes, 0), strict=True):
            assert any(labels[credential.place] == credential.label for credential in row)
    assert schema.wider(box, 99) == tuple((WHOLE,) for _ in box)
