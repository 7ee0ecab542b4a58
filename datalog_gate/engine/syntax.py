"""Nodes of Python syntax trees that all have one place.

Setting a place for each node of a tree would take longer than compiling it.
"""

from __future__ import annotations

import ast
from typing import TypeVar

_Node = TypeVar("_Node", bound=ast.AST)


def _with_place(kind: type[_Node]) -> type[_Node]:
    return type(kind.__name__, (kind,), {"lineno": 1, "col_offset": 0, "end_lineno": 1, "end_col_offset": 0})


Arg = _with_place(ast.arg)
Assign = _with_place(ast.Assign)
Attribute = _with_place(ast.Attribute)
AugAssign = _with_place(ast.AugAssign)
BinOp = _with_place(ast.BinOp)
BoolOp = _with_place(ast.BoolOp)
Break = _with_place(ast.Break)
Call = _with_place(ast.Call)
Compare = _with_place(ast.Compare)
Constant = _with_place(ast.Constant)
Continue = _with_place(ast.Continue)
Expr = _with_place(ast.Expr)
For = _with_place(ast.For)
FunctionDef = _with_place(ast.FunctionDef)
If = _with_place(ast.If)
IfExp = _with_place(ast.IfExp)
Name = _with_place(ast.Name)
Return = _with_place(ast.Return)
Subscript = _with_place(ast.Subscript)
Tuple = _with_place(ast.Tuple)
UnaryOp = _with_place(ast.UnaryOp)
