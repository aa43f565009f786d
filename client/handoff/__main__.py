import sys

from handoff.fast import main

main("handoff", sys.argv[1:])
