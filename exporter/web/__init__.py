"""The HTTP side: routes over the current View, and the server around them."""
