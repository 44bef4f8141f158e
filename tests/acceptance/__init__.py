"""The product as its users meet it: real daemon processes, spoken to over HTTP and by the command line only."""
