"""A text that went through a form and came back.

A form knows one end of a line: whatever a text had, browsers show and send it as a line feed. Ensures: a text that
nobody changed comes back as it was, and one that ended all its lines with CRLF still does.
"""


def is_typable(text: str) -> bool:
    """Whether a form can hold the text: a carriage return within a line would be lost with the first change."""
    return "\r" not in text.replace("\r\n", "\n")


def as_stored(text: str, before: str) -> str:
    """The text of a form with the line ends that it had before it was shown there."""
    plain = before.replace("\r\n", "\n")
    if text == plain.replace("\r", "\n"):
        return before
    has_only_crlf = "\n" in plain and plain.count("\n") == before.count("\r\n")
    return text.replace("\n", "\r\n") if has_only_crlf else text
