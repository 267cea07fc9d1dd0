"""All files of cases."""

from __future__ import annotations

from pathlib import Path

from sealed_cases import INPUTS, Runner

from plait_crypto.hazmat import ArkworksGroups

from . import honest, in_sessions, insiders, of_keys, outsiders
from .scene import Scene


def write(folder: Path) -> None:
    """Write the files of cases, with the results of the fast backend; fail where one is not the expected one."""
    scene = Scene()
    made = {
        "keys.json": of_keys.keys(scene),
        "deposits.json": of_keys.deposits(scene),
        "points.json": outsiders.points(scene),
        "cut.json": outsiders.cut(scene),
        "flipped.json": outsiders.flipped(scene),
        "moved.json": outsiders.moved(scene),
        "clear.json": outsiders.clear(scene),
        "time.json": outsiders.time(scene),
        "realms.json": outsiders.realms(scene),
        "credentials.json": insiders.credentials(scene),
        "mixed.json": insiders.mixed(scene),
        "signatures.json": insiders.signatures(scene),
        "contents.json": insiders.contents(scene),
        "sessions.json": in_sessions.sessions(scene),
        "opens.json": honest.honest(scene),
    }
    (folder / INPUTS).write_text(scene.inputs.text())
    runner = Runner(ArkworksGroups(), folder=folder)
    wrong = []
    for name, cases in made.items():
        try:
            (folder / name).write_text(cases.text(runner))
        except AssertionError as error:
            wrong.append(f"{name}: {error}")
    assert not wrong, "\n\n".join(wrong)
