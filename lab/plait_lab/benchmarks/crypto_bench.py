"""Sealed events: the thesis' operations beside its table 5.3 and the reference backend, sessions, tags, sizes.

Figures are the shortest of several runs with prepared credentials (`hazmat.prepared`); the first run is listed beside.
The thesis measured at about 80 bits of security; these curves have about 120.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterator
from random import Random
from time import perf_counter
from typing import Any

from plait_broker.deposits import CLIENT, Deposits
from plait_broker.pipeline.sealed_matching import TagMatcher
from plait_broker.pipeline.tag_test_worker import TagTestWorker
from plait_core import Event, parse
from plait_core.sealed_opening import SEALED, Fit
from plait_core.space import IntRange
from plait_core.wire import Confirm, Publish
from plait_core.wire.event_block import encode_block
from plait_crypto import (
    Authority,
    Draft,
    Epochs,
    Keyring,
    Numbers,
    PayloadSealer,
    Realm,
    Router,
    Schema,
    Sealer,
    SessionSealer,
)
from plait_crypto.envelope import overhead_bytes
from plait_crypto.hazmat import (
    ArkworksGroups,
    Groups,
    MasterSecret,
    Parameters,
    set_up,
)
from plait_keyserver import PublisherRing, SubscriberRing

from .groups import Group, Session
from .measurement.baselines import WrongAnswer
from .measurement.sealed.key_server_load import GARBAGE_PER_S, run_load
from .measurement.sealed.operations import MESSAGE, NOW_US, Times, best, issuing, operations, pairing, size, timed
from .measurement.sealed.refusal_timing import refusals
from .reports import Figure, Target

_ROWS = (1, 2, 4, 8, 16)


def crypto_figures(session: Session) -> Iterator[Figure]:
    """Yield all figures of sealed events."""
    rng = Random(session.seed)
    parameters, master = set_up(ArkworksGroups(), rng)
    yield from _primitives(parameters, session)
    slow = _reference(session)
    for rows in _ROWS:
        session.progress(f"{rows} attributes of 16 values")
        times = operations(parameters, master, rows, 5, rng, session.size(7, 2))
        yield from _operation_figures(rows, times, slow if rows == 1 else None)
    session.progress("4 attributes of 2**16 values")
    times = operations(parameters, master, 4, 17, rng, session.size(5, 2))
    for name in ("seal", "sign", "open", "verify", "first_seal"):
        measure = f"{name.replace('_', ' ')}, 4 attributes of 2^16 values"
        yield Figure(measure, getattr(times, name), "ms")
    yield _issuing(parameters, master, rng, session.size(64, 4))
    yield from _sizes(parameters, master, rng)
    yield from _refusals(parameters, master, rng, session.size(40, 3))
    yield from _sessions(parameters, master, rng, session.size(16_384, 512))
    yield from _key_server(session)


GROUP = Group("crypto", "Sealed events: the scheme, sessions, routing by tags", crypto_figures)


def _operation_figures(rows: int, times: Times, slow: Times | None) -> Iterator[Figure]:
    thesis = {
        "seal": 6.9 + 5.4 * rows,
        "sign": 6.32 * rows,
        "open": 6.2 + 6.1 * rows,
        "verify": 19.3 + 0.001 * rows,
    }
    targets = {"seal": 2 + 1.5 * rows, "sign": 0.5 + 0.4 * rows, "open": 1.5 + 0.8 * rows, "verify": 2 + 0.5 * rows}
    for name, target in targets.items():
        measure = f"{name}, {rows} attribute{'s' * (rows > 1)} of 16 values"
        beside = {"thesis": thesis[name]}
        if name == "seal":
            beside["the first time"] = times.first_seal
        if slow is not None:
            beside["reference backend"] = getattr(slow, name)
        yield Figure(measure, getattr(times, name), "ms", Target("<=", target), beside)


def _issuing(parameters: Parameters, master: MasterSecret, rng: Random, count: int) -> Figure:
    took = issuing(parameters, master, count, rng, 3)
    return Figure("issuing a subscriber's key of one credential", took, "ms", Target("<=", 1.0))


def _primitives(parameters: Parameters, session: Session) -> Iterator[Figure]:
    """Measure the primitives, which show the machine's speed."""
    groups: Groups = parameters.groups
    repeats, exponent = session.size(20, 3), 2**254 + 12345
    calls: dict[str, Callable[[], object]] = {
        "a power in G1": lambda: groups.g1.power(parameters.h, exponent),
        "a power in G2": lambda: groups.g2.power(parameters.g2, exponent),
        "a hash to G2": lambda: groups.hash_to_g2(MESSAGE, b"bench"),
    }
    yield Figure("one pairing", pairing(groups, parameters, repeats), "ms")
    for name, call in calls.items():
        yield Figure(name, best(call, repeats)[0], "ms")


