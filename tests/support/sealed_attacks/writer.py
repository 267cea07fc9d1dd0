"""Files of cases: named inputs once, and cases that refer to them by hex or by a change of a named input."""

from __future__ import annotations

import json
from typing import Any, TypeAlias

from sealed_cases import packed

from .forger import NOON_US

Step: TypeAlias = dict[str, Any]
LEAST_SAVED = 2
"""A change of a named input is written only if it saves this factor against the whole."""


class Inputs:
    """The named inputs of all files."""

    def __init__(self) -> None:
        self.realms: dict[str, dict[str, str]] = {}
        self.bytes: dict[str, bytes] = {}

    def put(self, name: str, data: bytes) -> bytes:
        """Name an input, and return it."""
        assert name not in self.bytes, name
        self.bytes[name] = data
        return data

    def told(self, data: bytes) -> str | dict[str, Any]:
        """Return bytes as JSON writes them."""
        best: str | dict[str, Any] = data.hex()
        length = len(data) * 2 // LEAST_SAVED if len(data) > 40 else 0
        for name, base in self.bytes.items():
            at, end = _shared(base, data)
            if base == data:
                return {"of": name}
            inserted = data[at : len(data) - end]
            if 80 + 2 * len(inserted) < length:
                length = 80 + 2 * len(inserted)
                best = {"of": name, "at": at, "remove": len(base) - end - at, "insert": inserted.hex()}
        return best

    def text(self) -> str:
        """Return the content of the file of inputs."""
        return _written({"realms": self.realms, "bytes": {name: data.hex() for name, data in self.bytes.items()}})


class Cases:
    """One file of cases. The runner fills in the results; the caller says which kind of result it expects."""

    def __init__(self, inputs: Inputs, about: str) -> None:
        self.inputs, self.about = inputs, about
        self.cases: list[dict[str, Any]] = []
        self.expected: list[str] = []

    def reader(
        self,
        attack: str,
        comment: str,
        expected: str,
        *steps: Step,
        realm: str = "two rows",
        keys: tuple[bytes, ...] | None = None,
        now_us: int = NOON_US,
        since_us: int = 0,
    ) -> None:
        """Add a case of one reader. `expected` is the result of the last step; all steps before it succeed."""
        ring = (self.inputs.bytes["keys: all"],) if keys is None else keys
        fields: dict[str, Any] = {"realm": realm, "keys": list(map(self.inputs.told, ring)), "now_us": now_us}
        self._add(attack, comment, expected, steps, fields | ({"since_us": since_us} if since_us else {}))

    def plain(self, attack: str, comment: str, expected: str, *steps: Step) -> None:
        """Add a case without a reader."""
        self._add(attack, comment, expected, steps, {})

    def _add(self, attack: str, comment: str, expected: str, steps: tuple[Step, ...], fields: dict[str, Any]) -> None:
        told = [{key: self._told(value) for key, value in step.items()} for step in steps]
        case = {"id": len(self.cases) + 1, "attack": attack, "comment": comment, **fields, "steps": told}
        self.cases.append(case)
        self.expected.append(expected)

    def _told(self, value: Any) -> Any:
        if isinstance(value, bytes):
            return self.inputs.told(value)
        return [self._told(each) for each in value] if isinstance(value, list) else value

    def text(self, runner: Any) -> str:
        """Return the content of the file, with results; check that they are the expected ones."""
        wrong = []
        for case, expected in zip(self.cases, self.expected, strict=True):
            results = runner.run(case)
            last = results[-1]
            got = last.get("reason") or str(last.get("fits") or last["result"])
            if got != expected or any(each["result"] == "refused" for each in results[:-1]):
                wrong.append(f"{case['attack']}, {case['comment']}: {got}, not {expected}")
            for step, result in zip(case["steps"], results, strict=True):
                step["expect"] = result
        if wrong:
            raise AssertionError("\n".join([self.about, *wrong]))
        return _written({"about": self.about, "cases": self.cases})


def opening(
    envelope: bytes, clear: dict[str, Any] | None = None, bound: bytes = b"", now_us: int | None = None
) -> Step:
    """Return the step that opens an event."""
    step = {"do": "open", "envelope": envelope, "clear": packed(clear or {}), "bound": bound.hex()}
    return step | ({} if now_us is None else {"now_us": now_us})


def begin(envelope: bytes, now_us: int | None = None) -> Step:
    """Return the step that begins a session."""
    return {"do": "begin", "opening": envelope} | ({} if now_us is None else {"now_us": now_us})


def decoding(what: str, encoded: bytes) -> Step:
    """Return the step that decodes bytes."""
    return {"do": "decode", "what": what, "bytes": encoded}


def _shared(a: bytes, b: bytes) -> tuple[int, int]:
    """Return the number of bytes that two texts share at their begin, and behind that at their end."""
    most = min(len(a), len(b))
    at = next((place for place in range(most) if a[place] != b[place]), most)
    most -= at
    end = next((place for place in range(most) if a[-1 - place] != b[-1 - place]), most)
    return at, end


def _written(whole: dict[str, Any]) -> str:
    """Return JSON with one line for each case or input."""
    lines = []
    for key, value in whole.items():
        if isinstance(value, dict):
            inner = ",\n".join(f" {json.dumps(name)}: {json.dumps(each)}" for name, each in value.items())
            lines.append(f"{json.dumps(key)}: {{\n{inner}\n}}")
        elif isinstance(value, list):
            lines.append(f"{json.dumps(key)}: [\n" + ",\n".join(" " + json.dumps(each) for each in value) + "\n]")
        else:
            lines.append(f"{json.dumps(key)}: {json.dumps(value)}")
    return "{\n" + ",\n".join(lines) + "\n}\n"
