"""Runs commands of a program: manage.py PROGRAM OPTION... -- ARGUMENT... -- ARGUMENT...

Each is a fork of this process, which has imported the program: that takes longer than most of its commands.
"""

from __future__ import annotations

import os
import sys
from importlib.metadata import entry_points
from itertools import groupby


def main() -> int:
    """Run the commands in order; return the exit code of the first that fails, else 0."""
    options, *commands = (list(words) for is_end, words in groupby(sys.argv[1:], "--".__eq__) if not is_end)
    [program] = entry_points(group="console_scripts", name=options[0])
    run = program.load()
    for command in commands:
        child = os.fork()
        if not child:
            sys.argv = [*options, *command]
            sys.exit(run())
        if code := os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]):
            return code
    return 0


if __name__ == "__main__":
    sys.exit(main())
