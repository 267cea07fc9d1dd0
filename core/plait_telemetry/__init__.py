"""Record events and state for later analysis: from a bounded ring to segments on disk, by one thread.

Brokers and peers both use it. `ring`, `recorder` and `telemetry` make records and do no I/O. `writer` is the thread
that writes them, `readers` tracks the progress of remote readers, and `recording` runs all of it in a process.
"""
