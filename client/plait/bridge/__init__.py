"""Carries events between brokers and a group of peers. Several bridges elect one that carries."""
