"""The doors that stand inside Heat's engine (layer 6), and the only code that knows Heat's own classes."""
