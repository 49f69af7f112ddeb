"""Click models: how users click, the best list for them, and fitting to a log."""

from driftrank.clickmodels.base import ClickModel
from driftrank.clickmodels.ccm import CCM
from driftrank.clickmodels.cm import CM
from driftrank.clickmodels.dbn import DBN
from driftrank.clickmodels.dcm import DCM
from driftrank.clickmodels.pbm import PBM
from driftrank.clickmodels.registry import click_models
from driftrank.clickmodels.sdbn import SDBN
from driftrank.clickmodels.ubm import UBM

__all__ = ["CCM", "CM", "DBN", "DCM", "PBM", "SDBN", "UBM", "ClickModel", "click_models"]
