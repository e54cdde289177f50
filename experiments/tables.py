"""Markdown tables of the experiments, and how figures stand in them."""
import math


def markdown(head, lines, text_columns=1):
    """The first columns are text, the others figures, which stand at the right."""
    rule = ["---"] * text_columns + ["---:"] * (len(head) - text_columns)
    return "\n".join("| " + " | ".join(map(str, line)) + " |" for line in (head, rule, *lines))


def digits(value):
    """Three figures that count, and no exponent."""
    if value >= 100:
        return f"{value:,.0f}"
    return f"{value:.{2 - math.floor(math.log10(value))}f}"


def seconds(value):
    """Empty where there is none."""
    if value is None or math.isnan(value):
        return ""
    return f"{digits(value * 1000)} ms" if value < 1 else f"{digits(value)} s"


def times(ratio):
    return "" if math.isnan(ratio) else f"{digits(ratio)}x"


def percent(share):
    return f"{100 * share:+.1f} %"
