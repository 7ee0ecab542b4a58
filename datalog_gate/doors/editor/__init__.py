"""The language server: translates the protocol to `editing` and back.

Layer 7: may import everything but other doors. `language_server` needs pygls.
"""
