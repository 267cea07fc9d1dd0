"""Regenerate a figure of thesis 2.8: python -m plait_lab.experiments.peers figure27 | figure28 | figure29 | figure210

Writes a table (CSV) and a plot (PNG, which needs matplotlib) to a folder, for the thesis' variant beside ours.
"""

from __future__ import annotations

import argparse
import resource
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from ...simulation.peers.trial import VARIANTS
from .drawing import RESULTS, Row, draw_figure, read_lines, write_lines
from .figures import FIGURES, FigureSizes

LIMIT_S: Final = 600.0
LIMIT_MIB: Final = 8 << 10
"""Memory that a figure may use; `LIMIT_S` bounds its processor time."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Play the trials, print the rows, and write table and plot."""
    parser = argparse.ArgumentParser(prog="python -m plait_lab.experiments.peers", description=__doc__)
    parser.add_argument("figure", choices=FIGURES)
    parser.add_argument("--peers", type=int, help="of our variant")
    parser.add_argument("--thesis-peers", type=int, help="of the thesis' variant")
    parser.add_argument("--only", choices=VARIANTS, help="play this variant; the other's rows stay as they are")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--into", type=Path, default=RESULTS, help="a folder")
    parser.add_argument("--draw", action="store_true", help="only draw the table that is there")
    options = parser.parse_args(arguments)
    figure = FIGURES[options.figure]
    table, plot = options.into / f"peers_{options.figure}.csv", options.into / f"peers_{options.figure}.png"
    ours = options.peers or figure.sizes.plait
    theirs = options.thesis_peers or (min(options.peers, figure.sizes.thesis) if options.peers else figure.sizes.thesis)
    rows: list[Row] = []
    if options.draw:
        rows.extend(read_lines(table))
    else:
        begin = time.monotonic()
        if options.only and table.is_file():
            rows.extend(row for row in read_lines(table) if row["variant"] != options.only)
        variants = (options.only,) if options.only else tuple(VARIANTS)
        for row in figure.rows(FigureSizes(ours, theirs, options.seed, variants)):
            rows.append(row)
            shown = " ".join(f"{k}={v:.3f}" if isinstance(v, float) else f"{k}={v}" for k, v in row.items())
            print(f"{time.monotonic() - begin:6.1f} s  {shown}", flush=True)
            write_lines(rows, table)  # after each row, since some figures run for minutes
        print(f"{len(rows)} rows in {time.monotonic() - begin:.0f} s; {_spent()}")
    title = f"{figure.title}: peers without brokers, the thesis' variant and ours"
    if not draw_figure(figure.panels(rows), title, plot):
        print(f"no plot: matplotlib is not installed; install it, then add --draw to draw {table.name} alone")
    return 0


def _spent() -> str:
    """Return the resources used, beside the limits."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    machine_s = used.ru_utime + used.ru_stime
    return f"machine time {machine_s:.0f} s of {LIMIT_S:.0f}, at most {used.ru_maxrss / 1024:.0f} MiB of {LIMIT_MIB}"


if __name__ == "__main__":
    raise SystemExit(main())
