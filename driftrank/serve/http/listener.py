"""The socket on which the service listens: an address with a port, or a Unix socket."""

from __future__ import annotations

import os
import socket
import stat
import sys
from contextlib import suppress

from driftrank.serve.settings.server import ServerSettings

#: an option of Linux, which Python has a name for since 3.12
_TCP_NOTSENT_LOWAT = 25
#: bytes of answers that the system takes of a connection beyond what its client is ready to receive
_UNSENT = 65_536


def open_listener(settings: ServerSettings) -> socket.socket:
    """A listening socket, opened first so that a wrong address is reported before anything else is done."""
    if settings.socket is not None:
        return _unix(settings.socket)
    return _internet(settings.host, settings.port)


def url_of(listener: socket.socket, settings: ServerSettings) -> str:
    """The address for clients."""
    if settings.socket is not None:
        return f"unix:{settings.socket}"
    host, port = listener.getsockname()[:2]
    scheme = "http" if settings.tls_cert is None else "https"
    return f"{scheme}://{f'[{host}]' if ':' in host else host}:{port}"


def allow_files(n: int) -> None:
    """Allow the process to open this many files, as far as the system permits."""
    with suppress(ImportError, ValueError, OSError):  # no such limits on Windows
        import resource

        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        if soft != resource.RLIM_INFINITY and soft < n:
            most = n if hard == resource.RLIM_INFINITY else min(n, hard)
            resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))


def _internet(host: str, port: int) -> socket.socket:
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    except socket.gaierror as error:
        raise ValueError(f"host={host!r}: cannot be resolved ({error.strerror})") from None
    except UnicodeError as error:  # not a valid host name
        raise ValueError(f"host={host!r}: {error}") from None
    listener = socket.socket(family, kind, protocol)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if sys.platform == "linux":  # for its connections: the system holds megabytes of unread answers otherwise
            listener.setsockopt(socket.IPPROTO_TCP, _TCP_NOTSENT_LOWAT, _UNSENT)
        listener.bind(address)
        listener.listen(2048)
    except OSError as error:
        listener.close()
        raise OSError(error.errno, f"cannot listen on {host}:{port}: {error.strerror}") from None
    return listener


def _unix(path: str) -> socket.socket:
    """A Unix socket for this user and its group: whoever may open it has access, without a key to everything."""
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        _remove_unused(path)
        before = os.umask(0o117)
        try:
            listener.bind(path)
        finally:
            os.umask(before)
        listener.listen(2048)
    except OSError as error:
        listener.close()
        raise OSError(error.errno, f"cannot listen on {path}: {error.strerror or error}") from None
    return listener


def _remove_unused(path: str) -> None:
    """Remove a socket that a killed process has left; any other file stays, and binding fails."""
    with suppress(FileNotFoundError):
        if not stat.S_ISSOCK(os.stat(path).st_mode):
            return
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
            try:
                probe.connect(path)
            except ConnectionRefusedError:
                os.unlink(path)
