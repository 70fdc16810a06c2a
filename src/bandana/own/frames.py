"""Vectors in the container that scikit-learn was told to give out."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils._set_output import _get_output_config

Array = np.ndarray[Any, np.dtype[np.float32]]


def framed(estimator: BaseEstimator, vectors: Array, nodes: Sequence[Any]) -> Array:
    """A pandas frame with the nodes as index, if one is wanted: scikit-learn would number its rows like the edges."""
    if _get_output_config("transform", estimator)["dense"] != "pandas":
        return vectors
    import pandas as pd

    frame: Array = pd.DataFrame(vectors, index=pd.Index(nodes, tupleize_cols=False))
    return frame
