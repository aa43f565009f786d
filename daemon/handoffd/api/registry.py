"""Every method of the socket, by name."""

from handoffd.api.handlers import (
    close,
    down,
    escalate,
    forget,
    inject,
    pause,
    review,
    save,
    sessions,
    show,
    status,
    unpause,
    watch,
    why,
)
from handoffd.api.handlers import list as list_
from handoffd.api.handlers import open as open_
from handoffd.api.method import Method

METHODS: dict[str, Method] = {
    module.METHOD.name: module.METHOD
    for module in (
        status,
        show,
        why,
        save,
        inject,
        sessions,
        watch,
        open_,
        list_,
        close,
        escalate,
        review,
        pause,
        unpause,
        forget,
        down,
    )
}
