"""The checks of the command `doctor`."""
