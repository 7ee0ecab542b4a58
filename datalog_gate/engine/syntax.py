"""Nodes of Python's syntax trees, which all stand on line 1.

A walk through each tree that gives its nodes places would take longer than to compile it.
"""

from __future__ import annotations

import ast
from typing import TypeVar

_Node = TypeVar("_Node", bound=ast.AST)


def _placed(kind: type[_Node]) -> type[_Node]:
    return type(kind.__name__, (kind,), {"lineno": 1, "col_offset": 0, "end_lineno": 1, "end_col_offset": 0})


Arg = _placed(ast.arg)
Assign = _placed(ast.Assign)
Attribute = _placed(ast.Attribute)
AugAssign = _placed(ast.AugAssign)
BinOp = _placed(ast.BinOp)
BoolOp = _placed(ast.BoolOp)
Break = _placed(ast.Break)
Call = _placed(ast.Call)
Compare = _placed(ast.Compare)
Constant = _placed(ast.Constant)
Continue = _placed(ast.Continue)
Expr = _placed(ast.Expr)
For = _placed(ast.For)
FunctionDef = _placed(ast.FunctionDef)
If = _placed(ast.If)
IfExp = _placed(ast.IfExp)
Name = _placed(ast.Name)
Subscript = _placed(ast.Subscript)
Tuple = _placed(ast.Tuple)
UnaryOp = _placed(ast.UnaryOp)
