"""A bare watchdog observer with the daemon's event filter: prints when it saw each append.

A process of its own, run by latency.py: watcher.py DIRECTORY
"""

import sys
import time

from watchdog.events import FileSystemEvent, FileSystemEventHandler
from watchdog.observers import Observer

from handoffd.ingest.file_observer import EVENTS


class Handler(FileSystemEventHandler):
    def on_any_event(self, _event: FileSystemEvent) -> None:
        moment = time.monotonic()
        sys.stdout.write(f"{moment!r}\n")
        sys.stdout.flush()


def main() -> None:
    observer = Observer()
    observer.schedule(Handler(), sys.argv[1], event_filter=EVENTS)
    observer.start()
    print("ready", flush=True)
    sys.stdin.read()  # until our parent closes it
    observer.stop()
    observer.join(2)


main()
