"""HTTP service and web page: `vitreous serve`."""
