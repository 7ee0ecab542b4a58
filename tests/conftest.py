"""What all tests share: a generated case may take as long as it takes, for no test looks at a clock."""

from __future__ import annotations

from contextlib import suppress

with suppress(ImportError):  # not every environment generates cases
    from hypothesis import settings

    settings.register_profile("patient", deadline=None)
    settings.load_profile("patient")
