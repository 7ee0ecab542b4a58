"""The routes of the pages: sign-in, style, and each view."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

import falcon

from datalog_gate.base.diagnostics import shorten
from datalog_gate.base.errors import UsageError
from datalog_gate.doors.server.access import WSGI, Client
from datalog_gate.doors.server.endpoint import ApiError
from datalog_gate.doors.server.json_body import read_body
from datalog_gate.doors.server.pages.api_client import ApiClient, RefusedRequestError
from datalog_gate.doors.server.pages.sessions import COOKIE, MOST, OPEN, SECONDS, SessionFiles
from datalog_gate.doors.server.pages.views import VIEWS, PageCall, Shown, View, link_next
from datalog_gate.doors.server.policy_server import PolicyServer
from datalog_gate.doors.server.scan_access import keep_scan_store
from datalog_gate.pages.rendering import read_style, render

POLICY = "default-src 'none'; style-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
AREAS = [(view.area, view.path) for view in VIEWS if view.path.count("/") < 3]
FORM = "application/x-www-form-urlencoded"
PATIENCE = 10
"""Seconds to wait for Keystone."""
FIELDS = ("username", "password", "user_domain", "project", "project_domain", "token")


def add_pages(app: Any, conf: Any, server: PolicyServer, identify: Any) -> None:
    """Add the routes of all pages. `identify` returns the caller from the environment of a request."""
    app.add_route("/pages/style.css", _Style())
    app.add_route("/pages/sign-in", _SignIn(conf, server))
    app.add_route("/pages/sign-out", _SignOut())
    for view in VIEWS:
        app.add_route(view.path, _Page(app, server, view, identify))


class _Page:
    """A page, and what its form does."""

    def __init__(self, app: WSGI, server: PolicyServer, view: View, identify: Any) -> None:
        self._app, self._server, self._view, self._identify = app, server, view, identify

    def on_get(self, req: falcon.Request, resp: falcon.Response, **path: str) -> None:
        with keep_scan_store():
            self._answer(req, resp, path, {})

    on_head = on_get

    def on_post(self, req: falcon.Request, resp: falcon.Response, **path: str) -> None:
        form = read_form(req)
        if form.pop("form_key", "") != req.env.get("datalog_gate.form_key") or not is_same_site(req):
            problem = RefusedRequestError(403, {"detail": "Go back and load it again."})
            _send(resp, 403, _render(req, "problem.html", "The form does not belong to this session", problem=problem))
            return
        self._answer(req, resp, path, form)

    def _answer(
        self, req: falcon.Request, resp: falcon.Response, path: Mapping[str, str], form: dict[str, str]
    ) -> None:
        path = {name: unquote(value) if name == "stack" else value for name, value in path.items()}
        req.env["datalog_gate.operation"] = f"page:{self._view.template.removesuffix('.html')}"
        client: Client = self._identify(req.env)
        if not client.credentials:
            raise ApiError(401, "unauthorized", "sign in")
        query = dict(parse_qsl(req.query_string, keep_blank_values=True))
        call = PageCall(
            ApiClient(self._app, req.env), lambda name: client.may(f"datalog_gate:{name}"), path, query, form
        )
        problem: RefusedRequestError | None = None
        if req.method == "POST":
            try:
                if self._view.post is None:
                    raise falcon.HTTPMethodNotAllowed(["GET"])
                resp.status, resp.location = 303, self._view.post(call)
                return
            except RefusedRequestError as error:
                problem = error
        try:
            shown = self._view.show(call)
        except RefusedRequestError as error:
            problem = error
            shown = Shown("Not possible", {}, error.status)
        template = self._view.template if shown.values else "problem.html"
        status = problem.status if problem else shown.status
        if shown.refresh:
            resp.set_header("Refresh", str(shown.refresh))
        values = shown.values | {"next": link_next(self._view, call, shown.values)}
        _send(resp, status, _render(req, template, shown.title, self._view, problem, values))


def _render(
    req: falcon.Request,
    template: str,
    title: str,
    view: View | None = None,
    problem: RefusedRequestError | None = None,
    values: Mapping[str, Any] = MappingProxyType({}),
) -> str:
    """Render the page with the parts that all pages have."""
    return render(
        template,
        title=title,
        area=view.area if view else "",
        areas=AREAS,
        twin=_find_twin(view, req) if view else "",
        refusal=problem.error if problem else None,
        form_key=req.env.get("datalog_gate.form_key", ""),
        user=req.env.get("HTTP_X_USER_NAME") or req.env.get("HTTP_X_USER_ID", ""),
        project=req.env.get("HTTP_X_PROJECT_NAME") or req.env.get("HTTP_X_PROJECT_ID", ""),
        here=req.path,
        wrong_lines=_list_wrong_lines(problem),
        **values,
    )


def _list_wrong_lines(problem: RefusedRequestError | None) -> list[int]:
    """The lines of refused rules that have mistakes."""
    diagnostics = problem.error.get("diagnostics", ()) if problem else ()
    places = [diagnostic["place"] or {} for diagnostic in diagnostics]
    return [place["line"] for place in places if place.get("file") == "rules.dl"]


def _find_twin(view: View, req: falcon.Request) -> str:
    """The API path with the data of the page; its last part is that of the page."""
    twin = view.twin or view.path.replace("/pages", "/v2", 1)
    return f"{twin.partition('{')[0]}{req.relative_uri.partition('?')[0].rpartition('/')[2]}" if "{" in twin else twin


def send_problem(req: falcon.Request, resp: falcon.Response, error: ApiError) -> None:
    """Answer with a page that says why there is no other."""
    for name, value in error.headers.items():
        resp.set_header(name, value)
    problem = RefusedRequestError(error.status, {"detail": error.message, "suggestion": error.suggestion})
    title = "There is no such page" if error.status == 404 else "Not possible"
    if error.status == 404:
        problem = RefusedRequestError(404, {"detail": f"there is no page at {shorten(req.path, 100)}"})
    _send(resp, error.status, _render(req, "problem.html", title, problem=problem))


def _send(resp: falcon.Response, status: int, text: str) -> None:
    resp.status, resp.content_type, resp.text = status, "text/html; charset=utf-8", text
    for name, value in {
        "Content-Security-Policy": POLICY,
        "X-Content-Type-Options": "nosniff",
        "Referrer-Policy": "same-origin",
        "Cache-Control": "no-store, private",
    }.items():
        resp.set_header(name, value)


def read_form(req: falcon.Request) -> dict[str, str]:
    """The fields of a form. Errors: ApiError."""
    if (req.content_type or "").partition(";")[0].strip().lower() != FORM:
        raise ApiError(415, "media_type", f"send {FORM}")
    content = read_body(req.env)
    try:
        pairs = parse_qsl(content.decode("ascii"), keep_blank_values=True, errors="strict", max_num_fields=50)
    except ValueError as error:
        raise ApiError(400, "malformed_form", f"the form can't be read: {error}") from None
    return {name: value.replace("\r\n", "\n") for name, value in pairs}


def is_same_site(req: falcon.Request) -> bool:
    """Whether the form comes from this site, according to the browser."""
    return req.get_header("Sec-Fetch-Site") in (None, "same-origin", "none")


class _Style:
    def on_get(self, _req: falcon.Request, resp: falcon.Response) -> None:
        resp.content_type, resp.text = "text/css; charset=utf-8", read_style()
        resp.set_header("Cache-Control", "max-age=300")
        resp.set_header("X-Content-Type-Options", "nosniff")

    on_head = on_get


class _SignIn:
    """Accepts the server's token, or a Keystone password or token, and starts a session."""

    def __init__(self, conf: Any, server: PolicyServer) -> None:
        self._conf, self._server = conf, server

    def on_get(self, req: falcon.Request, resp: falcon.Response) -> None:
        self._show(req, resp, 200, {"next": req.get_param("next") or ""})

    on_head = on_get

    def on_post(self, req: falcon.Request, resp: falcon.Response) -> None:
        form = read_form(req)
        if not is_same_site(req):
            raise ApiError(403, "forbidden", "the form comes from another site")
        token, problem = form.get("token", "").strip(), ""
        if not token and self._uses_keystone and form.get("username"):
            try:
                token = _fetch_token(self._conf, {name: form.get(name, "") for name in FIELDS})
            except UsageError as error:
                problem = str(error)
        if not problem and not (token.isascii() and token.isprintable() and " " not in token and 0 < len(token) < MOST):
            problem = (
                "the token is not a token of this server" if token else "a name with a password, or a token, is missing"
            )
        if not problem and not req.env["datalog_gate.sign_in"](req.env, token):
            problem = "the token is not valid, or has expired"
        if problem:
            self._show(req, resp, 401, form, problem)
            return
        resp.status, resp.location = 303, _own_path(form.get("next", ""))
        sessions: SessionFiles = req.env["datalog_gate.sessions"]
        sessions.end(req.cookies.get(COOKIE, ""))
        secure = req.scheme == "https"
        resp.set_cookie(COOKIE, sessions.start(token), max_age=SECONDS, path="/pages", secure=secure, same_site="Lax")

    @property
    def _uses_keystone(self) -> bool:
        return bool(self._server.options.auth == "keystone")

    def _show(
        self, req: falcon.Request, resp: falcon.Response, status: int, given: Mapping[str, str], problem: str = ""
    ) -> None:
        """Show the forms, with what was given but for password and token."""
        values = {"keystone": self._uses_keystone, "given": given, "problem": problem}
        _send(resp, status, _render(req, "sign_in.html", "Sign in", values=values))


