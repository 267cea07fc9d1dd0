"""The `[telemetry]` section of the configuration: directory, rate, and retention of records."""

from __future__ import annotations

from plait_core.errors import SpaceInvalid
from plait_core.space import Schema
from plait_telemetry.recording import TelemetryConfig
from plait_telemetry.telemetry import TelemetrySettings
from plait_telemetry.writer import SegmentLimits

from .config_reader import ConfigSection


def read_telemetry(section: ConfigSection | None) -> TelemetryConfig | None:
    """Return the section's settings, or None without a section."""
    if section is None:
        return None
    directory = section.path("directory")
    if directory is None:
        raise section.error("directory", "is missing", hint="give it, or --telemetry DIR")
    base = SegmentLimits()
    config = TelemetryConfig(
        directory,
        TelemetrySettings(
            section.whole("records_per_s_max", 1, 10**9) or TelemetrySettings().records_per_s_max, _read_space(section)
        ),
        SegmentLimits(
            bytes_max=section.whole("segment_bytes_max", 1 << 16, 1 << 30) or base.bytes_max,
            age_s_max=section.number("segment_s_max", 0.1, 86_400) or base.age_s_max,
            budget_bytes=section.whole("bytes_max", 1 << 20, 1 << 50) or base.budget_bytes,
        ),
    )
    section.finish()
    return config


def _read_space(section: ConfigSection) -> Schema | None:
    path = section.file("space")
    try:
        return None if path is None else Schema.from_json(path.read_text(encoding="utf-8"))
    except (SpaceInvalid, UnicodeDecodeError) as error:
        raise section.error("space", f"{path} is no event space: {error}") from None
