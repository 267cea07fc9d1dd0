"""Dissemination strategies: plan the copies of an event, given its destinations. One file for each algorithm."""
