"""Django under Python's own WSGI server, which keeps every field and every method."""

import sys
from socketserver import ThreadingMixIn
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

from django.conf import settings
from django.core.wsgi import get_wsgi_application
from django.http import JsonResponse
from django.urls import path

settings.configure(ROOT_URLCONF=__name__, ALLOWED_HOSTS=["*"], SECRET_KEY="not a secret")


def serve(request, part=""):
    words = request.headers.get("Authorization", "").split()  # as Django REST framework does
    is_bearer = len(words) == 2 and words[0].lower() == "bearer"
    return JsonResponse({
        "route": f"{request.resolver_match.route} {part}",
        "method": request.method,
        "key": request.headers.get("X-Api-Key"),
        "bearer": words[1] if is_bearer else None,
        "user": request.GET.get("user"),
        "session": request.COOKIES.get("sid"),
        "host": request.get_host().split(":")[0],
    })


urlpatterns = [
    path("login", serve),
    path("v1/mail:send", serve),
    path("users/@me", serve),
    path("users/<str:part>", serve),
    path("admin/<path:part>", serve),
]


class Server(ThreadingMixIn, WSGIServer):
    daemon_threads = True
    request_queue_size = 128


class Quiet(WSGIRequestHandler):
    def log_message(self, *_):
        pass


make_server("127.0.0.1", int(sys.argv[1]), get_wsgi_application(), Server, Quiet).serve_forever()