def _reference(session: Session) -> Times | None:
    """Measure one attribute with the reference backend, once."""
    try:
        from plait_crypto.hazmat.reference import ReferenceGroups
    except ImportError as error:
        session.progress(f"reference backend left out: {error}")
        return None
    session.progress("the reference backend: one attribute, once")
    parameters, master = set_up(ReferenceGroups(), Random(session.seed))
    return operations(parameters, master, 1, session.size(5, 2), Random(session.seed), 1)


# --- envelopes, sessions, routing -------------------------------------------------------------------------------------


def _members(
    parameters: Parameters, master: MasterSecret, rows: int, bits: int, rng: Random
) -> tuple[Sealer, Keyring, Router, bytes]:
    trees = {f"a{row}": Numbers(IntRange(0, 2**bits - 1)) for row in range(rows)}
    authority = Authority(Realm(parameters, Schema(trees, Epochs(0, 10**12, 10**9))), master)
    terms: dict[str, Any] = {"epoch": 0, "now_us": NOW_US, "randomness": rng}
    filter = parse(" and ".join(f"a{row} < {2 ** (bits - 1)}" for row in range(rows)))
    sealer, ring = Sealer(authority.realm, 7), Keyring(authority.realm)
    sealer.add(authority.publisher_keys("p", 7, parse("true"), **terms))
    keys = authority.subscriber_keys("s", filter, **terms)
    ring.add(keys)
    return sealer, ring, Router(parameters.groups), ring.deposit()


def _refusals(parameters: Parameters, master: MasterSecret, rng: Random, count: int) -> Iterator[Figure]:
    """Measure refusals for a subscriber that constrains only the first attribute: tags do not test the second."""
    trees = {f"a{row}": Numbers(IntRange(0, 15)) for row in range(2)}
    authority = Authority(Realm(parameters, Schema(trees, Epochs(0, 10**12, 10**9))), master)
    terms: dict[str, Any] = {"epoch": 0, "now_us": NOW_US, "randomness": rng}
    sealer, ring = Sealer(authority.realm, 7), Keyring(authority.realm)
    sealer.add(authority.publisher_keys("p", 7, parse("true"), **terms))
    ring.add(authority.subscriber_keys("s", parse("a0 < 8"), **terms))
    yield from refusals(sealer, ring, {"a0": 3, "a1": 5}, NOW_US, rng, count)


def _sizes(parameters: Parameters, master: MasterSecret, rng: Random) -> Iterator[Figure]:
    for rows, bits in ((1, 4), (4, 4), (15, 4), (4, 16)):
        most = 150 + 330 * rows + 85 * rows * bits
        yield Figure(
            f"size, {rows} hidden attributes of {bits} bits",
            size(parameters, master, rows, bits, rng),
            "bytes",
            Target("<=", most),
            {"added by sealing": overhead_bytes((bits + 1,) * rows)},
        )


def _key_server(session: Session) -> Iterator[Figure]:
    """Measure how long a holder waits while others load the key server."""
    session.progress(f"key server: {GARBAGE_PER_S} garbage lines/s, a large request, another holder")
    found = asyncio.run(run_load(session.size(8_833, 600), session.size(10, 1)))
    what = f"with {GARBAGE_PER_S} garbage lines/s and a request of {found.credentials:,} credentials"
    beside = {"the large request": found.large_s, "without load": found.alone_s}
    yield Figure(
        f"key server: longest wait of another holder, {what}", max(found.others_s), "s", Target("<=", 1), beside
    )
    per_credential = found.large_s * 1000 / found.credentials
    yield Figure("key server: a credential of the large request, under that load", per_credential, "ms")
    yield Figure(
        "key server: growth of its memory during the garbage", found.grown_bytes / 2**20, "MiB", Target("<=", 8)
    )
    yield Figure(
        "key server: lines of the audit log", found.audit_lines, "lines", None, {"lines of garbage": found.garbage}
    )


