"""Starlette under uvicorn."""

from starlette.applications import Starlette
from starlette.responses import JSONResponse
from starlette.routing import Route


def serve(name):
    async def endpoint(request):
        scheme, _, token = request.headers.get("authorization", "").partition(" ")  # as FastAPI does
        return JSONResponse({
            "route": " ".join([name, *request.path_params.values()]),
            "method": request.method,
            "key": request.headers.get("x-api-key"),
            "bearer": token if scheme.lower() == "bearer" else None,
            "user": request.query_params.get("user"),
            "session": request.cookies.get("sid"),
            "host": request.url.hostname,
        })

    return endpoint


METHODS = ["GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "PROPFIND"]
PATHS = ["/login", "/v1/mail:send", "/users/@me", "/users/{id}", "/admin/{rest:path}"]
app = Starlette(routes=[Route(path, serve(path), methods=METHODS) for path in PATHS])
