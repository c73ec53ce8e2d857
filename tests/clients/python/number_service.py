import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import psycopg
from psycopg_pool import ConnectionPool

SEGMENTS = {"/orders": "orders"}
pool = ConnectionPool(max_size=8, timeout=5, open=True)  # uses PGHOST, PGDATABASE etc.


class Numbers(BaseHTTPRequestHandler):
    def do_POST(self):
        if self.path not in SEGMENTS:
            return self.reply(404, "no such segment\n")
        try:
            with pool.connection() as connection:
                query = "SELECT snowflake_segment_nextval(%s)"
                (number,) = connection.execute(query, [SEGMENTS[self.path]]).fetchone()
        except psycopg.Error as error:
            self.log_error("%s", error)
            return self.reply(503, "no number available\n")
        self.reply(200, f"{number}\n")

    def reply(self, status, text):
        self.send_response(status)
        self.send_header("Content-Length", str(len(text)))
        self.send_header("Cache-Control", "no-store")
        self.end_headers()
        self.wfile.write(text.encode())


ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Numbers).serve_forever()
