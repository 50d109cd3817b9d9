"""ModelArts' training API: its jobs are runs of the server, its clients work unchanged."""
