"""HTTP service and web page: `vitreous serve`.

A request passes through `server` (connection timeouts), `middleware` (access, limits, headers), `app` (routes), `body`
(reading and validation) and `service` (the work). `models` predicts and explains in batches; `uploads` and
`index_worker` read files and search for unit cells in the processes of `workers`. `requests` and `responses` are the
schemas, `openapi` describes them, and `page/` is the web page.
"""
