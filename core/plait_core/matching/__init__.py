"""The matching index: its interface, the Python reference, and the choice between it and the native kernel.

The reference and its numpy are imported where somebody asks for them: a broker with the kernel does without.
"""

from typing import TYPE_CHECKING

from ..doors import door

if TYPE_CHECKING:
    from .choice import index_name, new_index
    from .index import Index
    from .python_index import PythonIndex
else:
    __getattr__, __dir__ = door(
        __name__,
        {
            ".choice": ("index_name", "new_index"),
            ".index": ("Index",),
            ".python_index": ("PythonIndex",),
        },
    )

__all__ = ["Index", "PythonIndex", "index_name", "new_index"]
