"""The checks at the end of a simulated overlay's history: no loss, no false delivery, and tables equal to a fresh
build."""

from __future__ import annotations

from typing import TYPE_CHECKING

from plait_broker.overlay import Overlay

from .overlay_nodes import Node

if TYPE_CHECKING:
    from .overlays import OverlayWorld


def judge(world: OverlayWorld) -> None:
    for id, said in world.said.items():
        for node in world.nodes:
            count = node.arrived.get(id, 0)
            if count and not any(one is node for one, _ in said.allowed):
                world.complain(f"I4: {node.name} got {id}, which was not for it")
        if said.root.lives != said.incarnation:
            continue
        for node, life in said.owed:
            if node.lives == life and not node.arrived.get(id):
                world.complain(f"I1: {node.name} never got {id} of {said.root.name}, published at {said.at:.3f}")
    judge_tables(world)
    _judge_delays(world)
    if not world.faults:
        for pipe in world.pipes:
            twice = [key for key, count in pipe.carried.items() if count > 1]
            if twice:
                world.complain(f"wire: {len(twice)} events went twice over a link without any fault")


def judge_tables(world: OverlayWorld) -> None:
    """Check I7: every broker's map is complete, and all know each other's advertisements and interest."""
    alive = {node.overlay.me: node for node in world.nodes if node.overlay is not None}
    links = {frozenset((pipe.ends[0].number, pipe.ends[1].number)) for pipe in world.pipes}
    for node in world.nodes:
        overlay = node.overlay
        assert overlay is not None
        origins = [one.origin for one in overlay.map.link_states]
        known = {origin for origin in origins if overlay.map.reaches(overlay.me, origin)}
        if known != set(alive):
            world.complain(f"I7: {node.name} reaches {len(known)} of {len(alive)} brokers")
            continue
        drawn = {
            frozenset((alive[link_state.origin].number, alive[other].number))
            for link_state in overlay.map.link_states
            if link_state.origin in alive
            for other in link_state.neighbours
            if other in alive
        }
        if drawn != links:
            world.complain(f"I7: {node.name}'s map has {len(drawn)} links of {len(links)}")
        _judge_interest(world, node, overlay, alive)


def _judge_delays(world: OverlayWorld) -> None:
    """Check I7: all maps have the same delays, by which brokers choose."""
    first = None
    for node in world.nodes:
        assert node.overlay is not None
        alive = node.overlay.map.distances(node.overlay.me)
        delays = {
            (one.origin, one.version, one.delays_us) for one in node.overlay.map.link_states if one.origin in alive
        }
        first = delays if first is None else first
        if delays != first:
            world.complain(f"I7: {node.name}'s map has other delays than {world.nodes[0].name}'s")


def _judge_interest(world: OverlayWorld, node: Node, overlay: Overlay, alive: dict[int, Node]) -> None:
    offers = {
        (origin, number): filter.text
        for (origin, number), filter in overlay.remote_advertisements.items()
        if origin in alive
    }
    right = {
        (me, number): filter.text
        for me, other in alive.items()
        if other is not node
        for number, filter in other.offers.items()
    }
    if offers != right:
        world.complain(f"I7: {node.name} knows {len(offers)} offers of {len(right)}")
    for me, other in alive.items():
        if other is node:
            continue
        home = overlay.remote_interest.homes.get(me)
        known = set(home.filters.values()) if home is not None else set()
        for filter in other.wants.values():
            meets = any(offer.intersects(filter) for offer in node.offers.values())
            if meets and not any(one.covers(filter) for one in known):
                world.complain(f"I7: {node.name} does not know that {other.name} wants {filter.text}")
        for filter in known:
            if filter not in other.wants.values():
                world.complain(f"I7: {node.name} thinks that {other.name} wants {filter.text}")
    waiting = set(node.wants) - node.installed
    if waiting:
        world.complain(f"I7: {node.name} waits for {len(waiting)} filters to be installed")
