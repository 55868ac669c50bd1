"""Functions called in forked processes."""

import os
import sys
import threading
import traceback
from collections.abc import Callable

from tqdm.std import tqdm

# In place of a lock that processes share, which one that is killed would never give back.
tqdm.set_lock(threading.RLock())


def fork(act: Callable[[], object]) -> int:
    """Call a function in a forked process, whose id is returned; an error is printed, with exit code 1."""
    child = os.fork()
    if child == 0:
        tqdm.set_lock(threading.RLock())  # a thread of the parent may hold the parent's
        code = 1
        try:
            act()
            code = 0
        except BaseException:
            traceback.print_exc(file=sys.__stderr__)
        finally:
            os._exit(code)
    return child


def exit_code(child: int) -> int:
    """The exit code of a forked process, once it has ended; negative for a signal."""
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
