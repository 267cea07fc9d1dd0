"""The screen of `plait top`: three tables, updated twice a second, drawn by textual."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, Final

from rich.text import Text
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.widgets import DataTable, Footer, Static, TabbedContent, TabPane
from textual.worker import get_current_worker

from plait_core.values import Json

from ..terminal.failures import Failure
from .overview import TABLES, headline

EVERY_S: Final = 0.5

MARKED: Final = {
    "silent": "bold red",
    "gone": "bold red",
    "out of reach": "bold red",
    "down": "bold red",
    "draining": "yellow",
    "full": "yellow",
}
"""Styles of states that need attention."""


class TopScreen(App[None]):
    """Shows the overlay until the user quits."""

    TITLE: str | None = "plait top"
    CSS = """
    Screen { overflow: hidden; }
    #now { padding: 0 1; height: 2; background: $panel; }
    TabbedContent { height: 1fr; }
    TabPane { padding: 0; }
    #now.lost { background: $error; color: $text; }
    DataTable { height: 1fr; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("q", "quit", "Quit"),
        Binding("b", "show('brokers')", "Brokers"),
        Binding("l", "show('links')", "Links"),
        Binding("s", "show('subscriptions')", "Subscriptions"),
        Binding("p", "pause", "Pause"),
    ]

    def __init__(self, read: Callable[[], Json]) -> None:
        """`read` returns the current state, or raises Failure."""
        super().__init__()
        self._read = read
        self._paused = False

    def compose(self) -> ComposeResult:
        yield Static(id="now", markup=False)
        with TabbedContent():
            for name in TABLES:
                with TabPane(name.capitalize(), id=name):
                    yield DataTable(id=f"{name}-table", cursor_type="row", zebra_stripes=True)
        yield Footer()

    def on_mount(self) -> None:
        for name, (columns, _) in TABLES.items():
            table = self.query_one(f"#{name}-table", DataTable)
            for column in columns:
                table.add_column(column, key=column)
        self._start_update()
        self.set_interval(EVERY_S, self._start_update)

    def action_show(self, name: str) -> None:
        """Show another table."""
        self.query_one(TabbedContent).active = name
        self.query_one(f"#{name}-table", DataTable).focus()

    def action_pause(self) -> None:
        """Pause or resume the updates."""
        self._paused = not self._paused

    def _start_update(self) -> None:
        if not self._paused and not any(worker.is_running for worker in self.workers):
            self.run_worker(self._update, thread=True, exclusive=True)

    def _update(self) -> None:
        """Read in a thread, because a broker may answer slowly."""
        worker = get_current_worker()
        try:
            overview, problem = self._read(), ""
        except Failure as failure:
            overview, problem = {}, failure.message
        if not worker.is_cancelled:
            self.call_from_thread(self._show, overview, problem)

    def _show(self, overview: Json, problem: str) -> None:
        now = self.query_one("#now", Static)
        now.set_class(bool(problem), "lost")
        now.update(f"{problem}\ntrying again" if problem else headline(overview))
        if problem:
            return
        for name, (_, rows) in TABLES.items():
            _fill(self.query_one(f"#{name}-table", DataTable), rows(overview))


def _fill(table: DataTable[Any], rows: dict[str, tuple[str, ...]]) -> None:
    """Update changed cells, so that the cursor stays. Rebuild the table if its rows have changed."""
    if [str(row.value) for row in table.rows] != list(rows):
        cursor, scroll = table.cursor_row, table.scroll_offset
        table.clear()
        for key, row in rows.items():
            table.add_row(*map(_cell, row), key=key)
        table.move_cursor(row=min(cursor, max(0, len(rows) - 1)), animate=False, scroll=False)
        table.scroll_to(scroll.x, scroll.y, animate=False)
        return
    columns = [str(column.value) for column in table.columns]
    for key, row in rows.items():
        for column, text in zip(columns, row, strict=True):
            cell = _cell(text)
            if table.get_cell(key, column) != cell:
                table.update_cell(key, column, cell, update_width=True)


def _cell(text: str) -> Text:
    return Text(text, style=MARKED.get(text, ""))
