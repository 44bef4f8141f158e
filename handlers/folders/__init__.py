"""Handlers that are folders: how an archive is read, what names its files may have, and how the folder is listed.

Pure and without I/O, and nothing here waits: whoever calls it has the bytes, and calls from a worker thread. Whatever
an archive says is hostile: sizes, counts, names and lengths are checked before anything is built from them.

  limits.py     how much of a folder is taken
  names.py      names of files: what is refused, and which of them collide
  member.py     what an archive has: a file or a folder, with its bytes in pieces
  tar.py, zip.py   the two formats, read as strictly as they are written by ordinary programs
  archive.py    an archive read whole: every file listed with the digests of its pieces
  manifest.py   the list of a folder's files; its digest names the folder
  project.py    `functory.toml` and the entry file: the fields of the handler
"""
