"""Overlay worlds with their own course of events: churn, outages, stalls, given graphs, closer checks."""
