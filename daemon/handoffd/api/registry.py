"""Every method of the socket, by name."""

from handoffd.api.handlers import (
    down,
    inject,
    pause,
    save,
    sessions,
    show,
    status,
    unpause,
    watch,
    why,
)
from handoffd.api.method import Method

METHODS: dict[str, Method] = {
    module.METHOD.name: module.METHOD
    for module in (status, show, why, save, inject, sessions, watch, pause, unpause, down)
}
