"""Handlers that are folders, between the archive that a tenant sends and the context that runs it.

contents.py    files of folders in the store: pieces by digest, and the list of them that names the folder
packing.py     a folder of this machine as an archive, and one of the store as a tar
unpacked.py    folders of the store as read-only trees in the data directory, for contexts
starter.py     a first handler to change; examples.py the examples of a folder, and whether a run gives what they expect
local.py       a folder that is run without a service
collecting.py  what no version refers to any more is removed, from the store and from the disk
"""
