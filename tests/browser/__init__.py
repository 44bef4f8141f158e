"""The pages in a real Chromium, against a real daemon; `screenshots.py` takes the pictures of the documentation."""
