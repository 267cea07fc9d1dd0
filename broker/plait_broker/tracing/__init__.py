"""Explanations of routes and deliveries, from data that the pipeline records without delaying events."""
