"""The HTTP interface on a real store, a real journal and a real socket; only the seams are fakes."""
