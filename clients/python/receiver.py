"""A receiver of berth's webhooks: checks each, answers at once, and works afterwards.

    WEBHOOK_SECRET=… PORT=9000 python3 receiver.py

WEBHOOK_SECRET is the secret of the account's webhook. WEBHOOK_SECRETS has those of directories with one of their own, as
JSON: {"<directory id>": "<secret>"}.
"""

import json
import os
import queue
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from berth_webhooks import WebhookError, verify_webhook

SHARED = os.environ.get("WEBHOOK_SECRET") or None
SECRETS = json.loads(os.environ.get("WEBHOOK_SECRETS") or "{}")
if SHARED is None and not SECRETS:
    raise SystemExit("neither WEBHOOK_SECRET nor WEBHOOK_SECRETS is set")
LARGEST = 1 << 20

# The webhooks that were taken. Keep their ids in your database instead: memory forgets them at a restart.
taken = set()
lock = threading.Lock()
jobs = queue.SimpleQueue()


def secret_of(directory):
    return SECRETS.get(directory, SHARED)


class Receiver(BaseHTTPRequestHandler):
    timeout = 10

    def do_POST(self):
        length = int(self.headers.get("content-length", 0))
        if length > LARGEST:
            return self.answer(413)
        # Over the raw body: JSON that was parsed and written again has other bytes.
        try:
            event = verify_webhook(self.rfile.read(length), self.headers, secret_of)
        except WebhookError:
            return self.answer(401)
        with lock:
            is_new = self.headers["webhook-id"] not in taken
            taken.add(self.headers["webhook-id"])
        # berth waits for 5 s, and then repeats the webhook.
        self.answer(204)
        # There is no file behind a test. Other events have to be asked for.
        if is_new and event.get("event") == "file.uploaded" and not event.get("test"):
            jobs.put(event)

    def answer(self, status):
        self.send_response(status)
        self.end_headers()

    def log_message(self, *_):
        pass


def work():
    while True:
        event = jobs.get()
        print(f"uploaded {event['filename']}", flush=True)


threading.Thread(target=work, daemon=True).start()
server = ThreadingHTTPServer(("", int(os.environ.get("PORT", "9000"))), Receiver)
print("listening", flush=True)
server.serve_forever()
