"""The pages of the server, for people in a browser.

`sessions` lets a browser sign in, `api_client` asks the API of the same process, `views` says what each page shows, and
`site` has the routes. Each page shows what a path of the API answers to the same caller, its twin; no page knows more.

>>> from datalog_gate.doors.server.pages.views import VIEWS
>>> [view.path for view in VIEWS][:3]
['/pages', '/pages/decisions', '/pages/decisions/{decision}']
"""
