import argparse

from handoff.common.plain_text import PlainText

EXAMPLE = (
    "handoff completion bash > ~/.local/share/bash-completion/completions/handoff\n\n"
    "bash: as above (the package bash-completion reads that directory), or source the file\n"
    "      in ~/.bashrc.\n"
    "zsh:  handoff completion zsh > ~/.zfunc/_handoff, and in ~/.zshrc, before compinit:\n"
    "      fpath+=~/.zfunc\n"
    "fish: handoff completion fish > ~/.config/fish/completions/handoff.fish"
)


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("shell", choices=("bash", "zsh", "fish"), help="whose completion to print")


def run(given: argparse.Namespace) -> int:
    from handoff.completion import SHELLS

    print(PlainText(SHELLS[given.shell]()), end="")
    return 0
