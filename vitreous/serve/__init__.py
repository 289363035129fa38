"""HTTP service and web page: `vitreous serve`.

A request passes through `server` (connections and their timeouts), `middleware` (access, headers, access log), `app`
(routes), `body` (reading and validation) and `service` (the work). `clients` bounds what one client may use.
`models` predicts and explains in batches; `uploads`, `patterns`, `index_worker` and `identify_worker` read files,
search for unit cells and identify phases in the processes of `workers`. `requests` and `responses` are the schemas,
`openapi` describes them; `page/` is the web page.
"""
