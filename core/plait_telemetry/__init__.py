"""Records of what happens, for analysis later: from a bounded ring to segments on disk, by one thread.

Brokers and peers both have it. `ring`, `recorder` and `telemetry` make records and do no I/O; `writer` is the thread,
`readers` how far others have read what it wrote, `face` all of it in a process that runs.
"""
