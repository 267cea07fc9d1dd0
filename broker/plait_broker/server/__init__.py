"""The broker's asyncio face: sockets, configuration, signals. Everything that does I/O but the log and HTTP."""
