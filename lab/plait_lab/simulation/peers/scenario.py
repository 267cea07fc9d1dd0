"""Small groups as text: figures 2.3 to 2.5 of the thesis are files of this form, with their results below a line.

variant thesis m=2 false=0.5       settings of all later peers
publisher p1 ε                     a publisher and its advertisement
subscriber s1 0 110 bound=3        a subscriber, its sub-spaces and its bound in hops
run 20                             let periods pass
event p1 1110                      publish, let one period pass, and list the receivers with hops
show                               list the connections and their sub-spaces
"""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random

from plait_core.space import DzSet
from plait_peer import Deliver, Peer, PeerId, PeerSettings

from .structure import Structure
from .trial import VARIANTS
from .world import PeerWorld

LINE = "----"


@dataclass
class Scenario:
    """A small group, controlled line by line."""

    world: PeerWorld = field(default_factory=lambda: PeerWorld("scenario"))
    settings: PeerSettings = field(default_factory=PeerSettings)
    names: dict[str, PeerId] = field(default_factory=dict)
    lines: list[str] = field(default_factory=list)
    _got: list[tuple[PeerId, Deliver]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.world.delivered = lambda peer, event: self._got.append((peer, event))

    def peer(self, name: str) -> Peer:
        """Return a peer by name."""
        return self.world.peers[self.names[name]]

    def play(self, text: str) -> str:
        """Execute a text up to its line, and return the results that belong below it."""
        for line in text.partition(LINE)[0].splitlines():
            command, *words = line.partition("#")[0].split() or [""]
            if command:
                getattr(self, f"do_{command}")(words)
        return "\n".join(self.lines) + "\n"

    def do_variant(self, words: list[str]) -> None:
        options = dict(word.split("=") for word in words[1:])
        self.settings = PeerSettings(
            policies=VARIANTS[words[0]],
            children_max=int(options.get("m", "2")),
            false_share=float(options.get("false", "0")),
        )

    def do_publisher(self, words: list[str]) -> None:
        self._join(words[0], words[1:], 0.0)

    def do_subscriber(self, words: list[str]) -> None:
        self._join(words[0], words[1:-1], float(words[-1].removeprefix("bound=")))

    def _join(self, name: str, texts: list[str], bound: float) -> None:
        number = self.names[name] = len(self.names) + 1
        wanted = DzSet.of([text.replace("ε", "") for text in texts])
        rng = Random(f"scenario/{name}")
        peer = Peer(number, wanted, bound, randomness=rng, settings=self.settings, now=self.world.now)
        self.world.join(peer, contacts=len(self.names))

    def do_run(self, words: list[str]) -> None:
        self.world.run(self.world.now + float(words[0]) * self.settings.period_s)

    def do_crash(self, words: list[str]) -> None:
        self.world.crash(self.names.pop(words[0]))

    def do_event(self, words: list[str]) -> None:
        self._got.clear()
        self.world.publish(self.names[words[0]], words[1])
        self.do_run(["1"])
        by_id = {number: name for name, number in self.names.items()}
        got = sorted((event.hops, by_id[number]) for number, event in self._got)
        self.lines.append(f"event {' '.join(words)}: " + ", ".join(f"{name} after {hops}" for hops, name in got))

    def do_show(self, words: list[str]) -> None:
        structure = Structure(self.world.peers)
        by_id = {number: name for name, number in self.names.items()}
        for name, number in self.names.items():
            peer = self.world.peers[number]
            if peer.state.publisher:
                continue
            parents = sorted(
                f"{by_id[upper]} {' '.join(dz or 'ε' for dz in parent.dz)}"
                for upper, parent in peer.parents.by_id.items()
            )
            state = "notified" if structure.notified(peer) else "not notified"
            texts = " ".join(dz or "ε" for dz in peer.dz)
            self.lines.append(f"{name} {{{texts}}} from {'; '.join(parents) or 'nobody'}: {state}")
