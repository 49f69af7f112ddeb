"""The page that shows the API to people, with nothing that comes from another address."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from importlib import resources

from fastapi import APIRouter
from fastapi.openapi.docs import get_swagger_ui_html
from fastapi.responses import FileResponse, HTMLResponse

from driftrank.serve.service import Service

_SCRIPT, _STYLE = "swagger-ui-bundle.js", "swagger-ui.css"
_TYPES = {_SCRIPT: "text/javascript", _STYLE: "text/css"}
_NO_ICON = "data:,"


def router(service: Service) -> APIRouter:
    out = APIRouter()
    files = resources.files("fastapi_offline") / "static"

    # addresses are relative: behind a proxy the page may be at another path
    async def docs() -> HTMLResponse:
        return get_swagger_ui_html(
            openapi_url="openapi.json", title="driftrank", swagger_js_url=f"docs/{_SCRIPT}",
            swagger_css_url=f"docs/{_STYLE}", swagger_favicon_url=_NO_ICON,
            swagger_ui_parameters={"persistAuthorization": True, "defaultModelsExpandDepth": 0},
        )  # fmt: skip

    out.add_api_route("/docs", docs, methods=["GET"], include_in_schema=False)
    for name, type_ in _TYPES.items():
        out.add_api_route(f"/docs/{name}", _file(str(files / name), type_), methods=["GET"], include_in_schema=False)
    return out


def _file(path: str, type_: str) -> Callable[[], Awaitable[FileResponse]]:
    """What answers a file. It takes no arguments: FastAPI would take them from the address, and serve any file."""

    async def file() -> FileResponse:
        return FileResponse(path, media_type=type_, headers={"Cache-Control": "max-age=86400"})

    return file
