"""`plait completion`: the script by which a shell completes commands and options."""

from __future__ import annotations

import click

_VARIABLE = "_PLAIT_COMPLETE"


@click.command(epilog="\b\nExample: plait completion bash > ~/.local/share/bash-completion/completions/plait")
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(ctx: click.Context, shell: str) -> None:
    """Print the completion script of a shell.

    \b
    bash: plait completion bash > ~/.local/share/bash-completion/completions/plait
    zsh:  plait completion zsh > "${fpath[1]}/_plait"
    fish: plait completion fish > ~/.config/fish/completions/plait.fish
    """
    from click.shell_completion import get_completion_class

    script = get_completion_class(shell)
    assert script is not None, "click supports the shells listed"
    click.echo(script(ctx.find_root().command, {}, "plait", _VARIABLE).source())
