"""The matching index: its interface, the Python reference, and the choice between it and the native kernel.

The reference and numpy are imported at their first use: a broker with the kernel does not need them.
"""

from typing import TYPE_CHECKING

from ..lazy_exports import lazy_exports

if TYPE_CHECKING:
    from .index import Index
    from .python_index import PythonIndex
    from .select_index import index_name, new_index
else:
    __getattr__, __dir__ = lazy_exports(
        __name__,
        {
            ".select_index": ("index_name", "new_index"),
            ".index": ("Index",),
            ".python_index": ("PythonIndex",),
        },
    )

__all__ = ["Index", "PythonIndex", "index_name", "new_index"]
