"""Detectors of changes in streams of zeros and ones.

>>> from driftrank.policies.detecting.detectors import GLR
>>> GLR(delta=0.05).run([0] * 10 + [1] * 10)  # the observations at which it fires, counted from 1
[14]
"""

from driftrank.policies.detecting.detectors.base import Detector, DetectorPlan
from driftrank.policies.detecting.detectors.cusum import CUSUM
from driftrank.policies.detecting.detectors.glr import GLR
from driftrank.policies.detecting.detectors.page_hinkley import PageHinkley
from driftrank.policies.detecting.detectors.window_test import WindowTest

__all__ = ["CUSUM", "GLR", "Detector", "DetectorPlan", "PageHinkley", "WindowTest"]
