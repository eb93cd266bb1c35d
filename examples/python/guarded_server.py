"""An HTTP service that refuses a holder which woke up late: each write brings its token in a header.

    python3 guarded_server.py [PORT]

PUT /NAME with `Pawl-Token: N` stores the body, unless a higher token has written to NAME: then 409. The token is the one of the
lock that guards NAME (pawl-lock: PAWL_LOCK_EPOCH; the library: pawl_token). A real service keeps the highest token with its
data, in one transaction; this one keeps both in memory.
"""
import http.server
import sys
import threading

stored, lock = {}, threading.Lock()  # NAME: (token, body)


class Handler(http.server.BaseHTTPRequestHandler):
    """PUT and GET."""

    def answer(self, code, body=b""):
        self.send_response(code)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_PUT(self):  # the name is http.server's
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        token = self.headers.get("Pawl-Token", "")
        if not token.isdecimal():
            self.answer(400, b"the header Pawl-Token is missing, or no number\n")
            return
        with lock:
            highest = stored.get(self.path, (0, b""))[0]
            if int(token) >= highest:
                stored[self.path] = (int(token), body)
        if int(token) < highest:
            self.answer(409, f"token {token} is below {highest}\n".encode())
        else:
            self.answer(204)

    def do_GET(self):  # the name is http.server's
        token, body = stored.get(self.path, (0, b""))
        self.answer(200 if token else 404, body)

    def log_message(self, *_):
        pass


if __name__ == "__main__":
    server = http.server.ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1]) if len(sys.argv) > 1 else 0), Handler)
    print(server.server_address[1], flush=True)
    server.serve_forever()
