"""tbd"""


def improve(search, slots, form):
    pass
