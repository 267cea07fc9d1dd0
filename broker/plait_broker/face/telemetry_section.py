"""The [telemetry] section of a broker's configuration: where records go, how many, and how long they stay."""

from __future__ import annotations

from plait_telemetry.face import TelemetryPlace
from plait_telemetry.telemetry import TelemetrySettings
from plait_telemetry.writer import SegmentLimits

from .sections import Section


def read_telemetry(section: Section | None) -> TelemetryPlace | None:
    """What the section says; None when there is none."""
    if section is None:
        return None
    directory = section.path("directory")
    if directory is None:
        raise section.error("directory", "is missing", hint="give it, or --telemetry DIR")
    base = SegmentLimits()
    place = TelemetryPlace(
        directory,
        TelemetrySettings(section.whole("records_per_s_max", 1, 10**9) or TelemetrySettings().records_per_s_max),
        SegmentLimits(
            bytes_max=section.whole("segment_bytes_max", 1 << 16, 1 << 30) or base.bytes_max,
            age_s_max=section.number("segment_s_max", 0.1, 86_400) or base.age_s_max,
            budget_bytes=section.whole("bytes_max", 1 << 20, 1 << 50) or base.budget_bytes,
        ),
    )
    section.finish()
    return place
