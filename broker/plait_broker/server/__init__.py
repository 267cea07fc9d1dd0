"""The broker's asyncio server: sockets, configuration, signals. It does all I/O except that of the log and of HTTP."""
