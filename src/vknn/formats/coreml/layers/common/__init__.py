"""Windows, padding and batch axes that several families share."""
