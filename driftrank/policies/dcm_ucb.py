"""DCMUCB: UCB1 for users who may click several times."""

from __future__ import annotations

from driftrank.policies.cascade_ucb1 import CascadeUCB1
from driftrank.policies.dcm import DCMPolicy


class DCMUCB(DCMPolicy, CascadeUCB1):
    r"""UCB1 for the dependent click model (dcmUCB; Katariya, Kveton, Szepesvári and Wen, 2016).

    As :class:`DCMKLUCB`, with the index of :class:`CascadeUCB1`,

    .. math:: U_t(a) = \frac{X(a)}{N(a)} + \sqrt{\frac{1.5 \ln(t-1)}{N(a)}}.

    Parameters
    ----------
    termination
        How likely a click at each position is the last one, or any numbers in that order, at least K of them;
        ``"decreasing"``: the higher up, the likelier.
    exploration, initial
        As of :class:`CascadeUCB1`.

    Notes
    -----
    State: 4 L floats and K integers.

    Examples
    --------
    >>> import driftrank as dr
    >>> learner = dr.DCMUCB(termination=(0.2, 0.9)).start(items=["a", "b"], k=2, seed=0)
    >>> learner.update(["a", "b"], clicks=[1, 0])
    >>> learner.rank()  # b was not looked at; the first choice stands where users leave
    ['a', 'b']
    """
