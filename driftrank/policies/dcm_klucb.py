"""DCMKLUCB: KL-UCB for users who may click several times."""

from __future__ import annotations

from driftrank.policies.cascade_klucb import CascadeKLUCB
from driftrank.policies.dcm import DCMPolicy


class DCMKLUCB(DCMPolicy, CascadeKLUCB):
    r"""KL-UCB for the dependent click model (dcmKL-UCB; Katariya, Kveton, Szepesvári and Wen, 2016).

    Users may click several times; after a click at position k they leave, satisfied, with probability :math:`v_k`. What
    stands above the last click was looked at, so these positions count as observed, all where nobody clicked. Items
    have the index of :class:`CascadeKLUCB`,

    .. math:: U_t(a) = \max\{q: N(a)\, \mathrm{kl}(X(a)/N(a), q) \le \ln t + c \ln\ln t\},

    and the item with the k-th largest one stands at the position with the k-th largest :math:`v`. Only the order of the
    positions must be known.

    Parameters
    ----------
    termination
        :math:`v`, how likely a click at each position is the last one, or any numbers in that order, at least K of
        them; ``"decreasing"``: the higher up, the likelier.
    c, initial
        As of :class:`CascadeKLUCB`.

    Notes
    -----
    Guarantee, in a stationary world: Katariya et al. bound the regret in the chance of a satisfied user,
    :math:`1 - \prod_k (1 - v_k \alpha(R(k)))`, by :math:`O(\ln n)`, under their assumptions.

    What was looked at below the last click and not clicked does not count, which overrates items, the more so the
    further down they stand and the fewer users leave after a click above. That is little where :math:`v` decreases.
    Where it increases, the best items stand at the bottom, and overrated ones may stay there for good; then
    ``feedback="first"`` is the better choice, which learns from fewer labels, but fair ones.

    State: 4 L floats and K integers. A step costs O(L + K), up to :math:`O(L + K^2)` where :math:`v` increases.

    Examples
    --------
    >>> import driftrank as dr
    >>> learner = dr.DCMKLUCB(termination=(0.2, 0.3, 0.9)).start(items=["a", "b", "c", "d"], k=3, seed=0)
    >>> for _ in range(50):
    ...     learner.update(["d", "c", "b"], clicks=[0, 1, 0])  # of b, below the last click, nothing is learnt
    >>> learner.rank()[::-1]  # never seen, so they come first, where users leave
    ['a', 'b', 'c']
    """
