"""The command of a child process, passed on its command line."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict, dataclass
from typing import Literal

from .paced_publishing import Phase, Plan


@dataclass(frozen=True, slots=True)
class ChildCommand:
    """One child's part in a trial."""

    contender: str
    role: Literal["server", "publisher", "subscriber", "slow", "crowd", "others", "churn"]
    port: int
    counters: str = ""
    slot: int = 0
    measure: bool = False
    """Whether a subscriber records the delay of every event."""
    plan: Plan | None = None
    seed: int = 0
    subscriptions: int = 0
    """Subscriptions of a crowd, or those that the plan's events may match; they follow from the seed."""
    connections: int = 0

    def command(self) -> list[str]:
        """Return the command line that starts the process."""
        return [sys.executable, "-m", "plait_lab.competitors.child", json.dumps(asdict(self))]

    @classmethod
    def parse(cls, text: str) -> ChildCommand:
        """Parse the text that `command` wrote."""
        found = json.loads(text)
        if (plan := found.pop("plan")) is not None:
            phases = tuple(Phase(**phase) for phase in plan.pop("phases"))
            plan = Plan(phases=phases, **plan)
        return cls(plan=plan, **found)


def server_command(contender: str, port: int) -> list[str]:
    """Return the command line of a server that is one of our Python processes."""
    return ChildCommand(contender, "server", port).command()
