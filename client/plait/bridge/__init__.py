"""Carries events between brokers and a group of peers; of several bridges one is elected."""