def _sessions(parameters: Parameters, master: MasterSecret, rng: Random, count: int) -> Iterator[Figure]:
    sealer, ring, router, routing = _members(parameters, master, 4, 16, rng)
    event = {f"a{row}": 3 for row in range(4)}
    for turn, batch in enumerate((64, 8, 1)):
        sessions, first = SessionSealer(sealer), turn * 2 * count  # sequence numbers rise, or they would be replays
        drafts = [Draft(event, b"x" * 100, first + number) for number in range(1, count + 1)]
        sessions.seal(drafts[:1], now_us=NOW_US, randomness=rng)
        ring.begin(sessions.openings()[0], now_us=NOW_US, randomness=rng)
        started = perf_counter()
        members = [
            member
            for at in range(0, count, batch)
            for member in sessions.seal(drafts[at : at + batch], now_us=NOW_US, randomness=rng)
        ]
        sealed_in = perf_counter() - started
        started = perf_counter()
        for member in members:
            ring.open(member.clear, member.envelope, now_us=NOW_US, randomness=rng)
        opened_in = perf_counter() - started
        target = Target(">=", 20_000) if batch == 64 else None
        yield Figure(f"sealed in a session, batches of {batch}", count / sealed_in, "events/s", target)
        yield Figure(f"opened in a session, batches of {batch}", count / opened_in, "events/s", target)
    yield from _routing(router, routing, sealer, rng)
    yield from asyncio.run(_in_the_loop(parameters, master, rng, count // 4))


async def _in_the_loop(parameters: Parameters, master: MasterSecret, rng: Random, count: int) -> list[Figure]:
    """Measure rings in an event loop: steady traffic one by one, and the loop's longest wait while sessions begin."""
    trees = {f"a{row}": Numbers(IntRange(0, 15)) for row in range(2)}
    authority = Authority(Realm(parameters, Schema(trees, Epochs(0, 10**12, 10**9))), master)
    sealing = PublisherRing(authority.realm, 7, now_us=lambda: NOW_US, randomness=rng)
    opening = SubscriberRing(authority.realm, now_us=lambda: NOW_US, randomness=rng)
    terms: dict[str, Any] = {"epoch": 0, "now_us": NOW_US, "randomness": rng}
    await sealing.add(authority.publisher_keys("p", 7, parse("true"), **terms))
    await opening.add(authority.subscriber_keys("s", parse("a0 < 8"), **terms))
    longest = [0.0]

    async def watch() -> None:
        while True:
            began = perf_counter()
            await asyncio.sleep(0.001)
            longest[0] = max(longest[0], perf_counter() - began - 0.001)

    watching = asyncio.create_task(watch())
    for number in range(64):  # each event begins another session
        clear, payload = await sealing.seal(Draft({"a0": number % 8, "a1": number // 8 % 8}, b"first"))
        await opening.open(clear, payload)
    watching.cancel()
    began = perf_counter()
    for _ in range(count):
        clear, payload = await sealing.seal(Draft({"a0": 3, "a1": 3}, b"x" * 100))
        await opening.open(clear, payload)
    steady = count / (perf_counter() - began)
    for ring in (sealing, opening):
        ring.close()
    return [
        Figure("longest wait of the loop while sessions begin", longest[0] * 1000, "ms", Target("<=", 20)),
        Figure("sealed and opened one by one by rings in one loop", steady, "events/s"),
    ]


def _routing(router: Router, routing: bytes, sealer: Sealer, rng: Random) -> Iterator[Figure]:
    """Measure a tag test with decoded keys, and the cost of each later event of a tested session."""
    draft = Draft({f"a{row}": 3 for row in range(4)}, b"", 1)
    best = float("inf")
    for _ in range(20):
        sessions = SessionSealer(sealer)
        sessions.seal([draft], now_us=NOW_US, randomness=rng)
        before, opening = router.pairings, sessions.openings()[0]
        spent, found = timed(lambda opening=opening: router.test(opening, [routing]))  # type: ignore[misc]
        if found != [Fit.FITS]:
            raise WrongAnswer("a session was not routed")
        best = min(best, spent / (router.pairings - before))
    yield Figure("a tag test, per credential", best, "ms", Target("<=", 1))
    yield Figure("routing an event of a known session, 4 credentials", _steady(routing, sealer, rng), "ms")


def _steady(routing: bytes, sealer: Sealer, rng: Random) -> float:
    """Return the milliseconds that a broker needs to look up the result of a tested session."""
    deposits, worker = Deposits(), TagTestWorker()
    deposits.add(1, routing, (CLIENT, 1))
    (deposit,) = deposits.among([1])
    tags: TagMatcher[int] = TagMatcher(Counter(), [deposits])
    draft, rounds = Draft({f"a{row}": 3 for row in range(4)}, b"x" * 100, 1), 1000
    _, payload = PayloadSealer(SessionSealer(sealer)).seal(draft, now_us=NOW_US, randomness=rng)
    event = Event({SEALED: sealer.realm.short_name.hex()}, payload, publisher=1, sequence=1)
    frames = [Publish(Confirm.NONE, encode_block(event)) for _ in range(rounds + 1)]
    tags.hold(("client", 1), frames[0], 0, lambda _: [deposit], 0.0)
    while not tags.take(0.0):
        for probe in tags.take_probes():
            tags.probed(probe.ticket, worker.answer(probe), 0.0)
    started = perf_counter()
    for frame in frames[1:]:
        verdict = tags.judge(frame)
        if tags.hold(("client", 1), frame, 0, lambda _: [deposit], 0.0) or verdict is None or not verdict(deposit):
            raise WrongAnswer("an event of a known session was not routed at once")
    return (perf_counter() - started) * 1000 / rounds
