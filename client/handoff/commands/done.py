import argparse

from handoff.item_closing import add_item, close_item

EXAMPLE = "handoff done 2"


def arguments(parser: argparse.ArgumentParser) -> None:
    add_item(parser)


def run(given: argparse.Namespace) -> int:
    return close_item("done", given)
