"""All files of cases."""

from __future__ import annotations

from pathlib import Path

from sealed_cases import INPUTS, Runner

from plait_crypto.hazmat import ArkworksGroups

from . import changed, deposits, elsewhere, foundations, honest, in_sessions, keys, publishers, readers
from .scene import Scene


def write(folder: Path) -> None:
    """Write the files of cases, with the results of the fast backend; fail where one is not the expected one."""
    scene = Scene()
    made = {
        "keys/keys.json": keys.keys(scene),
        "keys/deposits.json": deposits.deposits(scene),
        "keys/parameters.json": foundations.parameters(scene),
        "keys/master_secrets.json": foundations.master_secrets(scene),
        "keys/schemas.json": foundations.schemas(scene),
        "outsiders/points.json": changed.points(scene),
        "outsiders/cut.json": changed.cut(scene),
        "outsiders/flipped.json": changed.flipped(scene),
        "outsiders/moved.json": changed.moved(scene),
        "outsiders/clear.json": changed.clear(scene),
        "outsiders/time.json": elsewhere.time(scene),
        "outsiders/realms.json": elsewhere.realms(scene),
        "members/credentials.json": readers.credentials(scene),
        "members/mixed.json": readers.mixed(scene),
        "members/signatures.json": publishers.signatures(scene),
        "members/contents.json": publishers.contents(scene),
        "members/sessions.json": in_sessions.sessions(scene),
        "opens.json": honest.honest(scene),
    }
    (folder / INPUTS).write_text(scene.inputs.text())
    runner = Runner(ArkworksGroups(), folder=folder)
    wrong = []
    for name, cases in made.items():
        try:
            path = folder / name
            path.parent.mkdir(exist_ok=True)
            path.write_text(cases.text(runner))
        except AssertionError as error:
            wrong.append(f"{name}: {error}")
    assert not wrong, "\n\n".join(wrong)
