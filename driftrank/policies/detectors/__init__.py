"""Tests that say when a stream of zeros and ones has changed.

>>> from driftrank.policies.detectors import GLR
>>> GLR(delta=0.05).run([0] * 10 + [1] * 10)  # the observations at which it fires, counted from 1
[14]
"""

from driftrank.policies.detectors.base import Detector, Plan
from driftrank.policies.detectors.cusum import CUSUM
from driftrank.policies.detectors.glr import GLR
from driftrank.policies.detectors.page_hinkley import PageHinkley
from driftrank.policies.detectors.window_test import WindowTest

__all__ = ["CUSUM", "GLR", "Detector", "PageHinkley", "Plan", "WindowTest"]
