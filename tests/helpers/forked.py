"""Functions called in forked processes."""

import os
import socket
import sys
import threading
import traceback
from collections.abc import Callable
from functools import partial

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


def in_two_processes(act: Callable[[], object]) -> list[int]:
    """Call a function in two processes, as `torchrun` starts them on a CPU; their exit codes."""
    import transformers.trainer  # once, and not in each process

    assert transformers.trainer
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]

    def one(rank: int) -> None:
        from accelerate.state import AcceleratorState

        AcceleratorState._reset_state(reset_partial_state=True)
        os.environ |= {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2"}
        os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "OMP_NUM_THREADS": "1"}
        act()

    return [exit_code(child) for child in [fork(partial(one, rank)) for rank in (0, 1)]]
