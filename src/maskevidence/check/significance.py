"""How far from its expectation a statistical check lets a number be: one bound for a whole call."""

from maskevidence.evidence.standard_errors import student_t_quantile

FALSE_ALARMS = 1e-3  # of all statistical checks of one call together, on a sound model
_N_TESTS = 11  # at most: the ids, 4 offsets, 2 sampled masses, and 4 of objectives and collators


def critical(df: float) -> float:
    """The number of standard errors that one of the tests of a call allows, two-sided (Bonferroni).

    Args:
        df: degrees of freedom of the standard error.

    Example:
        >>> import math
        >>> round(critical(math.inf), 2), round(critical(15), 2)
        (3.91, 5.29)
    """
    return student_t_quantile(1 - FALSE_ALARMS / _N_TESTS / 2, df)


def in_bound(n_above: int, n: int) -> bool:
    """Whether random signs explain that n_above of n differences are positive (one-sided sign test).

    Example:
        >>> in_bound(15, 16), in_bound(16, 16)
        (True, False)
    """
    from scipy import special

    chance = 1.0 if n_above == 0 else float(special.bdtrc(n_above - 1, n, 0.5))
    return chance > FALSE_ALARMS / _N_TESTS
