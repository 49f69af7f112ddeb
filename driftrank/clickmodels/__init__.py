"""Click models: how users click."""

from driftrank.clickmodels.base import ClickModel
from driftrank.clickmodels.cascade import CascadeModel

__all__ = ["CascadeModel", "ClickModel"]
