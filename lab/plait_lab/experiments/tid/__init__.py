"""Experiments of the TID paper: adaptive content-based routing in general overlays."""
