"""The matching index: its interface, the Python reference, and the choice between it and the native kernel."""

from .choice import index_name, new_index
from .index import Index
from .python_index import PythonIndex

__all__ = ["Index", "PythonIndex", "index_name", "new_index"]
