"""Flask under gunicorn. Fields with an underscore are kept, as by uWSGI, CGI and gunicorn before version 22."""

from flask import Flask, request

app = Flask(__name__)
METHODS = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "PROPFIND"]


@app.route("/login", methods=METHODS, provide_automatic_options=False)
@app.route("/v1/mail:send", methods=METHODS, provide_automatic_options=False)
@app.route("/users/@me", methods=METHODS, provide_automatic_options=False)
@app.route("/users/<part>", methods=METHODS, provide_automatic_options=False)
@app.route("/admin/<path:part>", methods=METHODS, provide_automatic_options=False)
def serve(part=""):
    credentials = request.authorization
    is_bearer = credentials is not None and credentials.type == "bearer"
    return {
        "route": f"{request.url_rule.rule} {part}",
        "method": request.method,
        "key": request.headers.get("X-Api-Key"),
        "bearer": credentials.token if is_bearer else None,
        "user": request.args.get("user"),
        "session": request.cookies.get("sid"),
        # It is empty if Werkzeug does not like it, with an underscore for example.
        "host": (request.host or request.headers.get("Host")).split(":")[0].lower(),
    }
