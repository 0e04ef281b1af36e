"""An application whose handler says something through the worker's log."""

from relevo import Context, Fail, Relevo

app = Relevo()


@app.job("talking.job")
def talk(ctx: Context, word: str) -> None:
    """Say a word with a control character in it."""
    ctx.log.info("\x1b[31m%s", word)


@app.job("talking.failure")
def give_up(ctx: Context) -> Fail:
    """Fail at once."""
    return Fail("no use")
