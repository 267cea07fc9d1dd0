"""Run the cases of `tests/vectors/sealed_v2`: inputs in hex, and what a reader or a broker makes of them.

`tests/vectors/README.md` describes the files, and `sealed_attacks` writes them. This module only reads.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Any

from plait_core import PlaitError
from plait_core.limits import EVENT_LIMITS
from plait_core.wire.attributes import pack_attributes, reader_for
from plait_crypto import (
    Keyring,
    Opened,
    PayloadReader,
    PublisherKeys,
    Realm,
    Router,
    RoutingTokens,
    Schema,
    Sealer,
    SubscriberKeys,
    Unopenable,
)
from plait_crypto.hazmat import Groups, MasterSecret, Parameters, PointInvalid, reference
from plait_crypto.hazmat.hashing import digest
from plait_crypto.hazmat.parameters import VECTOR
from plait_crypto.routing import deposited

FOLDER = Path(__file__).parent.parent / "vectors" / "sealed_v2"
INPUTS = "inputs.json"
NO_CASES = {INPUTS, "known_answers.json"}
_reader = reader_for(EVENT_LIMITS)


def case_files() -> list[str]:
    """Return the names of the files of cases, with their folders."""
    return sorted(path.relative_to(FOLDER).as_posix() for path in FOLDER.rglob("*.json") if path.name not in NO_CASES)


def cases(name: str) -> list[dict[str, Any]]:
    """Return the cases of a file."""
    found: list[dict[str, Any]] = json.loads((FOLDER / name).read_text())["cases"]
    return found


class Runner:
    """Runs cases with one backend. With `trusting`, for the reference, known parameters are decoded without checks."""

    def __init__(self, groups: Groups, *, trusting: bool = False, folder: Path = FOLDER) -> None:
        self.groups = groups
        self._trusting = trusting
        self._inputs = json.loads((folder / INPUTS).read_text())
        self._realms: dict[str, Realm] = {}

    def run(self, case: dict[str, Any]) -> list[dict[str, Any]]:
        """Return the result of each step of a case."""
        reader = _Reader(self, case) if "realm" in case else None
        found = []
        for step in case["steps"]:
            try:
                found.append(self._step(step) if reader is None else reader.step(step))
            except Unopenable as error:
                found.append({"result": "refused", "reason": error.why})
            except (PlaitError, PointInvalid) as error:
                found.append({"result": "refused", "reason": type(error).__name__})
        return found

    def realm(self, name: str) -> Realm:
        """Return a realm of the inputs."""
        if name not in self._realms:
            given = self._inputs["realms"][name]
            encoded = bytes.fromhex(self._inputs["bytes"][given["parameters"]])
            decode = _trusted if self._trusting else Parameters.decode
            found = Realm(decode(self.groups, encoded), Schema.from_json(given["schema"]))
            assert found.digest.hex() == given["digest"]
            self._realms[name] = found
        return self._realms[name]

    def bytes_of(self, given: str | dict[str, Any]) -> bytes:
        """Return the bytes of an input: hex, a named input, or a named input with a change."""
        if isinstance(given, str):
            return bytes.fromhex(given)
        whole = bytes.fromhex(self._inputs["bytes"][given["of"]])
        at = given.get("at", 0)
        return whole[:at] + bytes.fromhex(given.get("insert", "")) + whole[at + given.get("remove", 0) :]

    def _step(self, step: dict[str, Any]) -> dict[str, Any]:
        match step["do"]:
            case "decode":
                self._decode(step["what"], self.bytes_of(step["bytes"]))
                return {"result": "valid"}
            case "route":
                given = [self.bytes_of(each) for each in step["deposits"]]
                fits = Router(self.groups).test(self.bytes_of(step["opening"]), given)
                return {"result": "routed", "fits": [each.name.lower() for each in fits]}
        raise AssertionError(step["do"])

    def _decode(self, what: str, encoded: bytes) -> None:
        match what:
            case "publisher keys":
                PublisherKeys.decode(self.groups, encoded)
            case "subscriber keys":
                SubscriberKeys.decode(self.groups, encoded)
            case "routing tokens":
                RoutingTokens.decode(self.groups, encoded)
            case "deposit":
                deposited(self.groups, encoded)
            case "parameters":
                Parameters.decode(self.groups, encoded)
            case "master secret":
                MasterSecret.decode(self.groups, encoded)
            case "schema":
                Schema.from_json(encoded.decode())
            case _:
                raise AssertionError(what)


class _Reader:
    """The reader of one case."""

    def __init__(self, runner: Runner, case: dict[str, Any]) -> None:
        self._runner = runner
        self._now_us = case["now_us"]
        self.ring = Keyring(runner.realm(case["realm"]), since_us=case.get("since_us", 0))
        for keys in case.get("keys", ()):
            self._add(keys)
        self._payloads = PayloadReader(self.ring)
        self._chance = Random(1)

    def step(self, step: dict[str, Any]) -> dict[str, Any]:
        now: dict[str, Any] = {"now_us": step.get("now_us", self._now_us), "randomness": self._chance}
        get = self._runner.bytes_of
        match step["do"]:
            case "add keys":
                self._add(step["keys"])
                self._payloads.renewed()
            case "add publisher keys":
                keys = PublisherKeys.decode(self._runner.groups, get(step["keys"]))
                Sealer(self.ring.realm, keys.publisher).add(keys)
            case "deposit":
                return {"result": "deposited", "bytes": self.ring.deposit(step["kind"]).hex()}
            case "begin":
                self.ring.begin(get(step["opening"]), **now)
            case "open":
                clear, bound = _reader.attributes(get(step["clear"])), get(step.get("bound", ""))
                return opens(self.ring.open(clear, get(step["envelope"]), bound=bound, **now))
            case "open payload":
                clear, bound = _reader.attributes(get(step["clear"])), get(step.get("bound", ""))
                return opens(self._payloads.open(clear, get(step["payload"]), bound=bound, **now))
            case _:
                raise AssertionError(step["do"])
        return {"result": "valid"}

    def _add(self, keys: str | dict[str, Any]) -> None:
        self.ring.add(SubscriberKeys.decode(self._runner.groups, self._runner.bytes_of(keys)))


def packed(attributes: dict[str, Any]) -> str:
    """Return attributes in order of their names, as msgpack in hex."""
    return pack_attributes({name: attributes[name] for name in sorted(attributes)}, EVENT_LIMITS).hex()


def opens(opened: Opened) -> dict[str, Any]:
    """Return the result of a step that opens an event."""
    told = opened.metadata
    return {
        "result": "opens",
        "attributes": packed(opened.attributes),
        "payload": opened.payload.hex(),
        "publisher": opened.publisher,
        "sequence": opened.sequence,
        "epoch": opened.epoch,
        "grant": opened.grant,
        "credentials": [[row, each.place, each.label.hex()] for row, each in opened.credentials],
        "published_us": told.published_us,
        "lifetime_us": told.lifetime_us,
        "priority": told.priority,
        "headers": dict(told.headers),
        "session": opened.session.hex(),
        "number": opened.number,
    }


class _Lazy(Sequence[Any]):
    """Points that are decoded when they are used, without a check of their group."""

    def __init__(self, unpack: Any, encoded: bytes, size: int) -> None:
        self._unpack, self._encoded, self._size = unpack, encoded, size
        self._known: dict[int, Any] = {}

    def __len__(self) -> int:
        return len(self._encoded) // self._size

    def __getitem__(self, place: Any) -> Any:
        if isinstance(place, slice):
            assert (place.stop, place.step) == (None, None)
            return _Lazy(self._unpack, self._encoded[place.start * self._size :], self._size)
        if not 0 <= place < len(self):
            raise IndexError(place)
        if place not in self._known:
            self._known[place] = self._unpack(self._encoded[place * self._size : (place + 1) * self._size])
        return self._known[place]


def _trusted(groups: Groups, encoded: bytes) -> Parameters:
    """Decode known parameters for the reference, which would take half a minute to check all their points."""
    one, two = groups.g1, groups.g2
    at = 1 + 2 * one.size
    g1, h = (one.decode(encoded[start : start + one.size]) for start in range(1, at, one.size))
    vectors = at + two.size
    half = vectors + VECTOR * one.size
    u = _Lazy(reference._unpack_g1, encoded[vectors:half], one.size)
    m2 = _Lazy(reference._unpack_g2, encoded[half:], two.size)
    found = Parameters(groups, g1, h, two.decode(encoded[at:vectors]), u, m2)
    found.__dict__["digest"] = digest(b"parameters", encoded)
    return found
