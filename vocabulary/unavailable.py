"""What a store or a journal raises when the same call may do better later. Who imports neither can tell, too."""


class Unavailable(Exception):
    """Nothing is wrong with the call. Raised only as the error of a part, which has a code."""
