"""Sockets that brokers and peers share. They carry bytes and contain no protocol."""
