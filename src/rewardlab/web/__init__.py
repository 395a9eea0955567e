"""One web page for all boards: server-rendered, little script."""
