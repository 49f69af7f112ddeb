#!/usr/bin/env python3
"""Exit with 0 if the service of this container answers /healthz; the health check of the container file."""

import http.client
import os
import ssl

port, tls = int(os.environ.get("DRIFTRANK_PORT", "8080")), "DRIFTRANK_TLS_CERT" in os.environ
if tls:  # the certificate is of another name than 127.0.0.1
    connection = http.client.HTTPSConnection("127.0.0.1", port, timeout=2, context=ssl._create_unverified_context())
else:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=2)
connection.request("GET", "/healthz")
status = connection.getresponse().status
if status != 200:
    raise SystemExit(f"/healthz answered {status}")