def _fetch_token(conf: Any, given: Mapping[str, str]) -> str:
    """Fetch a token for a user and a project, or with system scope. Errors: UsageError."""
    from keystoneauth1.exceptions import ClientException, Unauthorized
    from keystoneauth1.identity.v3 import Password
    from keystoneauth1.session import Session

    options = conf.keystone_authtoken
    scope: dict[str, Any] = {"system_scope": "all"}
    if given["project"]:
        scope = {"project_name": given["project"], "project_domain_name": given["project_domain"] or "Default"}
    password = Password(
        options.www_authenticate_uri,
        username=given["username"],
        password=given["password"],
        user_domain_name=given["user_domain"] or "Default",
        **scope,
    )
    session = Session(password, verify=options.cafile or not options.insecure, timeout=PATIENCE)
    try:
        return str(session.get_token())
    except Unauthorized:
        raise UsageError("Keystone does not accept the name, password, domain and project") from None
    except ClientException:
        raise UsageError("Keystone can't be reached now") from None


class _SignOut:
    def on_post(self, req: falcon.Request, resp: falcon.Response) -> None:
        req.env["datalog_gate.sessions"].end(req.cookies.get(COOKIE, ""))
        resp.status, resp.location = 303, OPEN[0]
        resp.unset_cookie(COOKIE, path="/pages")


def _own_path(path: str) -> str:
    """The path if it belongs to a page here, else the first page, so that links can't redirect elsewhere."""
    parts = urlsplit(path)
    own = not parts.scheme and not parts.netloc and (parts.path == "/pages" or parts.path.startswith("/pages/"))
    return path if own and path.isprintable() and "\\" not in path and path.isascii() else "/pages"
