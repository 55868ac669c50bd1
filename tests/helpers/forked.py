"""Call functions in forked processes."""

import os
import socket
import sys
import threading
import traceback
from collections.abc import Callable
from functools import partial

from tqdm.std import tqdm

# Replaces a lock shared between processes, which a killed process would never release.
tqdm.set_lock(threading.RLock())


def fork(act: Callable[[], object]) -> int:
    """Call a function in a forked process and return its id; an exception is printed and exits with code
    1.
    """
    child = os.fork()
    if child == 0:
        tqdm.set_lock(threading.RLock())  # a thread of the parent may hold the inherited lock
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
    """Wait for a forked process; return its exit code, negative for a signal."""
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def in_two_processes(act: Callable[[], object]) -> list[int]:
    """Call a function in two processes, as `torchrun` does on a CPU; return their exit codes."""
    import transformers.trainer  # imported once, not in each process

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
