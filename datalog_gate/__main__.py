"""The command line as a module, ``python -m datalog_gate``."""

from datalog_gate.doors.cli.main import run

if __name__ == "__main__":
    run()
