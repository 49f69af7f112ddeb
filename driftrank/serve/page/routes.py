"""The routes of the live page: sign-in, pages, their live updates, and forms."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from hmac import compare_digest
from typing import Any, NamedTuple
from urllib.parse import parse_qsl, quote, urlencode

from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response, StreamingResponse
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from driftrank.serve.access.keys import Keys
from driftrank.serve.core import no_ranker
from driftrank.serve.http.bodies import WholeBody
from driftrank.serve.http.endpoint import HEADERS, LABEL
from driftrank.serve.http.origin import check_origin, same_origin
from driftrank.serve.page import render, settings_form
from driftrank.serve.page.broadcast import Broadcaster, Regions, Round, Topic
from driftrank.serve.page.sandbox import Sandbox
from driftrank.serve.page.sessions import COOKIE, LIFETIME, Sessions, Viewer
from driftrank.serve.page.views import VIEWS, Looking
from driftrank.serve.problems import Refused
from driftrank.serve.service import Service

#: the browser loads nothing from elsewhere, and runs nothing that is written into a page
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; form-action 'self'; "
    "base-uri 'none'; frame-ancestors 'none'"
)
_HEADERS = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "referrer-policy": "same-origin",  # with no-referrer browsers would send forms from the origin "null"
    "cache-control": "no-store",
}
#: bytes of a form
_LONGEST = 16_384
#: the live updates of pages
_STREAM = "/page/stream"

_Handler = Callable[["Page", "_Asked"], Awaitable[Response]]


class _Asked(NamedTuple):
    """A request for a page, by someone with access."""

    request: Request
    viewer: Viewer
    form: Mapping[str, str]

    @property
    def params(self) -> dict[str, str]:
        return {**self.request.query_params, **self.request.path_params}


class Page:
    """The pages of a service. ``sandbox``: simulated users to try it with, if there are any."""

    def __init__(self, service: Service, keys: Keys, sandbox: Sandbox | None = None) -> None:
        self._service = service
        self._keys = keys
        self._sandbox = sandbox
        self.sessions = Sessions(keys, lambda: service.settings.session_secret)
        self.broadcaster = Broadcaster(self._regions, lambda: service.settings.max_pages, lambda: service.draining)

    def routes(self) -> list[Route]:
        table = [*_ROUTES, *(_SANDBOX if self._sandbox is not None else ())]
        return [
            *(Route(path, _Endpoint(self, handler), methods=[method]) for method, path, handler in table),
            Route("/sign-in", _SignIn(self), methods=["GET", "POST"]),
            Route("/page/{name}", _static, methods=["GET"]),
        ]

    # -- access ----------------------------------------------------------------------------------------------------

    def viewer(self, scope: Scope) -> Viewer | None:
        """The access of a request; None if it must sign in first."""
        if self._keys.open:
            check_origin(scope[HEADERS], self._service.settings)
        return self.sessions.viewer(_cookie(scope))

    def topic(self, view: str, params: Mapping[str, str], viewer: Viewer) -> Topic:
        """The page that is looked at; raises if it is about a ranker that must not be seen."""
        ranker = params.get("ranker")
        if ranker is None and view in ("ranker", "query"):
            raise Refused(422, "Bad value", "ranker: must be given")
        if ranker is not None and not viewer.sees(ranker):
            raise no_ranker(ranker)
        return Topic(view, tuple(sorted(params.items())), viewer.rankers)

    async def context(self, topic: Topic, round_: Round) -> dict[str, Any]:
        """The contents of a page, apart from who looks."""
        self._service.check_ready()
        looking = Looking(self._service, dict(topic.params), topic.rankers, self._sandbox, round_)
        return await VIEWS[topic.view](looking)

    async def _regions(self, topic: Topic, round_: Round) -> Regions:
        return await render.regions(f"{topic.view}.html", await self.context(topic, round_))

    async def answer(
        self, template: str, viewer: Viewer | None, context: Mapping[str, Any], status: int = 200
    ) -> Response:
        """A page, with what all have in common."""
        common = {
            "viewer": viewer, "sandbox": self._sandbox is not None, "stream": None, "view": template.partition(".")[0],
            "search": "",
        }  # fmt: skip
        return HTMLResponse(await render.page(template, {**common, **context}), status)

    async def problem(self, problem: Refused, viewer: Viewer | None) -> Response:
        out = await self.answer("problem.html", viewer, {"problem": problem}, problem.status)
        if problem.title == "Not ready":
            out.headers["refresh"] = "2"
        return out


class _Endpoint:
    """A page: checks access and, if something is to be changed, where the request comes from."""

    def __init__(self, page: Page, handler: _Handler) -> None:
        self._page, self._handler = page, handler

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        scope[LABEL] = "page"
        request = WholeBody(scope, receive)
        viewer: Viewer | None = None
        try:
            viewer = self._page.viewer(scope)
            if viewer is None:
                response = _to_sign_in(request)
            else:
                form = await _form(request) if request.method == "POST" else {}
                if request.method == "POST" and not _same(form.get("token", ""), viewer.token):
                    raise Refused(403, "Origin refused", "token: must be that of the page; load it again")
                response = await self._handler(self._page, _Asked(request, viewer, form))
        except Refused as problem:
            if scope["path"] == _STREAM:  # shown beside what the page has
                response = Response(problem.detail, problem.status, problem.headers, "text/plain")
            else:
                response = await self._page.problem(problem, viewer)
        await _safe(response)(scope, receive, send)


class _SignIn:
    """The form that exchanges a key for a session."""

    def __init__(self, page: Page) -> None:
        self._page = page

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        scope[LABEL] = "page"
        request = WholeBody(scope, receive)
        try:
            if self._page.viewer(scope) is not None:
                response: Response = RedirectResponse(_local(request.query_params.get("next")), 303)
            elif request.method == "POST":
                response = await self._begin(scope, await _form(request))
            else:
                response = await self._form(_local(request.query_params.get("next")))
        except Refused as problem:
            response = await self._page.problem(problem, None)
        await _safe(response)(scope, receive, send)

    async def _form(self, to: str, status: int = 200) -> Response:
        return await self._page.answer("sign_in.html", None, {"to": to, "refused": status != 200}, status)

    async def _begin(self, scope: Scope, form: Mapping[str, str]) -> Response:
        to = _local(form.get("next"))
        cookie = self._page.sessions.begin(form.get("key", "").strip())
        if cookie is None:
            return await self._form(to, 403)
        response = RedirectResponse(to, 303)
        _set_cookie(response, scope, cookie, LIFETIME)
        return response


async def _view(view: str, page: Page, asked: _Asked) -> Response:
    topic = page.topic(view, asked.params, asked.viewer)
    context = await page.context(topic, Round())
    stream = f"{_STREAM}?{urlencode({**asked.params, 'view': view})}"
    return await page.answer(f"{view}.html", asked.viewer, {"stream": stream, **context})


async def _stream(page: Page, asked: _Asked) -> Response:
    """The live updates of a page."""
    params = asked.params
    view = params.pop("view", "")
    if view not in VIEWS:
        raise Refused(422, "Bad value", f"view={view!r}: must be one of {', '.join(VIEWS)}")
    session = asked.viewer.session
    before = asked.viewer.rankers

    def allowed() -> bool:  # with the same access as in the beginning
        now = page.sessions.viewer(session)
        return now is not None and now.rankers == before

    asked.request.scope[LABEL] = "stream"  # its duration is that of a visit
    events = page.broadcaster.listen(page.topic(view, params, asked.viewer), allowed, asked.viewer.by)
    return StreamingResponse(events, media_type="text/event-stream", headers={"x-accel-buffering": "no"})


async def _find(page: Page, asked: _Asked) -> Response:
    """Go to an event, from the field at the top of every page."""
    return RedirectResponse(f"/event?id={quote(asked.params.get('id', '').strip(), safe='')}", 303)


async def _settings(page: Page, asked: _Asked) -> Response:
    """Review or apply a change of settings."""
    name = asked.params["ranker"]
    page.topic("ranker", {"ranker": name}, asked.viewer)
    if not asked.viewer.changes:
        raise Refused(403, "Key refused", "this key can read, and not change anything")
    review: settings_form.Review | None
    if asked.form.get("step") == "apply":
        review = await settings_form.apply(page._service, name, asked.form, asked.viewer.by)
    else:
        review = settings_form.review(page._service, name, asked.form)
    if review is not None:
        status = 409 if asked.form.get("step") == "apply" else 200
        return await page.answer("settings.html", asked.viewer, {"ranker": name, "review": review}, status)
    return RedirectResponse(f"/ranker/{quote(name)}#settings", 303)


async def _sign_out(page: Page, asked: _Asked) -> Response:
    response = RedirectResponse("/", 303)
    _set_cookie(response, asked.request.scope, "", 0)
    return response


async def _change_minds(page: Page, asked: _Asked) -> Response:
    assert page._sandbox is not None
    page._sandbox.change_minds()
    return RedirectResponse("/try", 303)


_ROUTES: tuple[tuple[str, str, _Handler], ...] = (
    ("GET", "/", partial(_view, "overview")),
    ("GET", "/ranker/{ranker}", partial(_view, "ranker")),
    ("GET", "/ranker/{ranker}/query", partial(_view, "query")),
    ("GET", "/event", partial(_view, "event")),
    ("GET", "/find", _find),
    ("GET", "/page/stream", _stream),
    ("POST", "/ranker/{ranker}/settings", _settings),
    ("POST", "/sign-out", _sign_out),
)
_SANDBOX: tuple[tuple[str, str, _Handler], ...] = (
    ("GET", "/try", partial(_view, "try")),
    ("POST", "/try/change", _change_minds),
)


async def _static(request: Request) -> Response:
    name = request.path_params["name"]
    if name not in render.STATIC:
        return Response(status_code=404)
    kept = {"cache-control": "public, max-age=31536000, immutable", "x-content-type-options": "nosniff"}
    return Response(render.static(name), media_type=render.STATIC[name], headers=kept)


async def _form(request: Request) -> dict[str, str]:
    """The fields of a form that a page of this service has sent."""
    headers = request.scope[HEADERS]
    if not same_origin(headers):
        raise Refused(403, "Origin refused", "forms of other origins are refused")
    length = headers.get(b"content-length", b"")
    if not length.isdigit() or int(length) > _LONGEST:
        raise Refused(413, "Body too long", f"form: must be no longer than {_LONGEST} bytes")
    body = await request.body()
    return dict(parse_qsl(body.decode("utf-8", "replace"), keep_blank_values=True))


def _same(token: str, other: str) -> bool:
    return compare_digest(token.encode(), other.encode())


def _cookie(scope: Scope) -> str | None:
    for part in scope[HEADERS].get(b"cookie", b"").decode("latin-1").split(";"):
        name, _, value = part.strip().partition("=")
        if name == COOKIE:
            return str(value)
    return None


def _set_cookie(response: Response, scope: Scope, value: str, seconds: int) -> None:
    secure = scope["scheme"] == "https" or scope[HEADERS].get(b"x-forwarded-proto") == b"https"
    response.set_cookie(COOKIE, value, max_age=seconds, path="/", secure=secure, httponly=True, samesite="strict")


def _to_sign_in(request: Request) -> Response:
    if request.method != "GET" or request.url.path == _STREAM:
        return Response("sign in first", 401, media_type="text/plain")
    path = request.url.path + (f"?{request.url.query}" if request.url.query else "")
    return RedirectResponse(f"/sign-in?next={quote(path, safe='')}", 303)


def _local(path: str | None) -> str:
    """A path of this service, or "/": a link must not lead elsewhere by way of the sign-in."""
    good = path is not None and path.startswith("/") and not path.startswith(("//", "/\\")) and path.isprintable()
    return path if good and path is not None else "/"


def _safe(response: Response) -> Response:
    for name, value in _HEADERS.items():
        response.headers.setdefault(name, value)
    return response
