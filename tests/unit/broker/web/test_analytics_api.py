"""The tables of an analysis over HTTP: those that the manifest names, and nothing else."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import httpx
import pytest
from scripted import LOCAL, running

from plait_broker.server.endpoints import Endpoint
from plait_broker.web import analytics_api

TABLE = {"table": "brokers", "window_us": 1, "columns": [{"name": "broker"}], "rows": [["north"]], "rows_in_all": 1}


@asynccontextmanager
async def reading(tables: Path | None) -> AsyncIterator[httpx.AsyncClient]:
    async with running(replace(LOCAL, http=Endpoint("127.0.0.1", 0), tables=tables)) as server:
        async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{server.http_port}", trust_env=False) as browser:
            yield browser


def written(directory: Path, file: str = "brokers/1.json") -> Path:
    """Write tables as an analysis does, and return their directory."""
    (directory / "brokers").mkdir(exist_ok=True)
    (directory / "brokers" / "1.json").write_text(json.dumps(TABLE))
    tables = {
        "brokers": {"description": "events", "rows": 1, "json": file},
        "old": {"rows": 1, "files": []},
        "odd": 7,
    }
    manifest = {"format": 1, "engine": "duckdb", "window_us": 10_000_000, "records": 5, "segments": 1, "tables": tables}
    (directory / "manifest.json").write_text(json.dumps(manifest))
    return directory


async def test_tables_that_the_manifest_names(tmp_path: Path) -> None:
    async with reading(written(tmp_path)) as browser:
        said = (await browser.get("/api/v1/analytics")).json()
        assert said["tables"] == {"brokers": {"description": "events", "rows": 1}}
        assert (said["engine"], said["window_us"]) == ("duckdb", 10_000_000)
        assert (await browser.get("/api/v1/analytics/brokers")).json() == TABLE
        for name in ("old", "odd", "links", "brokers%2f1.json"):
            assert (await browser.get(f"/api/v1/analytics/{name}")).status_code == 404


async def test_without_tables_the_answer_names_the_command_that_makes_them(tmp_path: Path) -> None:
    for directory in (None, tmp_path, tmp_path / "nowhere"):
        async with reading(directory) as browser:
            said = (await browser.get("/api/v1/analytics")).json()
            assert said["tables"] == {}
            assert "plait analyze" in said["hint"]
            assert (await browser.get("/api/v1/analytics/brokers")).status_code == 404


async def test_the_summary_for_programs(tmp_path: Path) -> None:
    async with reading(written(tmp_path)) as browser:
        assert (await browser.get("/api/v1/summary")).status_code == 404
        (tmp_path / "summary.json").write_text('{"format": 1, "links": []}')
        assert (await browser.get("/api/v1/summary")).json() == {"format": 1, "links": []}
    async with reading(None) as browser:
        assert "plait analyze" in (await browser.get("/api/v1/summary")).text


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"format": 1, "window_us": 1, "tables": []}', "[" * 100_000])
async def test_a_manifest_that_is_none(text: str, tmp_path: Path) -> None:
    (tmp_path / "manifest.json").write_text(text)
    async with reading(tmp_path) as browser:
        assert (await browser.get("/api/v1/analytics")).json()["tables"] == {}


async def test_files_outside_the_directory_or_too_large_are_not_served(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    inside = tmp_path / "inside"
    inside.mkdir()
    (tmp_path / "secret.json").write_text("{}")
    async with reading(written(inside, "../secret.json")) as browser:
        assert (await browser.get("/api/v1/analytics/brokers")).status_code == 404
    async with reading(written(inside)) as browser:
        assert (await browser.get("/api/v1/analytics/brokers")).status_code == 200
        monkeypatch.setattr(analytics_api, "FILE_BYTES_MAX", 10)
        assert (await browser.get("/api/v1/analytics")).json()["tables"] == {}
