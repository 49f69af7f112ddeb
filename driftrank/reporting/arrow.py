"""Arrow columns from the memory of NumPy arrays.

``pyarrow.array`` would do the same but first imports pandas, if installed, which takes half a second.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import pyarrow


def column(values: NDArray[Any]) -> pyarrow.Array:
    """A column of numbers."""
    import pyarrow

    whole = np.ascontiguousarray(values)
    return pyarrow.Array.from_buffers(
        pyarrow.from_numpy_dtype(whole.dtype), len(whole), [None, pyarrow.py_buffer(whole)]
    )


def text_column(values: Sequence[str]) -> pyarrow.Array:
    """A column of text."""
    import pyarrow

    encoded = [value.encode() for value in values]
    ends = np.cumsum([0, *map(len, encoded)], dtype=np.int32)
    return pyarrow.StringArray.from_buffers(len(encoded), pyarrow.py_buffer(ends), pyarrow.py_buffer(b"".join(encoded)))


def dictionary_column(codes: NDArray[Any], names: Sequence[str]) -> pyarrow.Array:
    """A column of text, given by indices into a list."""
    import pyarrow

    return pyarrow.DictionaryArray.from_arrays(column(codes.astype(np.int32)), text_column(names))
