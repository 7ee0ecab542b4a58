"""Finds the smallest stacks that a policy denies, and near ones that pass."""
