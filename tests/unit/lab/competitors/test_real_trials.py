"""Real trials of what is installed: each competitor's own server and client, and durable events."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from plait_lab.attempts import Attempts
from plait_lab.competitors import trials
from plait_lab.competitors.contender import Contender
from plait_lab.competitors.quotes import interests, quotes, same_topic
from plait_lab.competitors.stamps import CYCLE
from plait_lab.competitors.systems.catalogue import DURABLE_RIVALS, OURS_DURABLE, RIVALS
from plait_lab.competitors.trials import Server, TrialOutcome


def repeated(contender: Contender, trial: Callable[[Server], TrialOutcome], folder: Path) -> TrialOutcome:
    """Run a trial, and repeat it where a benchmark would: a busy machine may leave one without a measurement."""

    def attempt() -> TrialOutcome:
        with trials.served(contender, folder) as server:
            return trial(server)

    found = Attempts(print, ()).measure(contender.title, "a trial", attempt)
    assert found is not None
    return found


@pytest.mark.parametrize("rival", [rival for rival in RIVALS if rival.key != "activemq"], ids=lambda rival: rival.key)
def test_a_real_trial_of_a_competitor(rival: Contender, tmp_path: Path) -> None:
    """The filters of others, large events and topics of two levels, through its own server and client. A JVM takes too
    long to start for a test."""
    if reason := rival.missing():
        pytest.skip(f"{reason}: {rival.install}")
    found = repeated(rival, lambda server: trials.throughput(server, 1, 2, 0.1), tmp_path)
    large = repeated(rival, lambda server: trials.throughput(server, 1, 1, 0.1, 65_536), tmp_path)
    assert found.delivered == 2 * found.sent > 0
    assert large.delivered == large.sent > 0
    if rival.selects:
        selective = repeated(rival, lambda server: trials.crowd(server, 1, 20, 20, 0.1), tmp_path)
        an_event = sum(same_topic(quotes(1), interests(1, 20))) / CYCLE
        assert selective.delivered / selective.sent == pytest.approx(an_event, rel=0.3)


@pytest.mark.parametrize("contender", [OURS_DURABLE, *DURABLE_RIVALS], ids=lambda contender: contender.key)
def test_a_real_trial_of_a_durable_contender(contender: Contender, tmp_path: Path) -> None:
    if reason := contender.missing():
        pytest.skip(f"{reason}: {contender.install}")
    found = repeated(contender, lambda server: trials.confirmed(server, 1, 0.2), tmp_path)
    assert found.delivered == 2 * found.sent > 0, "each event is confirmed and received"
    assert min(found.delays_ns) > 0
