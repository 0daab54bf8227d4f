#!/usr/bin/env python3
"""Runs a program on a terminal of its own: terminal.py COLUMNS PROGRAM ARGUMENT… Prints what the program prints."""

import fcntl
import os
import pty
import struct
import sys
import termios


def main():
    columns, program = int(sys.argv[1]), sys.argv[2:]
    child, terminal = pty.fork()
    if child == 0:
        fcntl.ioctl(sys.stdout.fileno(), termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
        os.execv(program[0], program)
    while True:
        try:
            printed = os.read(terminal, 4096)
        except OSError:
            # The program has ended, and its terminal is gone.
            break
        if not printed:
            break
        sys.stdout.buffer.write(printed)
    _, status = os.waitpid(child, 0)
    sys.exit(os.waitstatus_to_exitcode(status))


if __name__ == "__main__":
    main()
