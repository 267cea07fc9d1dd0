"""The screen of `plait top`: three tables that are brought up to date twice a second, by textual."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, Final

from rich.text import Text
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.widgets import DataTable, Footer, Static, TabbedContent, TabPane
from textual.worker import get_current_worker

from ..terminal.failures import Failure
from .overview import TABLES, headline

EVERY_S: Final = 0.5

MARKED: Final = {
    "silent": "bold red",
    "gone": "bold red",
    "out of reach": "bold red",
    "down": "bold red",
    "draining": "yellow",
}
"""States that one should see."""


class TopScreen(App[None]):
    """Watches until it is told to end."""

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

    def __init__(self, look: Callable[[], dict[str, Any]]) -> None:
        """`look` gives how everything is now, or raises Failure."""
        super().__init__()
        self._look = look
        self._paused = False
        self.looks = 0
        """How often it was brought up to date."""

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
        self._begin_to_look()
        self.set_interval(EVERY_S, self._begin_to_look)

    def action_show(self, name: str) -> None:
        """Another table."""
        self.query_one(TabbedContent).active = name
        self.query_one(f"#{name}-table", DataTable).focus()

    def action_pause(self) -> None:
        """Hold still, or go on."""
        self._paused = not self._paused

    def _begin_to_look(self) -> None:
        if not self._paused and not any(worker.is_running for worker in self.workers):
            self.run_worker(self._look_once, thread=True, exclusive=True)

    def _look_once(self) -> None:
        """In a thread: a broker may take its time."""
        worker = get_current_worker()
        try:
            said, problem = self._look(), ""
        except Failure as failure:
            said, problem = {}, failure.message
        if not worker.is_cancelled:
            self.call_from_thread(self._show, said, problem)

    def _show(self, said: dict[str, Any], problem: str) -> None:
        now = self.query_one("#now", Static)
        now.set_class(bool(problem), "lost")
        now.update(f"{problem}\ntrying again" if problem else headline(said))
        self.looks += 1
        if problem:
            return
        for name, (_, rows) in TABLES.items():
            _fill(self.query_one(f"#{name}-table", DataTable), rows(said))


def _fill(table: DataTable[Any], rows: dict[str, tuple[str, ...]]) -> None:
    """Cells are changed where they are, so that the cursor stays; rows that come or go make the table anew."""
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
