"""A broker whose clients report at another interval, the first argument, in seconds. 0 stands for no reports.

The other arguments are those of `plait broker`.
"""

from __future__ import annotations

import sys

from plait_broker.clients.client_reports import ClientReports
from plait_broker.command import broker


def main() -> None:
    """Run the broker."""
    interval_s = float(sys.argv.pop(1))

    def always(reports: ClientReports, sessions: int) -> float:
        return interval_s

    ClientReports.interval_s = always  # type: ignore[assignment, method-assign]
    broker()


if __name__ == "__main__":
    main()
