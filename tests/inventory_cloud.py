"""A cloud on loopback whose APIs answer with the lists of `inventory_answers.json`."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.scripted_cloud import Answer, Cloud, with_keystone

PATHS = {
    "identity": "/identity/v3",
    "compute": "/compute/v2.1",
    "placement": "/placement",
    "network": "/network/v2.0",
    "block-storage": "/block-storage/v3",
    "image": "/image/v2",
    "orchestration": "/orchestration/v1/p",
    "object-store": "/object-store/v1/AUTH_p",
    "baremetal": "/baremetal/v1",
    "load-balancer": "/load-balancer/v2",
}
FURTHER = ("marker=", "offset=")


class Lists(dict[str, Answer]):
    """Answers by request, whatever the size of the page that it asks for. The page behind the last is empty."""

    def get(self, request: str, default: Any = None) -> Any:
        plain = request.replace("?limit=1000", "?").replace("&limit=1000", "").rstrip("?").replace("?&", "?")
        answer = super().get(plain, None)
        if answer is None and any(word in request for word in FURTHER):
            body = super().get(plain.partition("?")[0], super().get(plain.rpartition("&")[0], default))[1]
            return 200, [] if isinstance(body, list) else {key: [] for key in body}, {}
        if answer and isinstance(answer[1], tuple):
            first, *rest = answer[1]
            if rest:
                self[plain] = (200, tuple(rest), {})
            return first if isinstance(first, tuple) else (200, first, {})
        return answer or default


@contextmanager
def with_services(monkeypatch: pytest.MonkeyPatch, *absent: str) -> Iterator[Cloud]:
    """Run a cloud with all services but those, with a user's credentials in the environment."""
    with with_keystone(monkeypatch) as cloud:
        cloud.answers = Lists(cloud.answers)
        status, token, headers = cloud.answers["POST /v3/auth/tokens"]
        endpoint = {"interface": "public", "region_id": "r", "region": "r", "id": "e"}
        catalog = [
            {"type": kind, "name": kind, "id": kind, "endpoints": [{**endpoint, "url": cloud.url + path}]}
            for kind, path in PATHS.items()
            if kind not in absent
        ]
        project = {"id": "p", "name": "p", "domain": {"id": "d", "name": "d"}}
        body = {"token": {**token["token"], "catalog": catalog, "project": project}}  # type: ignore[index]
        cloud.answers["POST /v3/auth/tokens"] = status, body, headers
        for path, answer in read_answers().items():
            cloud.give(f"GET /{path}", answer)
        yield cloud


def read_answers() -> dict[str, Any]:
    """The lists by service and path."""
    answers: dict[str, Any] = json.loads((Path(__file__).parent / "inventory_answers.json").read_text())
    return answers
