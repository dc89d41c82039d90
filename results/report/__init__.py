"""The page: one offline, interactive HTML file about one or more sweeps."""
