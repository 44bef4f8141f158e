"""What travels over HTTP, declared once: these types validate requests, encode answers, make `/openapi.json`, and are
what the client hands out. Values only; nothing here does anything.

Times are whole milliseconds UTC and named `..._ms`; durations are seconds and named `..._s`. Bytes that are text travel
as text, others in base64, and the field beside them says which (`Encoding`).
"""
